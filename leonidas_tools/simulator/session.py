"""One session as a scenario plays it: the actions of the simulated model, and its waits."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.simulator.audio import (
    CHUNK_SECONDS,
    MIME_TYPE,
    chunks_of,
    read_wav,
    speech_seconds,
    spread,
    tone,
)
from leonidas_tools.simulator.listener import PlannedRefusal
from leonidas_tools.simulator.protocol import INTERNAL, functions_in
from leonidas_tools.simulator.refusals import behavior_of
from leonidas_tools.simulator.template import fill
from leonidas_tools.simulator.wire import Message, fields, objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from leonidas_tools.simulator.connection import ServerConnection
    from leonidas_tools.simulator.function_call import FunctionCall
    from leonidas_tools.simulator.generations import Quirks
    from leonidas_tools.simulator.ledger import CallLedger
    from leonidas_tools.simulator.recording import (
        Answer,
        CallRecord,
        ConnectionRecord,
        ContextUpdate,
    )
    from leonidas_tools.simulator.user_input import InputKind, UserInput
    from leonidas_tools.simulator.wire import Message

logger = visible_logger(__name__)


class StepFailedError(Exception):
    """Raised when an expectation of a scenario is not met, or a step cannot be played."""


class ClientLeftError(Exception):
    """Raised in a scenario when the client has disconnected."""


WAIT_SECONDS: Final = 10.0
_MAX_SHOWN_LENGTH = 300
"""Characters of an unexpected answer that an error shows."""


_IN_PROGRESS = "IN_PROGRESS"
_IDLE = "IDLE"


class SimulatedSession:
    """The model's side of one session; a scenario in Python gets one as its argument.

    Example:
        >>> async def scenario(session: SimulatedSession) -> None:
        ...     await session.wait_for_input("text")
        ...     (answer,) = await session.call(FunctionCall("get_weather", {"city": "Lisbon"}))
        ...     assert answer.status == "ok"
        ...     await session.say("It is sunny.")
        ...     await session.turn_complete()
    """

    def __init__(
        self,
        *,
        origin: ConnectionRecord,
        setup: Message,
        connection: ServerConnection,
        ledger: CallLedger,
        speed: float,
        quirks: Quirks,
    ) -> None:
        self.setup = setup
        self._lost_calls = set(origin.lost_calls if quirks.awaits_lost_calls else ())
        self._replying = False
        self._not_transcribed: set[str] = set()
        self._origin = origin
        self._connection = connection
        self._ledger = ledger
        self._speed = speed
        self._quirks = quirks
        self._declared = functions_in(setup.get("tools"))
        self._inputs: list[UserInput] = []
        self._updates: list[ContextUpdate] = []
        self._progress: list[str] = []
        self._changed = asyncio.Event()
        self._left = asyncio.Event()
        self._calls_sent = 0

    # Identity.

    @property
    def number(self) -> int:
        """Return which connection this is, counted from 1."""
        return self._origin.number

    @property
    def session(self) -> int:
        """Return which session the connection belongs to, counted from 1."""
        return self._origin.session

    @property
    def resumed_from(self) -> int | None:
        """Return the session's previous connection; None if the session is new."""
        return self._origin.resumed_from

    @property
    def declared(self) -> Mapping[str, Message]:
        """Return the current declarations, by function name."""
        return dict(self._declared)

    # Called by the connection.

    def receive(self, inputs: Iterable[UserInput], update: ContextUpdate | None) -> None:
        """Add input that the client has sent."""
        for each in inputs:
            if self._lost_calls and each.kind == "text":
                logger.warning(
                    "The resumed session waited for responses to the lost calls %s: the text %r "
                    "ends the wait, and is not answered",
                    ", ".join(sorted(map(repr, self._lost_calls))),
                    each.text,
                )
                self._lost_calls.clear()
            else:
                self._inputs.append(each)
        if update is not None:
            self._updates.append(update)
            if update.tools is not None:
                self._declared = dict(update.tools)
        self._changed.set()

    def note_progress(self, tool: str) -> None:
        """Record that a tool has reported progress."""
        self._progress.append(tool)
        self._changed.set()

    def leave(self) -> None:
        """Record that the client has disconnected, which ends all waits for it."""
        self._left.set()
        self._changed.set()

    @property
    def answers(self) -> dict[str, Answer]:
        """Return the last answer to each call of this connection, by id."""
        return {
            record.id or record.answers[-1].id or record.name: record.answers[-1]
            for record in self._ledger.of(self.number)
            if record.answers
        }

    @property
    def pending(self) -> tuple[str, ...]:
        """Return the ids of the calls that still await their answer."""
        return tuple(record.id for record in self._pending() if record.id is not None)

    @property
    def is_blocked(self) -> bool:
        """Return whether a BLOCKING call still awaits its answer."""
        return bool(self._blocking())

    def _pending(self) -> list[CallRecord]:
        return [record for record in self._ledger.of(self.number) if record.pending]

    def _record(self, call_id: str) -> CallRecord:
        record = self._ledger.find(self.number, call_id)
        if record is None:
            raise StepFailedError(f"no call {call_id!r} was sent on this connection")
        return record

    async def pause(self, seconds: float) -> None:
        """Pause for some seconds; a higher speed shortens the pause."""
        try:
            async with asyncio.timeout(seconds / self._speed):
                await self._left.wait()
        except TimeoutError:
            return
        raise ClientLeftError

    async def send(self, message: Mapping[str, Any] | str) -> None:
        """Send a raw message; a text is sent as a frame even if it is not JSON.

        Calls and cancellations in it are recorded like any other.
        """
        if isinstance(message, str):
            await self._connection.send(message)
            return
        self._note_calls(message)
        cancelled = _ids_in(message.get("toolCallCancellation"))
        self._ledger.cancelled(self.number, cancelled)
        await self._connection.send(dict(message))
        if cancelled:
            self._connection.confirm_cancellation(cancelled)

    def _note_calls(self, message: Mapping[str, Any]) -> None:
        turn = fields(fields(message.get("serverContent")).get("modelTurn"))
        calls = objects(fields(message.get("toolCall")).get("functionCalls"))
        calls += [fields(part.get("functionCall")) for part in objects(turn.get("parts"))]
        for call in calls:
            if call.get("name"):
                self._note_call(call, id_sent=True)

    def _note_call(self, call: Message, *, id_sent: bool) -> None:
        self._calls_sent += 1
        name = call["name"]
        said = behavior_of(self._declared.get(name, {}))
        self._ledger.sent(
            self.number,
            call.get("id"),
            name,
            call.get("args"),
            blocking=(said or self._quirks.default_behavior) == "BLOCKING",
            id_sent=id_sent,
        )

    async def _until(
        self, ready: Callable[[], bool], within_seconds: float, what: Callable[[], str]
    ) -> None:
        """Wait for the client in real time."""
        deadline = time.monotonic() + within_seconds
        while not ready():
            if self._left.is_set():
                raise ClientLeftError(what())
            left_seconds = deadline - time.monotonic()
            if left_seconds <= 0:
                raise StepFailedError(f"{what()} within {within_seconds:g} s (within_seconds)")
            self._changed.clear()
            try:
                async with asyncio.timeout(left_seconds):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def call(
        self, *calls: FunctionCall, within_seconds: float = WAIT_SECONDS
    ) -> tuple[Answer, ...]:
        """Call functions in one message and wait for their answers, in the order of the calls.

        Raises:
            StepFailedError: An answer did not come in time.
        """
        ids = await self.send_calls(*calls)
        named = [call_id for call_id in ids if call_id is not None]
        return await self.wait_for_answers(*named, within_seconds=within_seconds)

    async def send_calls(
        self, *calls: FunctionCall, in_model_turn: bool = False
    ) -> tuple[str | None, ...]:
        """Call functions in one message and return their ids without waiting.

        Args:
            calls: The calls.
            in_model_turn: Send them as parts of a model turn instead of a tool call.

        Raises:
            StepFailedError: The client declared no such function.
        """
        for call in calls:
            self._require_declared(call)
        first = self._calls_sent + 1
        bodies = [call.to_wire(first + index) for index, call in enumerate(calls)]
        for body in bodies:
            self._note_call(body, id_sent=self._quirks.call_ids)
        wire = bodies
        if not self._quirks.call_ids:
            wire = [{key: body[key] for key in body if key != "id"} for body in bodies]
        await self._begin_reply()
        if in_model_turn:
            parts = [{"functionCall": body} for body in wire]
            await self._connection.send(
                {"serverContent": {"modelTurn": {"role": "model", "parts": parts}}}
            )
        else:
            await self._connection.send({"toolCall": {"functionCalls": wire}})
        self._replying = False
        if self._quirks.call_ends_turn and not in_model_turn:
            await self.generation_complete()
            await self._end_turn({})
        await self._offer_handle()
        return tuple(body.get("id") for body in bodies)

    def _require_declared(self, call: FunctionCall) -> None:
        if call.undeclared or call.name in self._declared:
            return
        close = get_close_matches(call.name, self._declared, n=1)
        hint = f"the closest is {close[0]!r}" if close else f"it declared {sorted(self._declared)}"
        raise StepFailedError(
            f"the client declared no function {call.name!r}; {hint}. "
            "Add the tool to the session; if it is of an MCP server, wait until that has started: "
            "`await tools.ready()`; if the agent has it, a rule or a setting hides or "
            f"denies it: `leonidas policy explain {call.name} --config FILE` says which. "
            "To call it all the same, write `undeclared: true` in the step"
        )

    async def cancel(self, *ids: str) -> None:
        """Cancel calls.

        Raises:
            StepFailedError: A call was sent without its id.
        """
        for call_id in ids:
            record = self._ledger.find(self.number, call_id)
            if record is not None and not record.id_sent:
                raise StepFailedError(f"call {call_id!r} was sent without its id")
        await self.send({"toolCallCancellation": {"ids": list(ids)}})

    async def wait_for_answers(
        self, *ids: str, within_seconds: float = WAIT_SECONDS
    ) -> tuple[Answer, ...]:
        """Wait until calls have their final answers and return those.

        Args:
            ids: The calls; without any, all that are pending.
            within_seconds: How long to wait.

        Raises:
            StepFailedError: An answer did not come in time, or there is no such call.
        """
        wanted = ids or self.pending
        for call_id in wanted:
            self._record(call_id)

        def missing() -> list[str]:
            return [each for each in wanted if not self._record(each).final_answers]

        await self._until(
            lambda: not missing(),
            within_seconds,
            lambda: f"no answer to {', '.join(map(repr, missing()))}",
        )
        return tuple(self._record(call_id).final_answers[0] for call_id in wanted)

    async def expect(
        self,
        call_id: str,
        *,
        status: str | None = None,
        response: Mapping[str, Any] | None = None,
        within_seconds: float = WAIT_SECONDS,
    ) -> Answer:
        """Wait for the answer to a call and check it.

        Args:
            call_id: The call.
            status: The expected `status`.
            response: The expected content; other keys are allowed, at every depth.
            within_seconds: How long to wait for it.

        Raises:
            StepFailedError: The answer is another, or did not come.
        """
        (answer,) = await self.wait_for_answers(call_id, within_seconds=within_seconds)
        if status is not None and answer.status != status:
            found = json.dumps(answer.response, ensure_ascii=False)
            if len(found) > _MAX_SHOWN_LENGTH:
                found = f"{found[:_MAX_SHOWN_LENGTH]}…"
            raise StepFailedError(f"the status is {answer.status!r}, not {status!r}: {found}")
        if response is not None and (difference := difference_of(response, answer.response)):
            raise StepFailedError(difference)
        return answer

    # Resumption.

    async def session_resumption(
        self, handle: str | None = None, *, resumable: bool | None = None
    ) -> None:
        """Send the handle with which the session can be resumed.

        Args:
            handle: The handle; None if the session cannot be resumed at this moment.
            resumable: Whether the session can be resumed; by default, whether there is a handle.
        """
        update: Message = {}
        if handle is not None:
            self._connection.issue_handle(handle)
            update["newHandle"] = handle
        update["resumable"] = handle is not None if resumable is None else resumable
        await self.send({"sessionResumptionUpdate": update})

    async def _offer_handle(self) -> None:
        """Send a handle, or that there is none, if the server does so automatically."""
        is_asked = "sessionResumption" in self.setup or self._quirks.unasked_handles
        if not self._quirks.automatic_handles or not is_asked:
            return
        await self.session_resumption(None if self._pending() else self._connection.new_handle())

    async def answered(self, ids: Iterable[Any]) -> None:
        """Offer a handle once all calls are answered, and end the wait for lost ones."""
        lost = bool(self._lost_calls)
        self._lost_calls -= set(ids)
        if lost and not self._lost_calls:
            await self._end_turn({})
        if not self._pending():
            await self._offer_handle()

    async def say(
        self,
        text: str,
        *,
        audio: Path | str | bytes | None = None,
        audio_seconds: float | None = None,
        paced: bool = False,
    ) -> None:
        """Speak: send the text as output transcription, and a recording or a tone as audio.

        Args:
            text: The text; `{answers.ID.KEY}` quotes from an answer.
            audio: A WAV file (16-bit PCM), or 16-bit PCM at 24 kHz, one channel.
            audio_seconds: The length of the tone if there is no recording; by default the
                duration of the spoken text.
            paced: Send the audio in real time instead of as fast as possible.

        Raises:
            StepFailedError: The text quotes an unknown answer or key, or the file is unreadable.
        """
        try:
            spoken = fill(text, self.answers)
            sound = self._sound(spoken, audio, audio_seconds)
        except (LookupError, ValueError) as error:
            raise StepFailedError(error.args[0]) from None
        chunks = chunks_of(sound) or [""]
        pieces = spread(spoken, len(chunks))
        await self._begin_reply()
        for index, (piece, chunk) in enumerate(zip(pieces, chunks, strict=True), start=1):
            last = index == len(pieces)
            said = (
                self._build_transcription("outputTranscription", piece, last)
                if piece or last
                else {}
            )
            heard = _audio(chunk) if chunk else {}
            joined = [{**heard, **said}] if self._quirks.joined_transcription else [said, heard]
            for content in filter(None, joined):
                await self.send({"serverContent": content})
            if paced:
                await self.pause(CHUNK_SECONDS)
        if self._quirks.interaction_status:
            await self._end_turn({"interactionStatus": _IN_PROGRESS})

    def _sound(self, text: str, audio: Path | str | bytes | None, seconds: float | None) -> bytes:
        if isinstance(audio, bytes):
            return audio
        if audio is not None:
            return read_wav(Path(audio))
        return tone(speech_seconds(text) if seconds is None else seconds)

    async def _begin_reply(self) -> None:
        if self._replying:
            return
        self._replying = True
        if self._quirks.thoughts:
            thought = {"text": "**Thinking**", "thought": True}
            await self.send({"serverContent": {"modelTurn": {"parts": [thought]}}})
        if self._quirks.empty_messages:
            await self.send({"serverContent": {}})

    def _build_transcription(
        self,
        field: Literal["inputTranscription", "outputTranscription"],
        text: str,
        finished: bool,
    ) -> Message:
        self._check_transcription(field.replace("T", "AudioT"))
        return {field: {"text": text, **({"finished": True} if finished else {})}}

    def _check_transcription(self, option: str) -> None:
        if option in self.setup or option in self._not_transcribed:
            return
        self._not_transcribed.add(option)
        logger.warning(
            "The client has not set %s: Gemini would send no transcription, which approvals by "
            "voice need",
            option,
        )

    async def input_transcription(self, text: str, *, finished: bool = False) -> None:
        """Send a transcription of the user's speech.

        Args:
            text: The transcription.
            finished: Whether the user has finished speaking.
        """
        heard = self._build_transcription("inputTranscription", text, finished)
        await self.send({"serverContent": heard})

    async def interrupt(self, *, cancel: bool = False) -> None:
        """Signal that the user interrupts the model.

        Args:
            cancel: Also cancel the pending calls.
        """
        await self.send({"serverContent": {"interrupted": True}})
        ids = [each.id for each in self._pending() if each.id_sent and each.id is not None]
        if cancel and ids:
            await self.cancel(*ids)

    async def generation_complete(self) -> None:
        """Signal that the model has generated its whole turn."""
        await self.send({"serverContent": {"generationComplete": True}})

    async def turn_complete(
        self,
        reason: str | None = None,
        *,
        interaction_status: str | None = None,
        within_seconds: float = WAIT_SECONDS,
    ) -> None:
        """End the model's turn, if necessary after the answers to BLOCKING calls.

        Args:
            reason: A `TurnCompleteReason`, such as `MALFORMED_FUNCTION_CALL`.
            interaction_status: The status that newer models send along, by default `IDLE`.
            within_seconds: How long to wait for answers.

        Raises:
            StepFailedError: An answer did not come in time.
        """
        if self._quirks.turn_waits_for_answers:
            await self._until(
                lambda: not self._blocking(),
                within_seconds,
                lambda: f"no turnComplete before the answer to {', '.join(self._blocking())}",
            )
        content: Message = {}
        if reason is not None:
            content["turnCompleteReason"] = reason
        if status := interaction_status or (_IDLE if self._quirks.interaction_status else None):
            content["interactionStatus"] = status
        await self._end_turn(content)
        await self._offer_handle()

    def _blocking(self) -> list[str]:
        return [repr(each.id or each.name) for each in self._pending() if each.blocking]

    async def _end_turn(self, content: Message) -> None:
        self._replying = False
        await self.send({"serverContent": {"turnComplete": True, **content}})

    # The client.

    async def wait_for_input(
        self,
        kind: InputKind | Literal["any"] = "any",
        *,
        count: int = 1,
        containing: str = "",
        within_seconds: float = WAIT_SECONDS,
    ) -> tuple[UserInput, ...]:
        """Wait for input of the user that no earlier wait has returned.

        Args:
            kind: The kind of input to wait for.
            count: The number of inputs.
            containing: Text that a text must contain, ignoring case.
            within_seconds: How long to wait.

        Raises:
            StepFailedError: The input did not arrive in time.
        """

        def matching_inputs() -> list[UserInput]:
            return [each for each in self._inputs if _fits(each, kind, containing)][:count]

        await self._until(
            lambda: len(matching_inputs()) == count,
            within_seconds,
            lambda: f"{len(matching_inputs())} of {count} inputs ({kind}) arrived",
        )
        inputs = matching_inputs()
        self._inputs = [each for each in self._inputs if not any(each is one for one in inputs)]
        return tuple(inputs)

    async def wait_for_context_update(
        self, declaring: str = "", *, within_seconds: float = WAIT_SECONDS
    ) -> ContextUpdate:
        """Wait for the next context update that no earlier wait has returned.

        Args:
            declaring: A function that the update must declare; empty for any update.
            within_seconds: How long to wait.

        Raises:
            StepFailedError: The update did not arrive in time.
        """

        def matching_updates() -> list[ContextUpdate]:
            return [
                each for each in self._updates if not declaring or declaring in (each.tools or {})
            ]

        what = f" that declares {declaring!r}" if declaring else ""
        await self._until(
            lambda: bool(matching_updates()),
            within_seconds,
            lambda: f"no context update{what} came",
        )
        update = matching_updates()[0]
        self._updates = self._updates[self._updates.index(update) + 1 :]
        return update

    async def wait_for_progress(self, tool: str, *, within_seconds: float = WAIT_SECONDS) -> None:
        """Wait until a tool reports progress that no earlier wait has returned, so that it runs.

        Args:
            tool: The tool.
            within_seconds: How long to wait.

        Raises:
            StepFailedError: No progress came in time.
        """
        await self._until(
            lambda: tool in self._progress,
            within_seconds,
            lambda: f"no `ctx.progress` of {tool!r} was passed on by `note_progress`",
        )
        self._progress = self._progress[self._progress.index(tool) + 1 :]

    async def wait_for_close(self, *, within_seconds: float = WAIT_SECONDS) -> None:
        """Wait until the client has closed the connection, as a goAway requests.

        Raises:
            StepFailedError: The client did not close it, or the server did.
        """
        await self._until(
            self._left.is_set, within_seconds, lambda: "the client did not close the connection"
        )
        if self._connection.ended:
            raise StepFailedError("the server closed the connection, not the client")

    # The session.

    async def usage(self, metadata: Mapping[str, Any]) -> None:
        """Send usage metadata, such as `{"totalTokenCount": 10}`."""
        await self.send({"usageMetadata": dict(metadata)})

    async def expire_handles(self) -> None:
        """Expire all handles of this session that were sent so far."""
        self._connection.expire_handles()

    async def go_away(self, time_left_seconds: float, *, close: bool = False) -> None:
        """Warn that the connection ends soon.

        Args:
            time_left_seconds: The time left, by the loop's clock; the speed does not shorten it.
            close: Close the connection when the time is over, with 1011 as reported of real
                servers; otherwise closing it needs another step.
        """
        await self.send({"goAway": {"timeLeft": f"{time_left_seconds:g}s"}})
        if close:
            self._connection.close_later(
                time_left_seconds, INTERNAL, "the time left after goAway is over"
            )

    # The connection, and later connections.

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection with a closing handshake."""
        await self._connection.close(code, reason)

    async def drop(self) -> None:
        """Drop the connection without a close frame, as a lost network does."""
        self._connection.drop()

    async def stall_pongs(self, seconds: float) -> None:
        """Ignore the client for some seconds, pings included; the scenario continues.

        Args:
            seconds: The duration, by the loop's clock; the speed does not shorten it.
        """
        self._connection.ignore_client(seconds)

    async def go_silent(self) -> None:
        """Ignore the client and send nothing until it has dropped the connection."""
        self._connection.ignore_client(None)
        await self._left.wait()

    async def refuse_connections(
        self,
        count: int = 1,
        *,
        http_status: int | None = None,
        close_code: int = INTERNAL,
        reason: str = "",
    ) -> None:
        """Refuse the next connections.

        Args:
            count: The number of connections.
            http_status: The status of a refusal at the HTTP request; None to refuse after
                the setup.
            close_code: The close code of a refusal after the setup.
            reason: The reason that the client receives.
        """
        refusal = PlannedRefusal(http_status=http_status, close_code=close_code, reason=reason)
        self._connection.refuse_connections(count, refusal)

    async def stop_listening(self, seconds: float) -> None:
        """Stop listening for some seconds: new connections are refused by the network.

        Args:
            seconds: The duration, by the loop's clock; the speed does not shorten it.
        """
        self._connection.stop_listening(seconds)


def _ids_in(cancellation: Any) -> tuple[str, ...]:
    ids = fields(cancellation).get("ids")
    return tuple(each for each in ids if isinstance(each, str)) if isinstance(ids, list) else ()


def _audio(chunk: str) -> Message:
    blob = {"mimeType": MIME_TYPE, "data": chunk}
    return {"modelTurn": {"role": "model", "parts": [{"inlineData": blob}]}}


def difference_of(wanted: Any, found: Any, path: str = "response") -> str:
    """Return the first difference from the wanted value; empty if there is none.

    Example:
        >>> difference_of({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}})
        ''
        >>> difference_of({"a": {"b": 1}}, {"a": {"b": 2}})
        'response.a.b is 2, not 1'
    """
    if not isinstance(wanted, Mapping):
        return "" if wanted == found else f"{path} is {found!r}, not {wanted!r}"
    if not isinstance(found, Mapping):
        return f"{path} is {found!r}, not an object"
    for key, value in wanted.items():
        if key not in found:
            return f"{path} has no {key!r}"
        if difference := difference_of(value, found[key], f"{path}.{key}"):
            return difference
    return ""


def _fits(each: UserInput, kind: str, containing: str) -> bool:
    return kind in {"any", each.kind} and containing.casefold() in each.text.casefold()
