"""The loop of a live session: model → tools → model."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

from genai_processors import processor
from genai_processors.content_api import ProcessorPart
from google.genai import errors

from leonidas_tools.calls import ToolSession
from leonidas_tools.live.inbox import Inbox
from leonidas_tools.processors import stream
from leonidas_tools.processors.parts import call_id
from leonidas_tools.processors.requests import is_request
from leonidas_tools.processors.stage import Stage
from leonidas_tools.state import AgentState, StateChange

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator

CALLS_SUBSTREAM = "function_call"
"""Where the listener finds calls, answers and cancellations; upstream uses the same name."""

_NORMAL_CLOSURE = 1000
_HANDED_ON = "handed_on"


class LiveToolSession(Stage):
    """A live model with hands: microphone in, speech out, and calls answered on the way.

    The model reads the input merged with the answers; its output passes through the tools. Calls,
    answers and cancellations are handed on to the listener in the substream `function_call`.

    Args:
        model: A bidirectional processor, such as genai-processors' `LiveProcessor`.
        tools: What answers function calls, such as an `AdvancedToolProcessor`.
        session: What the calls of this conversation share; the audio side reads it too.
        settle_seconds: How long to wait, once the input has ended, for the model to speak of the
            last answer.

    Raises:
        google.genai.errors.APIError: The connection was lost; raised to whoever reads the stream.
    """

    def __init__(
        self,
        model: processor.Processor,
        tools: processor.Processor,
        *,
        session: ToolSession | None = None,
        settle_seconds: float = 10.0,
    ) -> None:
        self.model = model
        self.tools = tools
        self.session = session or ToolSession()
        self.settle_seconds = settle_seconds

    async def call(self, content: processor.ProcessorStream) -> AsyncIterable[ProcessorPart]:
        """Parts in, parts out."""
        loop = _Loop(self.model, self.tools, self.session, self.settle_seconds)
        driving = processor.create_task(loop.drive(content))
        try:
            async for part in loop.outputs():
                yield part
        finally:
            driving.cancel()
            await asyncio.wait([driving])


class _Loop:
    """One run of a session."""

    def __init__(
        self,
        model: processor.Processor,
        tools: processor.Processor,
        session: ToolSession,
        settle_seconds: float,
    ) -> None:
        self._model = model
        self._tools = tools
        self._session = session
        self._inbox = Inbox(settle_seconds)
        # The yielding generator must not be where answers are routed: a slow player would hold
        # them back. So everything ready to be heard waits in a queue of its own.
        self._out: asyncio.Queue[ProcessorPart | BaseException | None] = asyncio.Queue()

    async def drive(self, content: AsyncIterable[ProcessorPart]) -> None:
        """Runs the session to its end; what goes wrong is raised to whoever reads it."""
        unsubscribe = self._session.get(AgentState).on_change(self._on_state)
        failure: BaseException | None = None
        try:
            # A context of its own: a lost connection ends this one and not the caller's.
            async with processor.context():
                reading = processor.create_task(self._read(content))
                await self._converse()
                reading.cancel()
        except errors.APIError as error:
            failure = None if error.code == _NORMAL_CLOSURE else error
        except Exception as error:  # noqa: BLE001 - carried to whoever reads the stream
            failure = error
        finally:
            unsubscribe()
            self._out.put_nowait(failure)

    async def outputs(self) -> AsyncIterator[ProcessorPart]:
        """What the listener gets."""
        while (item := await self._out.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    async def _read(self, content: AsyncIterable[ProcessorPart]) -> None:
        """Takes in the user's side; a request to the tools does not go to the model."""
        async for part in content:
            if is_request(part):
                await self._answer_request(part)
            else:
                self._inbox.put(part)
        self._inbox.end_input()

    async def _answer_request(self, part: ProcessorPart) -> None:
        with stream.shared(session=self._session):
            async for answer in self._tools([part]):
                self._out.put_nowait(answer)

    async def _converse(self) -> None:
        with stream.shared(session=self._session):
            async for part in self._tools(self._heard()):
                response = part.function_response
                if response is None:
                    self._out.put_nowait(part.metadata.get(_HANDED_ON, part))
                    continue
                if part.tool_cancellation or self._inbox.put_answer(response.id or "", part):
                    self._out.put_nowait(_listed(part))

    async def _heard(self) -> AsyncIterator[ProcessorPart]:
        """What the model says; its calls are noted on the way to the tools."""
        async for part in self._model(self._inbox.parts()):
            inner = part.part
            if inner.function_call is not None:
                # The client takes no answer without an id, so a call without one is given one.
                identifier = call_id(part) or uuid.uuid4().hex
                self._inbox.asked(identifier)
                part = _with_id(part, identifier)  # noqa: PLW2901 - the same call
                # Through the tools as well, so that the listener hears of it in its turn.
                yield ProcessorPart("", metadata={_HANDED_ON: _listed(part)})
            elif inner.function_response is not None and part.tool_cancellation:
                self._inbox.cancelled(part.tool_cancellation)
            elif part.get_metadata("turn_complete"):
                self._inbox.turn_ended()
            yield part

    def _on_state(self, change: StateChange) -> None:
        if change.new == AgentState.SHUTTING_DOWN:
            self._inbox.end_input()


def _listed(part: ProcessorPart) -> ProcessorPart:
    """A copy for the listener."""
    return ProcessorPart(
        part.part, role=part.role, substream_name=CALLS_SUBSTREAM, metadata=dict(part.metadata)
    )


def _with_id(part: ProcessorPart, identifier: str | None) -> ProcessorPart:
    """A copy whose call carries its id, which upstream leaves in the metadata."""
    call = part.part.function_call
    assert call is not None
    inner = part.part.model_copy(
        update={"function_call": call.model_copy(update={"id": identifier})}
    )
    return ProcessorPart(inner, role=part.role, metadata=dict(part.metadata))
