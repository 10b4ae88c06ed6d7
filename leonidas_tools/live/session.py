"""The loop of a live session: model → tools → model."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

from genai_processors import processor
from genai_processors.content_api import ProcessorPart

from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.transcript import Transcript
from leonidas_tools.calls.call import ToolSession
from leonidas_tools.calls.turns import Turns
from leonidas_tools.live.connection import is_closed_by_server
from leonidas_tools.live.dead_air import SilenceFiller
from leonidas_tools.live.gemini import GeminiLiveProcessor
from leonidas_tools.live.live_events import LIVE_EVENT, LiveEvents, read_typed_text
from leonidas_tools.live.messages import is_input
from leonidas_tools.live.model_input import ModelInputQueue
from leonidas_tools.live.part_queue import PartQueue, is_speech
from leonidas_tools.live.usage_limits import SessionUsage
from leonidas_tools.processors import stream
from leonidas_tools.processors.advanced import AdvancedToolProcessor
from leonidas_tools.processors.answers import (
    late_result_part,
    late_result_text,
    outcome_part,
    progress_part,
)
from leonidas_tools.processors.parts import (
    EventPart,
    StatusPart,
    call_id,
    cancelled_id,
    metadata_of,
)
from leonidas_tools.processors.requests import TOOL_REQUEST, is_request, read_only
from leonidas_tools.processors.stage import Stage
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.runtime.arguments import known_arguments_only
from leonidas_tools.runtime.runtime import runtime_of
from leonidas_tools.session.state import AgentState, StateChange

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator

    from leonidas_tools.calls.call import ToolCall, ToolResult

logger = visible_logger(__name__)

_OTHER_CONNECTION = ("connection_lost", "connection_renewed")
_CLOSING_SECONDS = 30.0
"""Seconds in which the model may say goodbye at a limit."""

CALLS_SUBSTREAM = "function_call"
"""Substream of calls, responses and cancellations; upstream uses the same name."""

_HANDED_ON = "handed_on"


class LiveToolSession(Stage):
    """Connects a live model to tools: microphone in, speech out, calls answered.

    The model reads the input merged with the function responses; its output passes through the
    tools. The listener receives calls, responses and cancellations in the substream
    `function_call`.

    Only the model calls tools, and only the tools answer: a function call, a function response or a
    cancellation in the input is dropped. The model receives the input of the default substream and
    of `realtime`; parts of other substreams go to the listener.

    Args:
        model: A bidirectional processor, such as genai-processors' `LiveProcessor`.
        tools: A processor that answers function calls, such as an `AdvancedToolProcessor`. A
            `GeminiLiveProcessor` without tools of its own declares them.
        session: State that the calls of this conversation share; the audio output reads it, too.
        settle_seconds: Seconds to wait, after the end of the input, for the model to reply to the
            last response.
        allow_requests: Whether requests in the input (`tool_request`) may change tools, settings
            and the cache. Else they may only read. A part that was read from JSON is no request.

    Raises:
        TypeError: An argument is of a wrong type; the message says what to give.
        google.genai.errors.APIError: The connection was lost; raised to the reader of the stream.
    """

    @known_arguments_only
    def __init__(
        self,
        model: processor.Processor,
        tools: processor.Processor | processor.PartProcessor,
        *,
        session: ToolSession | None = None,
        settle_seconds: float = 10.0,
        allow_requests: bool = False,
    ) -> None:
        _check_arguments(model, tools)
        self.allow_requests = allow_requests
        self.model = model
        self.tools = tools.to_processor()
        self.session = session or ToolSession()
        self.settle_seconds = settle_seconds

    async def call(self, content: processor.ProcessorStream) -> AsyncIterable[ProcessorPart]:
        """Yield the parts for the listener from a stream of the user's parts."""
        loop = _Loop(self, is_traced=content.trace is not None)
        driving = processor.create_task(loop.drive(content))
        try:
            with stream.shared(session=self.session):  # later stages share the session
                async for part in loop.out.parts():
                    yield part
        finally:
            driving.cancel()
            await asyncio.wait([driving])


