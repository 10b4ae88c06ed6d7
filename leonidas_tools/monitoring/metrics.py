"""Metrics of each tool and of the system: calls, their results and their durations."""

from __future__ import annotations

import re
import time
from collections import Counter, OrderedDict, deque
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.monitoring.histogram import DurationHistogram
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.settings.effective import category_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from leonidas_tools.calls.call import ResultStatus, ToolCall
    from leonidas_tools.calls.events import ToolEvent

_log = visible_logger(__name__)

UNKNOWN_TOOL = "(unknown)"
"""Name for all unknown tools, since a model can invent any number of names."""
OTHER_TOOLS = "(other)"
"""Name for the tools beyond the limit."""

_RETRY, _FALLBACK = EventKind.RETRY, EventKind.FALLBACK
_COMPLETE, _FAILED = EventKind.COMPLETE, EventKind.FAILED
_ERROR, _CANCEL = EventKind.ERROR, EventKind.CANCEL
_RECENT = 100
"""The number of recent calls."""
_MINUTE_SECONDS = 60.0
_MAX_SESSIONS = 1000
_MAX_RECOVERING = 10_000
"""The number of calls in recovery; only calls that never end could reach it."""
_STRATEGIES = frozenset({"retry", "fallback", "similar_tool"})
_ERROR_KIND = r"[A-Za-z_][A-Za-z0-9_.]{0,63}"
_OTHER_KIND = "(other)"
_MAX_KINDS = 64

_Sample: TypeAlias = tuple[float, float, EventKind]
"""The end time of a call, its duration in seconds, and the kind of its last event."""
_RecoveryKey: TypeAlias = tuple[str, str]
"""A strategy and a kind of error."""


def _recovery_key(event: ToolEvent) -> _RecoveryKey:
    """Return the strategy and the kind of error of a retry or a fallback."""
    default = "retry" if event.kind is EventKind.RETRY else "fallback"
    strategy = event.data.get("strategy", default)
    error = event.data.get("error", "")
    kind = type(error).__name__ if isinstance(error, BaseException) else str(error)
    # An error that is a sentence is not kept: it may contain anything.
    return (
        strategy if strategy in _STRATEGIES else default,
        kind if re.fullmatch(_ERROR_KIND, kind) else _OTHER_KIND,
    )


class Recoveries:
    """Counts attempted and successful recoveries, in bounded memory."""

    __slots__ = ("succeeded", "tried")

    def __init__(self) -> None:
        self.tried: dict[_RecoveryKey, int] = {}
        self.succeeded: dict[_RecoveryKey, int] = {}

    def add(self, key: _RecoveryKey) -> _RecoveryKey:
        """Count an attempted recovery and return the key it is counted under."""
        if key not in self.tried and len(self.tried) >= _MAX_KINDS:
            key = (key[0], _OTHER_KIND)
        self.tried[key] = self.tried.get(key, 0) + 1
        return key

    def succeed(self, key: _RecoveryKey) -> None:
        """Count a successful recovery."""
        self.succeeded[key] = self.succeeded.get(key, 0) + 1

    @classmethod
    def merged(cls, parts: Iterable[Recoveries]) -> Recoveries:
        """Return the sum of the parts."""
        total = cls()
        for part in parts:
            _sum_into(total.tried, part.tried)
            _sum_into(total.succeeded, part.succeeded)
        return total

    def to_json(self) -> dict[str, Any]:
        """Return the counts by strategy and kind of error, as plain JSON."""
        report: dict[str, dict[str, dict[str, int]]] = {}
        for key, tried in self.tried.copy().items():
            strategy, kind = key
            counts = {"tried": tried, "succeeded": self.succeeded.get(key, 0)}
            report.setdefault(strategy, {})[kind] = counts
        return report


def _sum_into(total: dict[_RecoveryKey, int], part: Mapping[_RecoveryKey, int]) -> None:
    for key, count in dict(part).items():
        total[key] = total.get(key, 0) + count


