"""The figures of one tool: counts, times, and what the last hundred calls say."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.calls.events import EventKind
from leonidas_tools.monitoring.histogram import DurationHistogram
from leonidas_tools.monitoring.recoveries import Recoveries

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leonidas_tools.calls.call import ResultStatus

RECENT = 100
"""How many ended calls are recent."""

_MINUTE_SECONDS = 60.0
_COMPLETE = EventKind.COMPLETE
_ERROR = EventKind.ERROR
_FAILED = EventKind.FAILED
_CANCEL = EventKind.CANCEL

Sample: TypeAlias = tuple[float, float, EventKind]
"""When a call ended, how many seconds it took, and how it ended."""


class ToolFigures:
    """The counts of one tool; written by one thread, read by any.

    Args:
        tool: The tool's name.
        category: Its category.
    """

    __slots__ = (
        "_last_minute",
        "_minute",
        "_this_minute",
        "category",
        "durations",
        "ends",
        "fallbacks",
        "last_at",
        "recent",
        "recoveries",
        "retries",
        "statuses",
        "tool",
    )

    def __init__(self, tool: str, category: str) -> None:
        self.tool = tool
        self.category = category
        self.statuses: dict[ResultStatus, int] = {}
        self.ends = dict.fromkeys((_COMPLETE, _ERROR, _FAILED, _CANCEL), 0)
        """Ended calls by the kind of their last event."""
        self.durations = DurationHistogram()
        """Of the calls that completed or failed; refusals and cancellations say nothing."""
        self.recent: deque[Sample] = deque(maxlen=RECENT)
        self.retries = 0
        self.fallbacks = 0
        self.recoveries = Recoveries()
        self.last_at: float | None = None
        self._minute = 0.0
        self._this_minute = 0
        self._last_minute = 0

    def add(self, status: ResultStatus, sample: Sample) -> None:
        """Count a call that ended."""
        at, seconds, kind = sample
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.ends[kind] += 1
        if kind is _COMPLETE or kind is _FAILED:
            self.durations.add(seconds)
        self.recent.append(sample)
        self.last_at = at
        minute = at // _MINUTE_SECONDS
        if minute != self._minute:
            self._last_minute = self._this_minute if minute == self._minute + 1 else 0
            self._this_minute = 0
            self._minute = minute
        self._this_minute += 1

    def by_status(self) -> dict[str, int]:
        """Return the ended calls by the status of their result."""
        return {status.value: count for status, count in self.statuses.copy().items()}

    @property
    def calls(self) -> int:
        """Return how many calls have ended."""
        return sum(self.ends.values())

    def calls_per_minute(self, now: float) -> float:
        """Return how many calls ended in the last sixty seconds.

        Those of the clock minute before are taken to be evenly spread.

        Args:
            now: The time, in seconds since the epoch.
        """
        minute, passed = divmod(now, _MINUTE_SECONDS)
        if minute == self._minute:
            return self._this_minute + self._last_minute * (1 - passed / _MINUTE_SECONDS)
        if minute == self._minute + 1:
            return self._this_minute * (1 - passed / _MINUTE_SECONDS)
        return 0.0

    def to_json(self, *, active: int, now: float) -> dict[str, Any]:
        """Return the figures as plain JSON.

        Args:
            active: How many calls run.
            now: The time, in seconds since the epoch.
        """
        return {
            "category": self.category,
            "executions": self.calls,
            "successes": self.ends[_COMPLETE],
            "failures": self.ends[_FAILED],
            "refusals": self.ends[_ERROR],
            "cancellations": self.ends[_CANCEL],
            "active": active,
            "statuses": self.by_status(),
            "error_rate": self.ends[_FAILED] / max(self.calls - self.ends[_CANCEL], 1),
            "recent_error_rate": recent_error_rate(self.recent) or 0.0,
            "mean_seconds": self.durations.mean_seconds,
            "p50_seconds": self.durations.percentile(50),
            "p95_seconds": self.durations.percentile(95),
            "p99_seconds": self.durations.percentile(99),
            "max_seconds": self.durations.max_seconds if self.durations.count else None,
            "calls_per_minute": self.calls_per_minute(now),
            "retries": self.retries,
            "fallbacks": self.fallbacks,
            "recoveries": self.recoveries.to_json(),
            "last_execution": self.last_at,
        }


def system_figures(parts: Sequence[ToolFigures], recent: Iterable[Sample]) -> ToolFigures:
    """Return the sum of the figures of all tools.

    Args:
        parts: The figures of each tool.
        recent: The last calls of them all.
    """
    total = ToolFigures("(system)", "(system)")
    statuses: Counter[ResultStatus] = Counter()
    ends: Counter[EventKind] = Counter(total.ends)
    for part in parts:
        statuses.update(part.statuses.copy())
        ends.update(part.ends)
        total.retries += part.retries
        total.fallbacks += part.fallbacks
    total.statuses, total.ends = dict(statuses), dict(ends)
    total.durations = DurationHistogram.merged(part.durations for part in parts)
    total.recoveries = Recoveries.merged(part.recoveries for part in parts)
    total.recent.extend(recent)
    total.last_at = max((p.last_at for p in parts if p.last_at is not None), default=None)
    return total


def recent_error_rate(recent: deque[Sample]) -> float | None:
    """Return the share of failures among recent calls; `None` where all were cancelled."""
    kinds = [kind for _, _, kind in recent.copy() if kind is not _CANCEL]
    return kinds.count(_FAILED) / len(kinds) if kinds else None


def recent_seconds(recent: deque[Sample]) -> list[float]:
    """Return how long the recent calls took that completed or failed, the shortest first."""
    return sorted(
        seconds for _, seconds, kind in recent.copy() if kind is _COMPLETE or kind is _FAILED
    )