def _check_arguments(model: object, tools: object) -> None:
    """Reject wrong arguments now, before they fail in the middle of a conversation."""
    example = "LiveToolSession(GeminiLiveProcessor(...), AdvancedToolProcessor(tools=[...]))"
    for name, given in (("model", model), ("tools", tools)):
        if isinstance(given, type):
            raise TypeError(f"{name} is the class {given.__name__}: give an instance, as {example}")
    if runtime_of(model) is not None or isinstance(tools, GeminiLiveProcessor):
        raise TypeError(f"The model comes first and the tools second, as {example}")
    if not isinstance(model, processor.Processor):
        raise TypeError(f"model takes a live model, not {model!r}; such as {example}")
    if not isinstance(tools, processor.Processor | processor.PartProcessor):
        raise TypeError(f"tools takes a processor, not {tools!r}; such as {example}")


class _Loop:
    """One run of a session."""

    def __init__(self, live: LiveToolSession, *, is_traced: bool) -> None:
        tools, session = live.tools, live.session
        runtime = runtime_of(tools)
        self._model = live.model
        self._tools = tools
        self._session = session
        self._allow_requests = live.allow_requests
        self._inbox = ModelInputQueue(live.settle_seconds)
        # A slow player must not delay function responses. So they are not routed in the generator
        # that yields, and all parts for the listener wait in a queue of their own.
        self.out = PartQueue()
        self._recorder = _TranscriptRecorder(session)
        self._events = LiveEvents(runtime, session)
        self._notices = None if runtime is None else runtime.notices
        self._silence = SilenceFiller(runtime, show=self.out.put, say=self._interim)
        self._deadline = asyncio.timeout(None)
        self._usage = None
        if runtime is not None:
            self._usage = SessionUsage(
                runtime,
                session,
                live.model,
                show=self.out.put,
                tell=self._tell_late,
                end=self._end_at_limit,
            )
        self._last_in_tools: ProcessorPart | None = None
        """The newest part that the tools have received and not yet returned."""
        self._is_traced = is_traced

    async def drive(self, content: AsyncIterable[ProcessorPart]) -> None:
        """Run the session to its end, and raise errors to the reader of the stream."""
        approvals = self._session.get(Approvals)
        ends = [
            self._session.get(AgentState).on_change(self._on_state),
            approvals.on_result(self._tell_late),
            approvals.on_outcome(self._renew),
        ]
        if self._notices is not None:
            ends.append(self._notices.join(self._session, self._tell_late))
        failure: BaseException | None = None
        self._events.tell("session_started")
        try:
            # A context of its own: a lost connection ends this context and not the caller's.
            async with processor.context():
                reading = processor.create_task(self._read(content))
                if self._usage is None or await self._usage.admits():
                    await self._converse_until_limit()
                reading.cancel()
        except Exception as error:  # noqa: BLE001 - raised to the reader of the stream
            failure = None if is_closed_by_server(error) else error
        finally:
            for end in ends:
                end()
            approvals.withdraw_all()  # the user has disconnected
            self._silence.close()
            is_at_limit = self._usage is not None and self._usage.is_reached
            self._events.close("usage_limit" if is_at_limit else None)
            self.out.close(failure)
            if is_at_limit and hasattr(self._model, "end_at_limit"):
                await self._model.end_at_limit()

    async def _read(self, content: AsyncIterable[ProcessorPart]) -> None:
        """Read the user's input, and route each part to the model, the tools or the listener."""
        async for part in content:
            if not isinstance(part.metadata, dict):
                continue  # no processor can read it
            if is_request(part):
                await self._answer_request(part)
            elif part.part.function_call is not None or part.part.function_response is not None:
                logger.warning("Dropped a function call, response or cancellation in the input")
            elif not is_input(part):
                self.out.put(part)
            else:
                if part.part.text:
                    self._session.get(Turns).next()
                self._recorder.typed(part)
                self._events.typed(part)
                self._inbox.put(part)
        self._inbox.end_input()

    async def _answer_request(self, part: ProcessorPart) -> None:
        asked = part if self._allow_requests else read_only(part)
        with stream.shared(session=self._session):
            async for answer in self._tools([asked]):
                self.out.put(answer)

    async def _converse_until_limit(self) -> None:
        try:
            async with self._deadline:
                await self._converse()
        except TimeoutError:
            if not self._deadline.expired():
                raise

    def _end_at_limit(self) -> None:
        """End the session after the model's reply, or after half a minute."""
        self._inbox.end_input()
        self._deadline.reschedule(asyncio.get_running_loop().time() + _CLOSING_SECONDS)

    async def _converse(self) -> None:
        with stream.shared(session=self._session, tools=self._tools):
            async for part in self._tools(self._heard()):
                response = part.function_response
                if part is self._last_in_tools:
                    self._last_in_tools = None
                if response is None:
                    self._hand_on(part)
                elif cancelled_id(part) is not None:
                    self.out.put(_listed(part))
                else:
                    self._silence.answered(response.id or "")
                    if self._inbox.put_answer(response.id or "", part):
                        self.out.put(_listed(part))

    def _hand_on(self, part: ProcessorPart) -> None:
        """Send a part to the listener, and the progress of a tool to the model too."""
        handed_on = metadata_of(part).get(_HANDED_ON)
        self.out.put(handed_on if isinstance(handed_on, ProcessorPart) else part)
        progress = progress_part(part.event) if isinstance(part, EventPart) else None
        if progress is not None:
            self._interim(progress)

    def _interim(self, part: ProcessorPart) -> None:
        """Queue an interim response, if the model's processor accepts one."""
        response = part.function_response
        takes = getattr(self._model, "takes_interim_answers", False)
        if takes and response is not None and response.id in self._inbox.pending:
            self._inbox.put_answer(response.id, part)

    def _renew(self, call: ToolCall, result: ToolResult) -> None:
        """Replace the response that is sent if the model repeats the call."""
        if getattr(self._model, "takes_late_results", False):
            self._inbox.put_late(outcome_part(call, result))

    def _tell_late(self, call: ToolCall, result: ToolResult) -> None:
        """Send the model the result of a call that was answered before."""
        part = late_result_part(call, result)
        takes = getattr(self._model, "takes_late_results", False)
        self._inbox.put_late(part if takes else late_result_text(part))
        self.out.put(_listed(part))

    async def _heard(self) -> AsyncIterator[ProcessorPart]:
        """Yield the model's output for the tools, and record its calls."""
        async for part in self._said():
            if not isinstance(part.metadata, dict):
                continue  # no processor can read it
            self._count(part)
            inner = part.part
            if inner.function_call is not None:
                # The client sends no response without an id, so a call without an id gets one.
                identifier = call_id(part) or uuid.uuid4().hex
                self._inbox.asked(identifier)
                self._silence.called(identifier, inner.function_call.name or "")
                part = _with_id(part, identifier)  # noqa: PLW2901 - the same call
                # Through the tools as well, so that the listener receives the call in order.
                self._last_in_tools = _past_tools(_listed(part))
                yield self._last_in_tools
            elif (cancelled := cancelled_id(part)) is not None:
                self._inbox.cancelled(cancelled)
                self._silence.answered(cancelled)
            elif inner.function_response is None:
                if part.substream_name == "input_transcription" or part.metadata.get("interrupted"):
                    self._session.get(Turns).next()
                self._note(part)
                if part.get_metadata("turn_complete"):
                    self._inbox.turn_ended()
            yield self._for_tools(part)

    def _for_tools(self, part: ProcessorPart) -> ProcessorPart:
        """Return a part in the form for the tools, which return every part but calls."""
        # Only the tools answer calls, and a model makes no requests to the stages.
        answers = part.function_response is not None and cancelled_id(part) is None
        past = answers or TOOL_REQUEST in part.metadata
        given = _past_tools(part) if past else part
        if part.function_call is None:
            self._last_in_tools = given
        return given

    def _said(self) -> AsyncIterable[ProcessorPart]:
        """Read the model, and pass its audio around the tools if nothing there must receive it.

        There are 50 frames a second, and each generator and queue delays them. A model or tools
        with a `call` of their own, a stage chained to them, and a trace receive all audio.
        """
        model, given = self._model, self._inbox.parts()
        if (
            isinstance(model, GeminiLiveProcessor)
            and type(model).call is GeminiLiveProcessor.call
            and type(self._tools).call is AdvancedToolProcessor.call
            and not self._is_traced
        ):
            return model.call(processor.ProcessorStream(given, trace=None), self._take_audio)
        return model(given)

    def _take_audio(self, part: ProcessorPart) -> bool:
        """Queue a frame for the listener, or return `False` if it must go through the tools.

        It must if an earlier part is still there, because a frame may not overtake text, a call or
        an interruption. The model passes a frame only if its own queue is drained as well.
        """
        if self._last_in_tools is not None:
            return False
        self._count(part)
        self._note(part)
        self.out.put(part)
        return True

    def _count(self, part: ProcessorPart) -> None:
        """Count the tokens of a part of the model's output."""
        if self._usage is not None:
            self._usage.heard(part)

    def _note(self, part: ProcessorPart) -> None:
        """Record a part of the model's output."""
        self._silence.heard(part)
        self._recorder.heard(part)
        self._events.heard(part)

    def _on_state(self, change: StateChange) -> None:
        ends_itself = not getattr(self._model, "outlives_shutdown", False)
        if change.new == AgentState.SHUTTING_DOWN and ends_itself:
            self._inbox.end_input()


