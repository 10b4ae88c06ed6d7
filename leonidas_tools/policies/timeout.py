"""No call takes longer than it may."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal

from leonidas_tools.calls import ResultStatus, Run, ToolCall, ToolResult
from leonidas_tools.invocation import Invocation, current

_GRACE_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeout:
    """Stops an attempt, or a whole call, that takes too long.

    A tool that ignores being stopped is left behind half a second later, and the call answered
    all the same.

    Args:
        seconds: How long it may take.
        covers: One attempt, or the whole call with its waits and retries.
    """

    seconds: float
    covers: Literal["attempt", "call"] = "attempt"

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Runs the call for as long as it may take."""
        invocation = current()
        loop = asyncio.get_running_loop()
        timers: list[asyncio.TimerHandle] = []
        timers.append(loop.call_later(self.seconds, self._expire, invocation, timers))
        try:
            result = await run(call)
        except asyncio.CancelledError:
            if not invocation.taken(self.covers):
                raise
            return self._late(invocation)
        finally:
            for timer in timers:
                timer.cancel()
        invocation.taken(self.covers)
        return result

    def _expire(self, invocation: Invocation, timers: list[asyncio.TimerHandle]) -> None:
        late = self._late(invocation)
        invocation.interrupt(self.covers)
        loop = asyncio.get_running_loop()
        timers.append(loop.call_later(_GRACE_SECONDS, invocation.abandon, late))

    def _late(self, invocation: Invocation) -> ToolResult:
        name, code = invocation.call.name, f"{self.covers}_timeout"
        if invocation.begun:
            return ToolResult(
                status=ResultStatus.UNKNOWN_OUTCOME,
                message=(
                    f"The tool {name!r} did not finish within {self.seconds:g} seconds, and it "
                    f"is not known whether it took effect: do not call it again, check first."
                ),
                reason_code=code,
            )
        return ToolResult(
            status=ResultStatus.TIMEOUT,
            message=f"The tool {name!r} did not finish within {self.seconds:g} seconds.",
            retryable=True,
            reason_code=code,
        )
