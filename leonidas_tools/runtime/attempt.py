"""Run a tool's own code once, and convert every exception into a result."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.abandonable import AbandonableTask
from leonidas_tools.calls.call import ToolCall, ToolResult
from leonidas_tools.calls.context import ToolContext
from leonidas_tools.calls.events import EventKind
from leonidas_tools.calls.invocation import GRACE_SECONDS, current, log_failure
from leonidas_tools.calls.sendable import is_long, measured_sendable
from leonidas_tools.errors import RetryableError, ToolError
from leonidas_tools.redaction import KnownSecrets, Masking
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.plain import ForeignTypeError, TooLongError
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leonidas_tools.calls.invocation import Invocation
    from leonidas_tools.runtime.functions import CallFunction

logger = visible_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """Runs a tool's function once, and converts any outcome into a plain result."""

    function: CallFunction
    takes_context: bool
    max_bytes: int
    once: bool
    in_thread: Callable[..., Awaitable[Any]]  # runs blocking code in a thread
    ends_when_stopped: bool = True  # false for code in a thread, which no stop reaches
    stoppable: bool = True  # whether to stop it when its result is no longer wanted
    undoes: bool = False  # whether to undo it then, even if it has completed
    undo: Callable[[ToolCall], Any] | None = None
    undoes_in_thread: bool = False  # undo steps run in a thread too, like the tool
    undo_seconds: float = 30.0  # timeout of each undo step, in seconds
    secrets: KnownSecrets | None = None  # `None` if its calls have no secrets
    secret_names: frozenset[str] = frozenset()  # names in its results whose values are secret

    async def __call__(self, call: ToolCall) -> ToolResult:
        """Run the function; raise only a cancellation that this runtime has requested."""
        invocation = current()
        mask = None
        if self.secrets is not None or call.inherited:
            mask = self._masking(call)
        context = self._begin(call, invocation, mask)
        try:
            result = await self._run(call, context, mask)
        except asyncio.CancelledError as error:
            if invocation.stopping:
                await self._undo_stopped(call, context, invocation)
                raise
            result = self._report_failure(call, error)
        if invocation.has_cancelled_itself:
            await invocation.forgive()
        if not result.ok:
            await self._undo_call(call, context)
            invocation.begun = self.once and not isinstance(result.error, RetryableError)
            invocation.stoppable = True
        elif self.undoes:
            await self._done(call, context)
            if invocation.stopped_by is not None:
                result = invocation.stopped_result()
        return result

    async def _undo_stopped(
        self, call: ToolCall, context: ToolContext | None, invocation: Invocation
    ) -> None:
        """Undo the work of a stopped attempt; a full rollback counts as never begun."""
        invocation.goes_on = not self.ends_when_stopped
        await self._undo_call(call, context)
        if self.undo is not None and self.ends_when_stopped and _is_all_undone(invocation):
            invocation.begun = False

    def _masking(self, call: ToolCall) -> Masking | None:
        """Return the masking of the secrets of this call; `None` if it has none."""
        known = [each for each in (self.secrets, *call.inherited) if each]
        known += [each] if (each := call.secretive_arguments()) else []
        return Masking(known, self.secret_names) if known or self.secret_names else None

    def _begin(
        self, call: ToolCall, invocation: Invocation, mask: Masking | None
    ) -> ToolContext | None:
        """Prepare the invocation, and return the tool's context, or `None` if it takes none."""
        context = None
        if self.takes_context:
            context = invocation.context = ToolContext(call, invocation.forward, mask)
        if self.once:
            invocation.begun = True
        invocation.undone = 0
        invocation.stoppable = self.stoppable
        if self.undoes:
            invocation.undo = partial(self._undo_call, call, context)
        return context

    async def _run(
        self, call: ToolCall, context: ToolContext | None, mask: Masking | None
    ) -> ToolResult:
        try:
            value = await self.function(call, context)
            if value is None:
                return ToolResult()
            _raise_returned(value)
            return self._convert(call, value, mask) or await self._in_thread(call, value, mask)
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except ToolError as error:
            value = ToolResult.from_error(error)
            return self._convert(call, value, mask) or await self._in_thread(call, value, mask)
        except BaseException as error:  # noqa: BLE001 - the edge: nothing a tool raises passes it
            return self._report_failure(call, error)

    def _convert(self, call: ToolCall, value: Any, mask: Masking | None) -> ToolResult | None:
        """Return a value as a result; `None` if that would block the event loop."""
        if mask is not None and (mask.is_slow or is_long(value)):  # the search takes a while
            return None
        try:
            result, size = measured_sendable(
                value, self.max_bytes, tool=call.name, mask=mask, on_loop=True
            )
        except (ForeignTypeError, TooLongError):  # foreign code may block or never end
            return None
        current().measured = (result.result, size)
        return result

    async def _in_thread(self, call: ToolCall, value: Any, mask: Masking | None) -> ToolResult:
        convert = partial(measured_sendable, value, self.max_bytes, tool=call.name, mask=mask)
        result: ToolResult
        result, size = await self.in_thread(convert)
        current().measured = (result.result, size)
        return result

    def _report_failure(self, call: ToolCall, error: BaseException) -> ToolResult:
        log_failure(logger, call.name, error)
        return ToolResult.failed(say("failed", tool=call.name), error=error)

    async def _done(self, call: ToolCall, context: ToolContext | None) -> None:
        """Undo a call that is no longer wanted, or else keep the steps that would undo it."""
        invocation = current()
        if not invocation.wanted or invocation.stopped_by is not None:
            await self._undo_call(call, context)
            if _is_all_undone(invocation):
                invocation.begun = False
            return
        steps = self._undo_steps(
            call, context
        )  # without the context, which refers to the invocation
        invocation.undo = partial(self._run_to_end, steps, call.name) if steps else None

    async def _undo_call(self, call: ToolCall, context: ToolContext | None) -> None:
        await self._run_to_end(self._undo_steps(call, context), call.name)

    def _undo_steps(self, call: ToolCall, context: ToolContext | None) -> list[Callable[[], Any]]:
        """Return the undo steps, in the order in which they run."""
        steps = context.take_undo_steps() if context is not None else []
        undo = self.undo
        if undo is not None:
            steps.append(lambda: undo(call))
        return steps

    async def _run_to_end(self, steps: list[Callable[[], Any]], tool: str) -> None:
        """Run the undo steps to the end, once; a stop of the call waits for them too."""
        invocation, loop = current(), asyncio.get_running_loop()
        invocation.undo = None
        if not steps:
            return
        undoing = AbandonableTask(self._undo_all(steps, tool), loop=loop, name=f"undo:{tool}")
        invocation.undo_deadline = loop.time() + len(steps) * self.undo_seconds + GRACE_SECONDS
        while not undoing.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([undoing])
        invocation.undo_deadline = 0.0
        if undoing.abandoned:
            logger.warning("An undo step of the tool %r still runs: it ignores cancellation", tool)
            invocation.undo_failures += 1

    async def _undo_all(self, steps: list[Callable[[], Any]], tool: str) -> None:
        """Run the undo steps one after another, and continue if one fails."""
        for step in steps:
            done = True
            try:
                async with asyncio.timeout(self.undo_seconds):
                    await self._undo(step)
            except BaseException as error:  # noqa: BLE001 - the edge: nothing a tool raises passes it
                log_failure(logger, tool, error)
                done = False
                current().undo_failures += 1
            current().undone += done
            current().emit(EventKind.UNDO, done=done)

    async def _undo(self, step: Callable[[], Any]) -> None:
        outcome = await self.in_thread(step) if self.undoes_in_thread else step()
        if inspect.isawaitable(outcome):
            await outcome


def _raise_returned(value: Any) -> None:
    """Raise an exception that a tool has returned, which is no data for the model."""
    if issubclass(type(value), Exception):
        raise value


def _is_all_undone(invocation: Invocation) -> bool:
    """Return whether there was an undo step, and all steps succeeded."""
    return invocation.undone > 0 and not invocation.undo_failures
