"""Limit the calls of a session per turn, per minute, in all and at once."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leonidas_tools.calls.call import ResultStatus, Run, ToolCall, ToolResult
from leonidas_tools.calls.last_minute import MINUTE_SECONDS, LastMinute
from leonidas_tools.calls.turns import Turns
from leonidas_tools.policies.base import answered
from leonidas_tools.results.texts import say
from leonidas_tools.tools.metadata import ToolPriority

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Iterator, Sequence

    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class CallLimit:
    """The maximum numbers of calls; `None` for no limit."""

    tool: str | None = None  # `None` for all tools together
    per_turn: int | None = None  # since the user last spoke
    per_minute: int | None = None  # in any sixty seconds
    per_session: int | None = None

    @property
    def any(self) -> bool:
        """Return whether there is any limit."""
        return not (self.per_turn is self.per_minute is self.per_session is None)


class _Count:
    """The number of calls of one tool, or of all tools, in one session."""

    __slots__ = ("_in_session", "_in_turn", "_times", "_turn")

    def __init__(self) -> None:
        self._in_session = 0
        self._in_turn = 0
        self._turn = 0
        self._times = LastMinute()

    def take(self, most: CallLimit, turn: int, now: float) -> ToolResult | None:
        """Count one more call, or return a refusal if it exceeds a limit."""
        if turn != self._turn:
            self._turn, self._in_turn = turn, 0
        if most.per_session is not None and self._in_session >= most.per_session:
            return _limited(most, most.per_session, "session")
        if most.per_turn is not None and self._in_turn >= most.per_turn:
            return _limited(most, most.per_turn, "turn")
        if most.per_minute is not None and not self._times.admits(most.per_minute, now):
            wait = math.ceil(self._times[-most.per_minute] + MINUTE_SECONDS - now)
            return _limited(most, most.per_minute, "minute", wait)
        self._in_session += 1
        self._in_turn += 1
        return None

    def restore(self, number: int, times: Iterable[float]) -> None:
        """Count calls that were made in another process."""
        self._in_session += number
        self._times = LastMinute(sorted([*times, *self._times]))

    def give_back(self, most: CallLimit) -> None:
        """Undo the last count, since its call is not made."""
        self._in_session -= 1
        self._in_turn -= 1
        if most.per_minute is not None:
            self._times.pop()


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierCalls:
    """The calls of a tool that a session has made in another process."""

    tool: str
    number: int
    ages: Sequence[float] = ()  # seconds since each call of the last minute started


class CallCounts:
    """The number of calls that a session has made, by tool and in all."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[str | None, _Count] = {}

    def restore(self, earlier: Iterable[EarlierCalls], now: float) -> None:
        """Count the calls that the session has made in another process."""
        for calls in earlier:
            times = [now - age for age in calls.ages]
            for tool in (calls.tool, None):
                self._counts.setdefault(tool, _Count()).restore(calls.number, times)

    def take(self, limits: Sequence[CallLimit], turn: int, now: float) -> ToolResult | None:
        """Count a call, or return a refusal and count nothing."""
        counts = self._counts
        for most in limits:
            count = counts.get(most.tool)
            if count is None:
                count = counts[most.tool] = _Count()
            refusal = count.take(most, turn, now)
            if refusal is not None:
                for taken in limits[: limits.index(most)]:
                    counts[taken.tool].give_back(taken)
                return refusal
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class CallLimits:
    """Refuses a call that exceeds a limit.

    A call is counted when it starts, so that concurrent calls cannot exceed the limit.
    """

    limits: Sequence[CallLimit]

    def __call__(self, call: ToolCall, run: Run) -> Awaitable[ToolResult]:
        """Run the call, if no limit is reached."""
        session, now = call.session, asyncio.get_running_loop().time()
        refusal = session.get(CallCounts).take(self.limits, session.get(Turns).number, now)
        return run(call) if refusal is None else answered(refusal)


def _limited(most: CallLimit, count: int, what: str, wait: int | None = None) -> ToolResult:
    key = f"calls_per_{what}"
    message = (
        say(f"all_{key}", count=count)
        if most.tool is None
        else say(key, tool=most.tool, count=count)
    )
    return ToolResult(
        status=ResultStatus.LIMITED,
        message=message,
        retryable=wait is not None,
        retry_hint=None if wait is None else say("calls_per_minute_hint", seconds=wait),
        reason_code=key,
    )


def too_many_at_once(most: int) -> ToolResult:
    """Return the refusal of one more call where `most` calls of the session have no result yet.

    The executor gives it before it starts the call: a flood must not reach the other policies.
    """
    return ToolResult(
        status=ResultStatus.LIMITED,
        message=say("all_calls_at_once", count=most),
        retryable=True,
        retry_hint=say("calls_at_once_hint"),
        reason_code="calls_at_once",
    )


def for_tool(options: EffectiveOptions, shared: Shared) -> Iterator[CallLimits]:
    """Yield the limits of a tool's calls; a critical tool has none."""
    if options.priority is ToolPriority.CRITICAL:
        return
    total = shared.policies.calls
    limits = (
        CallLimit(
            per_turn=total.per_turn or None,
            per_minute=total.per_minute or None,
            per_session=total.per_session or None,
        ),
        CallLimit(
            tool=options.tool.name,
            per_turn=options.calls_per_turn,
            per_minute=options.calls_per_minute,
            per_session=options.calls_per_session,
        ),
    )
    limited = [most for most in limits if most.any]
    if limited:
        yield CallLimits(limits=limited)