class ToolMetrics:
    """The metrics of one tool; written by one thread, read by any."""

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
        """The durations of calls that completed or failed; only these measure the tool."""
        self.recent: deque[_Sample] = deque(maxlen=_RECENT)
        self.retries = 0
        self.fallbacks = 0
        self.recoveries = Recoveries()
        self.last_at: float | None = None
        self._minute = 0.0
        self._this_minute = 0
        self._last_minute = 0

    def add(self, status: ResultStatus, sample: _Sample) -> None:
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
        """Return the number of ended calls."""
        return sum(self.ends.values())

    def calls_per_minute(self, now: float) -> float:
        """Return the number of calls that ended in the last sixty seconds.

        The calls of the previous clock minute are assumed to be evenly distributed.
        """
        minute, passed = divmod(now, _MINUTE_SECONDS)
        if minute == self._minute:
            return self._this_minute + self._last_minute * (1 - passed / _MINUTE_SECONDS)
        if minute == self._minute + 1:
            return self._this_minute * (1 - passed / _MINUTE_SECONDS)
        return 0.0

    def to_json(self, *, active: int, now: float) -> dict[str, Any]:
        """Return the metrics as plain JSON, with the number of running calls."""
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
            "recent_error_rate": _recent_error_rate(self.recent) or 0.0,
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


def _system_metrics(parts: Sequence[ToolMetrics], recent: Iterable[_Sample]) -> ToolMetrics:
    """Return the sum of the metrics of all tools."""
    total = ToolMetrics("(system)", "(system)")
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


def _recent_error_rate(recent: deque[_Sample]) -> float | None:
    """Return the share of failures among recent calls; `None` if all were cancelled."""
    kinds = [kind for _, _, kind in recent.copy() if kind is not _CANCEL]
    return kinds.count(_FAILED) / len(kinds) if kinds else None


def _recent_seconds(recent: deque[_Sample]) -> list[float]:
    """Return the durations of the recent calls that completed or failed, the shortest first."""
    return sorted(
        seconds for _, seconds, kind in recent.copy() if kind is _COMPLETE or kind is _FAILED
    )


