"""Run each call concurrently with the stream, and yield its response when it is ready."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from genai_processors import processor
from genai_processors.content_api import ProcessorPart

from leonidas_tools.calls.call import build_repeated_result, normalize_name
from leonidas_tools.calls.events import EventKind
from leonidas_tools.calls.once_calls import OnceCalls
from leonidas_tools.calls.queues import BoundedQueue
from leonidas_tools.processors import stream
from leonidas_tools.processors.answers import response_part
from leonidas_tools.processors.intake import Intake, pinned, remember
from leonidas_tools.processors.parts import (
    CallPart,
    EventPart,
    attached,
    cancelled_id,
    claim,
    executor_of,
)
from leonidas_tools.processors.requests import build_answer, from_json, is_request
from leonidas_tools.processors.stage import Stage, add_dropped, put_part
from leonidas_tools.settings.effective import refusal_of
from leonidas_tools.tools.registry import AnyTool, ToolRegistry

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence

    from leonidas_tools.calls.call import ToolCall, ToolResult
    from leonidas_tools.calls.events import Sink, ToolEvent
    from leonidas_tools.calls.invocation import Invocation
    from leonidas_tools.calls.once_calls import OnceCall
    from leonidas_tools.processors.category import CategoryProcessor
    from leonidas_tools.processors.requests import Answer
    from leonidas_tools.runtime.executor import Executor
    from leonidas_tools.runtime.runtime import ToolRuntime

_SLICE = 32
"""Parts handled before other tasks run: a burst must not delay an audio frame."""
_MAX_UNDOABLE = 64
"""Maximum finished calls to keep, so that a late cancellation can undo them."""
_PROGRESS = EventKind.PROGRESS


_Output: TypeAlias = "ProcessorPart | tuple[ToolCall, ToolResult] | BaseException | None"
"""A part, a result, an error, or `None` once the input and every call have ended."""
Recognised: TypeAlias = "tuple[ToolCall, Executor, ToolResult | None]"
"""A call, its executor, and its result if it is known and the call does not run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Front:
    """Recognises calls and answers requests for a `CallStream` without stages before it."""

    runtime: ToolRuntime
    answers: Mapping[str, Answer]
    json_requests: bool  # parts in JSON may make read-only requests
    asks_categories: bool  # user-defined categories see the calls that they claim


class CallStream(Stage):
    """Runs the calls that its categories claim; every other part passes at once, in order.

    Args:
        categories: The categories; the first that matches a call claims it.
        front: Does the work of earlier stages; `None` if there are earlier stages.
    """

    def __init__(self, categories: Sequence[CategoryProcessor], front: Front | None = None) -> None:
        self.categories = tuple(categories)
        self.front = front

    async def call(self, content: processor.ProcessorStream) -> AsyncIterable[ProcessorPart]:
        """Yield the parts, and the responses of calls when they are ready."""
        async with AsyncExitStack() as resources:
            if self.front is not None:
                await resources.enter_async_context(self.front.runtime)
                self.front.runtime.begin(stream.named_session())
                resources.enter_context(stream.shared(sink=self.front.runtime.monitor))
            for category in self.categories:
                await resources.enter_async_context(category)
            calls = _Calls(self.categories, self.front, resources)
            reading = processor.create_task(calls.read(content))
            ready, count = calls.ready, 0
            try:
                while True:
                    if not ready:
                        await ready.wait()
                    item = ready.popleft()
                    if item is None:
                        break
                    yield item if isinstance(item, ProcessorPart) else _response(item)
                    count += 1
                    if count % _SLICE == 0:
                        await asyncio.sleep(0)
            finally:
                calls.cancel_all()
                reading.cancel()
                await asyncio.wait([reading])  # the stages it reads can be closed only then


async def _answer_request(part: ProcessorPart, front: Front) -> ProcessorPart:
    """Return the answer to a request; any other part unchanged."""
    asked = from_json(part) if front.json_requests else part
    return await build_answer(asked, front.answers, last=True) if is_request(asked) else part


def _response(ended: tuple[ToolCall, ToolResult] | BaseException) -> ProcessorPart:
    """Return the response of a call, or raise an error."""
    if isinstance(ended, tuple):
        return response_part(*ended)
    raise ended


