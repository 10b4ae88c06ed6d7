"""One session as a scenario plays it: what the simulated model does, and what it waits for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal

from leonidas_tools.live.simulator import audio
from leonidas_tools.live.simulator.exchange import Exchange, StepFailedError
from leonidas_tools.live.simulator.template import fill

if TYPE_CHECKING:
    from leonidas_tools.live.simulator.function_call import FunctionCall
    from leonidas_tools.live.simulator.recording import Answer
    from leonidas_tools.live.simulator.user_input import InputKind, UserInput
    from leonidas_tools.live.simulator.wire import Message

WAIT_SECONDS: Final = 10.0


class SimulatedSession(Exchange):
    """The model's side of one session; a scenario in Python gets one as its argument.

    Example:
        >>> async def scenario(session: SimulatedSession) -> None:
        ...     await session.wait_for_input("text")
        ...     (answer,) = await session.call(FunctionCall("get_weather", {"city": "Lisbon"}))
        ...     assert answer.status == "ok"
        ...     await session.say("It is sunny.")
        ...     await session.turn_complete()
    """

    # What the model says.

    async def say(
        self, text: str, *, audio_seconds: float | None = None, paced: bool = False
    ) -> None:
        """Speaks: the text as output transcription, beside it a tone as audio.

        Args:
            text: What to say; `{answers.ID.KEY}` quotes from an answer.
            audio_seconds: How much audio; by default as long as the text takes to say.
            paced: Send the audio in real time instead of as fast as it goes.
        """
        try:
            spoken = fill(text, self.answers)
        except LookupError as error:
            raise StepFailedError(error.args[0]) from None
        seconds = audio.speech_seconds(spoken) if audio_seconds is None else audio_seconds
        count = round(seconds / audio.CHUNK_SECONDS)
        chunk = audio.tone_chunk() if count else ""
        pieces = audio.spread(spoken, count)
        for index, piece in enumerate(pieces):
            last = index == len(pieces) - 1
            await self._transcribe(piece, finished=last)
            if count:
                await self._send_audio(chunk)
            if paced:
                await self.pause(audio.CHUNK_SECONDS)

    async def _transcribe(self, piece: str, *, finished: bool) -> None:
        if piece or finished:
            transcription = {"text": piece, **({"finished": True} if finished else {})}
            await self.send({"serverContent": {"outputTranscription": transcription}})

    async def _send_audio(self, chunk: str) -> None:
        blob = {"mimeType": audio.MIME_TYPE, "data": chunk}
        turn = {"role": "model", "parts": [{"inlineData": blob}]}
        await self.send({"serverContent": {"modelTurn": turn}})

    async def input_transcription(self, text: str) -> None:
        """Shows what the user was understood to say."""
        await self.send({"serverContent": {"inputTranscription": {"text": text}}})

    async def interrupt(self) -> None:
        """Tells that the user has begun to speak over the model."""
        await self.send({"serverContent": {"interrupted": True}})

    async def generation_complete(self) -> None:
        """Tells that the model has generated all of its turn."""
        await self.send({"serverContent": {"generationComplete": True}})

    async def turn_complete(
        self, reason: str | None = None, *, interaction_status: str | None = None
    ) -> None:
        """Ends the model's turn.

        Args:
            reason: A `TurnCompleteReason`, such as `MALFORMED_FUNCTION_CALL`.
            interaction_status: What newer models send along, such as `IDLE`.
        """
        content: Message = {"turnComplete": True}
        if reason is not None:
            content["turnCompleteReason"] = reason
        if interaction_status is not None:
            content["interactionStatus"] = interaction_status
        await self.send({"serverContent": content})

    # Calls and their answers.

    async def call(
        self, *calls: FunctionCall, within_seconds: float = WAIT_SECONDS
    ) -> tuple[Answer, ...]:
        """Calls functions in one message and waits for their answers, in the order of the calls.

        Raises:
            StepFailedError: An answer did not come in time.
        """
        ids = await self.send_calls(*calls)
        named = [call_id for call_id in ids if call_id is not None]
        return await self.wait_for_answers(*named, within_seconds=within_seconds)

    async def send_calls(
        self, *calls: FunctionCall, in_model_turn: bool = False
    ) -> tuple[str | None, ...]:
        """Calls functions in one message, and returns their ids without waiting.

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
        if in_model_turn:
            parts = [{"functionCall": body} for body in bodies]
            await self.send({"serverContent": {"modelTurn": {"role": "model", "parts": parts}}})
        else:
            await self.send({"toolCall": {"functionCalls": bodies}})
        return tuple(body.get("id") for body in bodies)

    def _require_declared(self, call: FunctionCall) -> None:
        if call.undeclared or call.name in self._declared:
            return
        close = get_close_matches(call.name, self._declared, n=1)
        hint = f"the closest is {close[0]!r}" if close else f"it declared {sorted(self._declared)}"
        raise StepFailedError(
            f"the client declared no function {call.name!r}; {hint}. "
            "Say `undeclared: true` to call it all the same"
        )

    async def cancel(self, *ids: str) -> None:
        """Takes calls back."""
        await self.send({"toolCallCancellation": {"ids": list(ids)}})

    async def wait_for_answers(
        self, *ids: str, within_seconds: float = WAIT_SECONDS
    ) -> tuple[Answer, ...]:
        """Waits until calls have their final answers, and returns those.

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
        """Waits for the answer to a call and checks it.

        Args:
            call_id: The call.
            status: What its `status` is to be.
            response: What is to be in it; other keys are allowed, at every depth.
            within_seconds: How long to wait for it.

        Raises:
            StepFailedError: The answer is another, or did not come.
        """
        (answer,) = await self.wait_for_answers(call_id, within_seconds=within_seconds)
        if status is not None and answer.status != status:
            found = json.dumps(answer.response, ensure_ascii=False)[:300]
            raise StepFailedError(f"the status is {answer.status!r}, not {status!r}: {found}")
        if response is not None and (difference := difference_of(response, answer.response)):
            raise StepFailedError(difference)
        return answer

    # The user.

    async def wait_for_input(
        self,
        kind: InputKind | Literal["any"] = "any",
        *,
        count: int = 1,
        containing: str = "",
        within_seconds: float = WAIT_SECONDS,
    ) -> tuple[UserInput, ...]:
        """Waits until the user has sent something that no earlier wait has taken.

        Args:
            kind: What to wait for.
            count: How much of it.
            containing: What a text must contain, in any case.
            within_seconds: How long to wait.

        Raises:
            StepFailedError: It did not come in time.
        """

        def taken() -> list[UserInput]:
            return [each for each in self._inputs if _fits(each, kind, containing)][:count]

        await self._until(
            lambda: len(taken()) == count,
            within_seconds,
            lambda: f"{len(taken())} of {count} inputs ({kind}) came",
        )
        inputs = taken()
        self._inputs = [each for each in self._inputs if not any(each is one for one in inputs)]
        return tuple(inputs)

    # The session.

    async def usage(self, metadata: Mapping[str, Any]) -> None:
        """Sends usage metadata, such as `{"totalTokenCount": 10}`."""
        await self.send({"usageMetadata": dict(metadata)})

    async def session_resumption(
        self, handle: str | None = None, *, resumable: bool | None = None
    ) -> None:
        """Sends the handle with which the session can be resumed.

        Args:
            handle: The handle; None if the session cannot be resumed at this moment.
            resumable: Whether it can be; by default, whether there is a handle.
        """
        update: Message = {} if handle is None else {"newHandle": handle}
        update["resumable"] = handle is not None if resumable is None else resumable
        await self.send({"sessionResumptionUpdate": update})

    async def go_away(self, time_left_seconds: float) -> None:
        """Warns that the connection ends soon; ending it is another step."""
        await self.send({"goAway": {"timeLeft": f"{time_left_seconds:g}s"}})


def _fits(each: UserInput, kind: str, containing: str) -> bool:
    return kind in {"any", each.kind} and containing.casefold() in each.text.casefold()


def difference_of(wanted: Any, found: Any, path: str = "response") -> str:
    """Where a value lacks what is wanted of it; empty if it has it all.

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
