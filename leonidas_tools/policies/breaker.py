"""Circuit breaker: do not call a failing tool for a while, then try it once."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from leonidas_tools.calls.call import ResultStatus, Run, ToolCall, ToolResult
from leonidas_tools.calls.events import EventKind
from leonidas_tools.calls.invocation import current
from leonidas_tools.errors import RetryableError
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions

logger = visible_logger(__name__)

_MAX_CALLS = 1000
_FAILED: Mapping[ResultStatus, bool] = {
    ResultStatus.OK: False,
    ResultStatus.NO_RESULTS: False,
    ResultStatus.FAILED: True,
    ResultStatus.TIMEOUT: True,
    ResultStatus.UNAVAILABLE: True,
    ResultStatus.UNKNOWN_OUTCOME: True,
}
"""Outcomes that count, with True for a failure of the tool."""


class BreakerState(StrEnum):
    """The state of a circuit breaker: closed, open, or half-open for one trial."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


_CLOSED = BreakerState.CLOSED


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakerLimits:
    """The limits of a circuit breaker."""

    error_rate: float = 0.5  # the share of failed calls, from 0 to 1, at which it opens
    # seconds for which a call counts; at most the last thousand calls count
    window_seconds: float = 60.0
    min_calls: int = 10  # minimum number of calls before the share counts
    open_seconds: float = 30.0  # seconds for which the tool is not called


class Breaker:
    """The circuit breaker of one tool; the caller passes the current time.

    Args:
        limits: The conditions and the duration of the open state.

    Example:
        >>> breaker = Breaker(BreakerLimits(min_calls=1, open_seconds=30))
        >>> breaker.ended(breaker.admit(now=0), failed=True, now=1)
        >>> breaker.state, breaker.admit(now=2), breaker.wait_seconds(now=2)
        (<BreakerState.OPEN: 'open'>, None, 29)
        >>> breaker.ended(breaker.admit(now=31), failed=False, now=32)
        >>> breaker.state
        <BreakerState.CLOSED: 'closed'>
    """

    __slots__ = ("_calls", "_failures", "_opened_at", "_period", "_probing", "limits", "state")

    def __init__(self, limits: BreakerLimits) -> None:
        self.limits = limits
        self.state = BreakerState.CLOSED
        self._calls: deque[tuple[float, bool]] = deque()
        self._failures = 0
        self._opened_at = 0.0
        self._period = 0
        self._probing = False

    def admit(self, now: float) -> int | None:
        """Admit a call, and return a token for `ended`; `None` if the call may not run."""
        if self.state is _CLOSED:
            return self._period
        if self.state is BreakerState.OPEN:
            if now < self._opened_at + self.limits.open_seconds:
                return None
            self._become(BreakerState.HALF_OPEN)
        if self._probing:
            return None
        self._probing = True
        return self._period

    def ended(self, admitted: int | None, *, failed: bool | None, now: float) -> None:
        """Count a call that has ended, unless it started before the last change of state."""
        if admitted != self._period:
            return
        if self.state is _CLOSED:
            if failed is not None:
                self._count(failed, now)
            return
        self._probing = False
        if failed is not None:
            self._become(BreakerState.OPEN if failed else BreakerState.CLOSED, now)

    def wait_seconds(self, now: float) -> int:
        """Return the seconds until a call may be admitted, at least one."""
        return max(math.ceil(self._opened_at + self.limits.open_seconds - now), 1)

    def _count(self, failed: bool, now: float) -> None:
        calls = self._calls
        calls.append((now, failed))
        if len(calls) > _MAX_CALLS:
            self._failures -= calls.popleft()[1]
        if failed:
            self._failures += 1
            self._judge(now)

    def _judge(self, now: float) -> None:
        """Open the breaker if too many recent calls have failed."""
        calls, limits = self._calls, self.limits
        while calls[0][0] <= now - limits.window_seconds:
            self._failures -= calls.popleft()[1]
        if len(calls) >= limits.min_calls and self._failures / len(calls) >= limits.error_rate:
            self._become(BreakerState.OPEN, now)

    def _become(self, state: BreakerState, now: float = 0.0) -> None:
        self.state = state
        self._period += 1
        self._probing = False
        self._calls.clear()
        self._failures = 0
        if state is BreakerState.OPEN:
            self._opened_at = now


class _Trial(NamedTuple):
    """The place of a trial call; an abandoned trial counts as a failure."""

    resource: Breaker
    admitted: int

    def leave(self) -> None:
        """Let another call be the trial, since this one may never end."""
        now = asyncio.get_running_loop().time()
        self.resource.ended(self.admitted, failed=True, now=now)


@dataclass(frozen=True, kw_only=True, slots=True)
class CircuitBreaker:
    """Refuses the calls of a tool that keeps failing, so that no call waits for it.

    Failures, timeouts, unavailability and unknown outcomes count as failures; errors of the model
    and cancelled calls do not count.
    """

    breaker: Breaker

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call, unless the breaker is open."""
        breaker, time = self.breaker, asyncio.get_running_loop().time
        before = breaker.state
        admitted = breaker.admit(time())
        if admitted is None:
            return _build_refusal(call, breaker.wait_seconds(time()))
        places = None
        if before is not _CLOSED:
            places = current().places
            places.append(_Trial(breaker, admitted))
        failed: bool | None = None
        try:
            result = await run(call)
            failed = _FAILED.get(result.status)
        finally:
            if places:  # empty if there was no trial, or it was abandoned
                places.pop()
            breaker.ended(admitted, failed=failed, now=time())
            if breaker.state is not before:
                self._report_state(call.name)
        return result

    def _report_state(self, tool: str) -> None:
        current().emit(EventKind.BREAKER, breaker=tool, state=self.breaker.state.value)
        if self.breaker.state is BreakerState.OPEN:
            seconds = self.breaker.limits.open_seconds
            logger.warning("The tool %r keeps failing: it is not called for %g s", tool, seconds)
        elif self.breaker.state is BreakerState.CLOSED:
            logger.info("The tool %r works again", tool)


def _build_refusal(call: ToolCall, seconds: int) -> ToolResult:
    error = RetryableError(
        say("circuit_open", tool=call.name),
        status="unavailable",
        retry_hint=say("circuit_open_hint", seconds=seconds),
        reason_code="circuit_open",
    )
    return ToolResult.from_error(error)


def for_tool(options: EffectiveOptions, shared: Shared) -> Iterator[CircuitBreaker]:
    """Yield the circuit breaker of a tool, if the settings enable one."""
    name, limits = options.tool.name, shared.policies.breaker_limits
    if not options.breaker:
        shared.breakers.pop(name, None)
        return
    breaker = shared.breakers.setdefault(name, Breaker(limits))
    breaker.limits = limits
    yield CircuitBreaker(breaker=breaker)