class _Calls:
    """The running calls of one stream, and the parts that are ready to leave it."""

    def __init__(
        self,
        categories: Sequence[CategoryProcessor],
        front: Front | None,
        resources: AsyncExitStack,
    ) -> None:
        self._categories = categories
        self._front = front
        self._resources = resources
        self._held: dict[Executor, tuple[Sink, ...]] = {}
        """The executors that this stream keeps open, and the sinks of their calls."""
        self._claimants: dict[AnyTool | tuple[AnyTool, str], CategoryProcessor | None] = {}
        """What `_claimant` has found, by tool and the category that the settings give it."""
        self.ready: BoundedQueue[_Output] = BoundedQueue(mark=add_dropped)
        self._running: dict[str, Invocation] = {}
        self._undoable: dict[str, Invocation] = {}
        """The newest calls that have ended and can still be undone."""
        self._reading = True
        self._sinks: tuple[Sink, ...] = (*stream.sinks(), self._on_event)
        self._executor = None if front is None else front.runtime.executor
        registry = ToolRegistry() if front is None else front.runtime.registry
        self._intake = Intake(registry, stream.session(), executor=self._executor)

    async def read(self, content: processor.ProcessorStream) -> None:
        """Read the input: start calls, stop cancelled ones, and pass all other parts."""
        try:
            count = 0
            async for part in content:
                # First, because a `CallPart` builds its part only when that is read.
                call = attached(part)
                if call is not None or part.function_call is not None:
                    executor = self._begin(part, call)
                    if executor is not None:
                        await self._resources.enter_async_context(executor)
                    count += 1
                    if count % _SLICE == 0:
                        await asyncio.sleep(0)
                    continue
                if self._front is not None and part.metadata:
                    part = await _answer_request(part, self._front)  # noqa: PLW2901 - its answer
                self._pass(part)
        except Exception as error:  # noqa: BLE001 - carried to the reader of the stream
            self.ready.put(error)
        except asyncio.CancelledError:
            self.cancel_all()
            raise
        finally:
            self._reading = False
            self._close_if_done()

    def _pass(self, part: ProcessorPart) -> None:
        if (cancelled := cancelled_id(part)) is not None:
            self._cancel(cancelled)
        put_part(self.ready, part)

    def _on_event(self, event: ToolEvent) -> None:
        if event.kind is _PROGRESS:
            self.ready.put(EventPart(event), event.call.trace_id)
        else:
            self.ready.put(EventPart(event))

    def cancel_all(self) -> None:
        """Stop the calls that may be stopped, because the reader has left."""
        for invocation in tuple(self._running.values()):
            _cancel(invocation)

    def _begin(self, part: ProcessorPart, call: ToolCall | None) -> Executor | None:
        """Start the call of a part, and return its executor if this stream has not entered it."""
        if self._front is not None and call is None:
            recognised = self._recognise(part, self._front)
        elif self._front is not None and call is not None and call.tool is not None:
            recognised = self._pin(part, call, call.tool, self._front)
        elif (category := self._claimant(part, call)) is not None:
            recognised = category.recognise(part, self._intake)
        else:
            self.ready.put(part)
            return None
        if recognised is None:
            return None
        call, executor, result = recognised
        if call.id in self._running:  # an id that the intake no longer remembers
            return None
        if result is not None:
            remember(call, result)
            self.ready.put((call, executor.end_unstarted(call, result, self._sinks)))
            return None
        sinks = self._held.get(executor)
        new = sinks is None
        if sinks is None:
            sinks = self._held[executor] = executor.with_sinks(self._sinks)
            stream.leave()  # a tool may read its own stream
        invocation = executor.start(call, self._end, sinks)
        self._running[call.id or call.trace_id] = invocation
        return executor if new else None

    def _recognise(self, part: ProcessorPart, front: Front) -> Recognised | None:
        """Return the call of a part, pinned to the current settings, and its result if known."""
        executor = front.runtime.executor
        executor.apply(front.runtime.settings.current)
        taken = self._intake.take(part)
        if taken is None:
            return None
        call, result = taken
        if result is None and call.tool is not None and call.settings is not None:
            result = refusal_of(call.tool, call.settings)
        if front.asks_categories:
            return self._claim(CallPart(part, call, executor), call, executor, result)
        return call, executor, result

    def _pin(
        self, part: ProcessorPart, call: ToolCall, tool: AnyTool, front: Front
    ) -> Recognised | None:
        """Return the call that an earlier stage has attached, as `_recognise` does."""
        executor = executor_of(part) or front.runtime.executor
        call, result = pinned(call, tool, executor, front.runtime.settings.current)
        return self._claim(CallPart(part, call, executor), call, executor, result)

    def _claim(
        self, part: CallPart, call: ToolCall, executor: Executor, result: ToolResult | None
    ) -> Recognised | None:
        """Return a call as its category recognises it, or `None` if it was claimed elsewhere."""
        category = self._claimant(part, call) if result is None else None
        if category is not None:
            return category.recognise(part, self._intake)
        return (call, executor, result) if claim(part) else None

    def _claimant(self, part: ProcessorPart, call: ToolCall | None) -> CategoryProcessor | None:
        """Return the category that runs the call of a part; looked up once for each tool."""
        if call is None or call.tool is None:
            return next((one for one in self._categories if one.match(part)), None)
        category = None if call.settings is None else call.settings.category
        key = call.tool if category is None else (call.tool, category)
        if key not in self._claimants:
            self._claimants[key] = next((one for one in self._categories if one.match(part)), None)
        return self._claimants[key]

    def _cancel(self, call_id: str) -> None:
        """Stop a cancelled call, whose response `_end` drops."""
        call_id = normalize_name(call_id)  # as in the calls
        if (running := self._running.get(call_id)) is not None:
            _cancel(running)
        elif (ended := self._undoable.pop(call_id, None)) is not None:
            _undo(ended)
        else:
            self._intake.cancel(call_id)

    def _end(self, invocation: Invocation, result: ToolResult) -> None:
        call = invocation.call
        if result.error is not None:
            _release_frames(result.error)
        self._running.pop(call.id or call.trace_id, None)
        # A call that the closing runtime has cut off may have had its effect.
        is_cut = invocation.begun and invocation.is_left and not result.ok
        remember(
            call, build_repeated_result(call.name) if is_cut else result, begun=invocation.begun
        )
        if invocation.undo is not None and call.id is not None:
            self._undoable[call.id] = invocation
            if len(self._undoable) > _MAX_UNDOABLE:
                del self._undoable[next(iter(self._undoable))]
        if invocation.wanted:  # else the server has cancelled the call
            self.ready.put((call, result))
        if not self._reading:
            self._close_if_done()

    def _close_if_done(self) -> None:
        if not self._reading and not self._running:
            self.ready.put(None)