class Metrics:
    """Counts events per tool; the metrics of the system are their sum, computed on demand.

    `executions` are the ended calls: `successes`, `failures` (attempted and failed), `refusals`
    (the model can correct them: invalid arguments, an unknown or disabled tool) and
    `cancellations`. The error rate is the share of failures among the calls not cancelled;
    durations are those of successes and failures. The last hundred calls are recent. Percentiles
    are within 4 % of the true ones.

    One thread sends the events; any thread may read. `active` returns the number of running calls
    of a tool, or of all for `None`. Tools beyond `most_tools` share one entry, and so do all
    unknown names.
    """

    __slots__ = (
        "_active",
        "_calls",
        "_most_tools",
        "_other",
        "_recent",
        "_recovering",
        "_tools",
        "_unknown",
    )

    def __init__(
        self, *, active: Callable[[str | None], int] = lambda _: 0, most_tools: int = 500
    ) -> None:
        self._active = active
        self._most_tools = most_tools
        self._tools: dict[str, ToolMetrics] = {}
        self._unknown = ToolMetrics(UNKNOWN_TOOL, UNKNOWN_TOOL)
        self._other = ToolMetrics(OTHER_TOOLS, OTHER_TOOLS)
        self._recent: deque[_Sample] = deque(maxlen=_RECENT)
        self._calls = 0
        self._recovering: dict[str, tuple[ToolMetrics, _RecoveryKey]] = {}

    def __call__(self, event: ToolEvent) -> None:
        """Count an ended call, or an attempted recovery."""
        kind = event.kind
        if event.result is not None:
            sample = (event.at, event.seconds or 0.0, kind)
            self._metrics_of(event.call).add(event.result.status, sample)
            self._recent.append(sample)
            self._calls += 1
            if self._recovering:
                self._end_recovery(event)
        elif kind is _RETRY or kind is _FALLBACK:
            self._begin_recovery(event)

    def tools(self) -> list[ToolMetrics]:
        """Return the metrics of every called tool, and the shared entries."""
        shared = [metrics for metrics in (self._unknown, self._other) if metrics.calls]
        return [*self._tools.copy().values(), *shared]

    def names(self) -> list[str]:
        """Return the names of the tools with their own entry."""
        return list(self._tools)

    def to_json(self, tool: str | None = None) -> dict[str, Any]:
        """Return the metrics of one tool, or of the system and every tool, as plain JSON."""
        now = time.time()
        if tool is not None:
            metrics = self._find(tool) or ToolMetrics(tool, UNKNOWN_TOOL)
            return metrics.to_json(active=self._active(tool), now=now)
        tools = self.tools()
        system = _system_metrics(tools, self._recent.copy()).to_json(
            active=self._active(None), now=now
        )
        system["calls_per_minute"] = self._calls_per_minute(None, now)
        return {
            "system": system,
            "tools": {t.tool: t.to_json(active=self._active(t.tool), now=now) for t in tools},
        }

    def measure(self, metric: str, tool: str | None, now: float) -> float | None:
        """Return a recent metric of a tool, or of the system; `None` if there were no calls.

        The metrics are `error_rate`, `mean_seconds`, `p50_seconds`, `p95_seconds`, `p99_seconds`,
        `calls_per_minute` and `active`.
        """
        if metric == "active":
            return float(self._active(tool))
        if metric == "calls_per_minute":
            return self._calls_per_minute(tool, now)
        metrics = self._find(tool)
        recent = self._recent if tool is None else metrics.recent if metrics else deque[_Sample]()
        if metric == "error_rate":
            return _recent_error_rate(recent)
        return _duration_of(metric, _recent_seconds(recent))

    def durations(self, tool: str | None) -> DurationHistogram:
        """Return a histogram of the durations of a tool's calls, or of all calls."""
        parts = [metrics for metrics in self.tools() if tool in {None, metrics.tool}]
        return DurationHistogram.merged(metrics.durations for metrics in parts)

    def calls(self, tool: str | None) -> int:
        """Return the number of ended calls of one tool, or of all for `None`."""
        metrics = self._find(tool)
        return self._calls if tool is None else metrics.calls if metrics else 0

    def _calls_per_minute(self, tool: str | None, now: float) -> float:
        return sum(
            metrics.calls_per_minute(now)
            for metrics in self.tools()
            if tool is None or metrics.tool == tool
        )

    def _find(self, tool: str | None) -> ToolMetrics | None:
        shared = {UNKNOWN_TOOL: self._unknown, OTHER_TOOLS: self._other}
        return None if tool is None else self._tools.get(tool) or shared.get(tool)

    def _metrics_of(self, call: ToolCall) -> ToolMetrics:
        if call.tool is None:
            return self._unknown
        metrics = self._tools.get(call.name)
        if metrics is None:
            if len(self._tools) >= self._most_tools:
                return self._other
            metrics = ToolMetrics(call.name, str(category_of(call.tool, call.settings)))
            self._tools[call.name] = metrics
        return metrics

    def _begin_recovery(self, event: ToolEvent) -> None:
        metrics = self._metrics_of(event.call)
        if event.kind is _RETRY:
            metrics.retries += 1
        else:
            metrics.fallbacks += 1
        key = metrics.recoveries.add(_recovery_key(event))
        self._recovering[event.call.trace_id] = (metrics, key)
        if len(self._recovering) > _MAX_RECOVERING:
            del self._recovering[next(iter(self._recovering))]

    def _end_recovery(self, event: ToolEvent) -> None:
        """Count the last attempted recovery as successful if the call succeeded."""
        metrics, key = self._recovering.pop(event.call.trace_id, (None, ("", "")))
        if metrics is not None and event.result is not None and event.result.ok:
            metrics.recoveries.succeed(key)


def _duration_of(metric: str, seconds: list[float]) -> float | None:
    """Return the mean or a percentile (by nearest rank) of some durations, the shortest first."""
    if not seconds:
        return None
    if metric == "mean_seconds":
        return sum(seconds) / len(seconds)
    percent = int(metric.removeprefix("p").removesuffix("_seconds"))
    return seconds[-(-len(seconds) * percent // 100) - 1]


class SessionCallRate:
    """Warns when a session makes more than `most_per_minute` calls; `None` for no limit."""

    __slots__ = ("_minutes", "busy_minutes", "most_per_minute")

    def __init__(self, most_per_minute: int | None = 30) -> None:
        self.most_per_minute = most_per_minute
        self.busy_minutes = 0
        """The number of minutes above the limit, over all sessions."""
        self._minutes: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def __call__(self, event: ToolEvent) -> None:
        """Count an ended call."""
        most = self.most_per_minute
        if event.result is None or most is None:
            return
        session, now = event.call.session.id, event.at // _MINUTE_SECONDS
        minute, count = self._minutes.pop(session, (now, 0))
        count = count + 1 if minute == now else 1
        self._minutes[session] = (now, count)
        if len(self._minutes) > _MAX_SESSIONS:
            self._minutes.popitem(last=False)
        if count == most + 1:
            self.busy_minutes += 1
            _log.warning("The session %r makes more than %d calls a minute", session, most)
