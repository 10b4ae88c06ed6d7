"""Limit the time of each attempt; `deadline` limits the whole call."""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import TYPE_CHECKING, Literal

from leonidas_tools.calls.call import ResultStatus, Run, ToolCall, ToolResult
from leonidas_tools.calls.invocation import GRACE_SECONDS, Invocation, current
from leonidas_tools.results.texts import join, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions


class Timeout:
    """Stops an attempt, or a whole call, that exceeds its timeout.

    A tool that ignores cancellation is abandoned half a second later, and its call ends. Undoing
    has its own time limit; the result states what was rolled back.

    Calls with the same limit expire in the order in which they began, so one timer serves them
    all; a timer for each call would cost more than the other policies together.

    Args:
        seconds: The timeout in seconds.
        covers: One attempt, or the whole call with its waits and retries.
    """

    __slots__ = ("_deadlines", "_grace", "_loop", "covers", "seconds")

    def __init__(self, *, seconds: float, covers: Literal["attempt", "call"] = "attempt") -> None:
        self.seconds = seconds
        self.covers = covers
        self._deadlines: dict[Invocation, float] = {}
        self._grace: dict[Invocation, asyncio.TimerHandle] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call, and stop it after the timeout."""
        invocation = current()
        loop = asyncio.get_running_loop()
        self._deadlines[invocation] = loop.time() + self.seconds
        if self._loop is not loop:
            self._watch(loop)
        try:
            result = await run(call)
        except asyncio.CancelledError:
            if not invocation.clear_interruption(self):
                raise
            return self._late(invocation)
        finally:
            self._deadlines.pop(invocation, None)
            if self._grace:
                self._cancel_timer(invocation)
        invocation.clear_interruption(self)
        return result

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the timer for the first timeout; there is at most one timer."""
        self._loop = loop
        first = next(iter(self._deadlines.values()))
        # In an empty context: the call's context would keep its whole stream alive until the timer.
        loop.call_at(first, self._expire, loop, context=Context())

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        while self._deadlines:
            invocation, ends = next(iter(self._deadlines.items()))
            if ends > now:
                break
            del self._deadlines[invocation]
            invocation.interrupt(self)
            timer = loop.call_later(GRACE_SECONDS, self._end_after_grace, invocation)
            self._grace[invocation] = timer
        self._loop = None
        if self._deadlines:
            self._watch(loop)

    def _end_after_grace(self, invocation: Invocation) -> None:
        """End the call of a tool that still runs, but wait for one that is being undone."""
        loop = asyncio.get_running_loop()
        if invocation.undo_deadline > loop.time():
            timer = loop.call_at(invocation.undo_deadline, self._end_after_grace, invocation)
            self._grace[invocation] = timer
        else:
            invocation.abandon(self._late(invocation))

    def _cancel_timer(self, invocation: Invocation) -> None:
        timer = self._grace.pop(invocation, None)
        if timer is not None:
            timer.cancel()

    def _late(self, invocation: Invocation) -> ToolResult:
        name, code = invocation.call.name, f"{self.covers}_timeout"
        seconds = f"{self.seconds:g}"
        undone = invocation.undone and not invocation.undo_failures
        if invocation.begun:
            key = "timeout_unknown_undone" if undone else "timeout_unknown"
            return ToolResult(
                status=ResultStatus.UNKNOWN_OUTCOME,
                message=say(key, tool=name, seconds=seconds),
                reason_code=code,
            )
        return ToolResult(
            status=ResultStatus.TIMEOUT,
            message=join(
                say("timeout", tool=name, seconds=seconds), say("undone") if undone else None
            ),
            retryable=True,
            reason_code=code,
        )


def deadline_for_tool(options: EffectiveOptions, _: Shared) -> Iterator[Timeout]:
    """Yield the timeout of a whole call."""
    if options.deadline_seconds:
        yield Timeout(seconds=options.deadline_seconds, covers="call")


def for_tool(options: EffectiveOptions, _: Shared) -> Iterator[Timeout]:
    """Yield the timeout of one attempt."""
    if options.timeout_seconds:
        yield Timeout(seconds=options.timeout_seconds)
