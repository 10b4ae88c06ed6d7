"""One attempt: the edge where a tool's own code runs, and where what it raises stops."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls import ToolCall, ToolResult
from leonidas_tools.context import ToolContext
from leonidas_tools.errors import RetryableError, ToolError
from leonidas_tools.events import EventKind
from leonidas_tools.invocation import current, log_failure
from leonidas_tools.sendable import measured_sendable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leonidas_tools.functions import Call
    from leonidas_tools.invocation import Invocation

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """Runs a tool's function once and makes a plain result of whatever comes of it.

    Args:
        function: Runs the tool's function.
        takes_context: Whether that needs a `ToolContext`.
        max_bytes: How big the result may be.
        once: Whether the effect must not happen twice.
        stoppable: Whether it is stopped when nobody wants the answer any more.
        undoes: Whether what was done is undone then, also where it was done to the end.
        undo: Takes back what a call has half done.
        undo_seconds: How long each step of undoing may take.
        in_thread: Runs what undoes in a thread, where the tool runs in one.
    """

    function: Call
    takes_context: bool
    max_bytes: int
    once: bool
    stoppable: bool = True
    undoes: bool = False
    undo: Callable[[ToolCall], Any] | None = None
    undo_seconds: float = 30.0
    in_thread: Callable[..., Awaitable[Any]] | None = None

    async def __call__(self, call: ToolCall) -> ToolResult:
        """Runs the function; only cancellation that is ours leaves here."""
        invocation = current()
        context = self._begun(call, invocation)
        try:
            result = await self._caught(call, context)
        except asyncio.CancelledError as error:
            if invocation.stopping:
                await self._take_back(call, context)
                raise
            result = self._failed(call, error)
        if invocation.cancelled_itself:
            await invocation.forgive()
        if not result.ok:
            await self._take_back(call, context)
            invocation.begun = self.once and not isinstance(result.error, RetryableError)
            invocation.stoppable = True
        elif self.undoes:
            await self._done(call, context)
        return result

    def _begun(self, call: ToolCall, invocation: Invocation) -> ToolContext | None:
        """Notes what holds from here on; returns what the tool is given."""
        context = None
        if self.takes_context:
            context = invocation.context = ToolContext(call, invocation.tell)
        if self.once:
            invocation.begun = True
        invocation.stoppable = self.stoppable
        if self.undoes:
            invocation.take_back = partial(self._take_back, call, context)
        return context

    async def _caught(self, call: ToolCall, context: ToolContext | None) -> ToolResult:
        try:
            value = await self.function(call, context)
            return ToolResult() if value is None else self._sendable(call, value)
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except ToolError as error:
            return self._sendable(call, ToolResult.from_error(error))
        except BaseException as error:  # noqa: BLE001 - the edge: nothing a tool raises passes it
            return self._failed(call, error)

    def _sendable(self, call: ToolCall, value: Any) -> ToolResult:
        result, size = measured_sendable(value, self.max_bytes, tool=call.name)
        current().measured = (result.result, size)
        return result

    def _failed(self, call: ToolCall, error: BaseException) -> ToolResult:
        log_failure(logger, call.name, error)
        return ToolResult.failed(f"The tool {call.name!r} failed.", error=error)

    async def _done(self, call: ToolCall, context: ToolContext | None) -> None:
        """Undoes what nobody wants any more; else keeps at hand what would undo it."""
        invocation = current()
        if not invocation.wanted:
            await self._take_back(call, context)
            return
        steps = self._steps(call, context)  # without the context, which holds the invocation
        invocation.take_back = partial(self._run_to_end, steps, call.name) if steps else None

    async def _take_back(self, call: ToolCall, context: ToolContext | None) -> None:
        await self._run_to_end(self._steps(call, context), call.name)

    def _steps(self, call: ToolCall, context: ToolContext | None) -> list[Callable[[], Any]]:
        """What takes back what was done, in its order."""
        steps = context.take_undo_steps() if context is not None else []
        undo = self.undo
        if undo is not None:
            steps.append(lambda: undo(call))
        return steps

    async def _run_to_end(self, steps: list[Callable[[], Any]], tool: str) -> None:
        """Runs the steps to the end, once: whoever stops the call waits for this too."""
        current().take_back = None
        if not steps:
            return
        undoing = asyncio.get_running_loop().create_task(self._undo_all(steps, tool))
        while not undoing.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([undoing])

    async def _undo_all(self, steps: list[Callable[[], Any]], tool: str) -> None:
        """Runs the steps one after another; none stops the others."""
        for step in steps:
            done = True
            try:
                async with asyncio.timeout(self.undo_seconds):
                    await self._undo(step)
            except BaseException as error:  # noqa: BLE001 - the edge: this is the tool's code too
                log_failure(logger, tool, error)
                done = False
                current().left_over += 1
            current().emit(EventKind.UNDO, done=done)

    async def _undo(self, step: Callable[[], Any]) -> None:
        outcome = step() if self.in_thread is None else await self.in_thread(step)
        if inspect.isawaitable(outcome):
            await outcome