def _past_tools(part: ProcessorPart) -> ProcessorPart:
    """Wrap a part for the listener, so that the tools do not read it."""
    return ProcessorPart("", metadata={_HANDED_ON: part})


def _listed(part: ProcessorPart) -> ProcessorPart:
    """Return a copy for the listener, in the substream of calls."""
    return ProcessorPart(
        part.part, role=part.role, substream_name=CALLS_SUBSTREAM, metadata=dict(part.metadata)
    )


def _with_id(part: ProcessorPart, identifier: str | None) -> ProcessorPart:
    """Return a copy whose call carries its id, which upstream leaves in the metadata."""
    call = part.part.function_call
    assert call is not None
    inner = part.part.model_copy(
        update={"function_call": call.model_copy(update={"id": identifier})}
    )
    return ProcessorPart(inner, role=part.role, metadata=dict(part.metadata))


class _TranscriptRecorder:
    """Records the speech and text of the user, and the speech of the model."""

    def __init__(self, session: ToolSession) -> None:
        self._transcript = session.get(Transcript)
        self._has_sound = False

    def typed(self, part: ProcessorPart) -> None:
        """Handle a part of the user's input."""
        if text := read_typed_text(part):
            if not self._has_sound:  # text is read at once, and some models mark no end of a turn
                self._transcript.model_finished()
            self._transcript.user_typed(text)

    def heard(self, part: ProcessorPart) -> None:
        """Handle a part of the model's output."""
        text, stream, said = part.part.text, part.substream_name, self._transcript
        if stream == "input_transcription":
            said.user_said(text or "")
            if part.metadata.get("finished"):
                said.user_finished()
        elif is_speech(part):
            self._has_sound = True
            said.model_spoke()
        elif text and self._is_heard(part, stream):
            said.model_spoke(text)
        elif part.metadata.get("interrupted"):
            said.interrupted()
        elif part.metadata.get("turn_complete"):
            said.model_finished()
        elif isinstance(part, StatusPart) and _happened(part) in _OTHER_CONNECTION:
            said.reconnected()

    def _is_heard(self, part: ProcessorPart, stream: str) -> bool:
        """Return whether the user hears or reads a text; with audio, only transcriptions count."""
        if stream == "output_transcription":
            return True
        return stream == "" and not part.part.thought and not self._has_sound


def _happened(part: StatusPart) -> object:
    """Return the connection event of a part, or `None` if it has none."""
    return part.metadata.get(LIVE_EVENT, {}).get("event")