def _cancel(invocation: Invocation) -> None:
    """Cancel a running call; its result is kept if its side effect happens all the same."""
    invocation.cancel()
    once = invocation.call.session.find(OnceCalls)
    if once is not None:
        once.cancel(invocation.call.number)


def _undo(ended: Invocation) -> None:
    """Undo a call that has ended; if that fails, its result is kept for an equal call."""
    once, undo = ended.call.session.find(OnceCalls), ended.undo
    undone = None if once is None else once.begin_undoing(ended.call.number)
    if once is not None and undone is not None and undo is not None:
        ended.undo = partial(_undo_to_the_end, ended, undo, once, undone)
    ended.cancel()


async def _undo_to_the_end(
    ended: Invocation, undo: Callable[[], Awaitable[None]], once: OnceCalls, undone: OnceCall
) -> None:
    failed = True
    try:
        await undo()
        failed = ended.undo_failures > 0
    finally:
        once.end_undoing(undone, failed=failed)


def _release_frames(error: BaseException) -> None:
    """Drop the tracebacks of an error, which keep the tool's local variables alive.

    A conversation keeps its last results, with their errors.
    """
    attribute_of = BaseException.__getattribute__  # an override in a tool's own class may fail
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        BaseException.with_traceback(each, None)
        behind = [attribute_of(each, "__cause__"), attribute_of(each, "__context__")]
        if isinstance(each, BaseExceptionGroup):
            behind += attribute_of(each, "exceptions")
        waiting += [other for other in behind if isinstance(other, BaseException)]
