"""Metrics: per tool and for the system, what was run, how it ended and how long it took."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.monitoring.figures import (
    RECENT,
    Sample,
    ToolFigures,
    recent_error_rate,
    recent_seconds,
    system_figures,
)
from leonidas_tools.monitoring.histogram import DurationHistogram
from leonidas_tools.monitoring.recoveries import RecoveryKey, recovery_key
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.settings.effective import category_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from leonidas_tools.calls.call import ToolCall
    from leonidas_tools.calls.events import ToolEvent

UNKNOWN_TOOL = "(unknown)"
"""Stands for every name that is no tool's: a model can make up any number of them."""
OTHER_TOOLS = "(other)"
"""Stands for the tools beyond the limit."""

_RETRY = EventKind.RETRY
_FALLBACK = EventKind.FALLBACK
_MOST_RECOVERING = 10_000
"""Calls that are being recovered at once; only calls that never end could reach it."""


class Metrics:
    """Counts what happens, per tool; the system's figures are their sum, made when asked for.

    `executions` are the calls that ended: `successes`, `failures` (tried, and did not work),
    `refusals` (the model can mend them: bad arguments, an unknown or disabled tool) and
    `cancellations`. The error rate is that of failures among the calls not cancelled; times are
    those of successes and failures. Recent are the last hundred calls. Percentiles are within
    4 % of the true ones.

    One thread sends the events; any thread may read.

    Args:
        active: How many calls of a tool run; of all tools for `None`.
        most_tools: How many tools have figures of their own; the rest share one entry, and so
            do all names that are no tool's.
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
        self._tools: dict[str, ToolFigures] = {}
        self._unknown = ToolFigures(UNKNOWN_TOOL, UNKNOWN_TOOL)
        self._other = ToolFigures(OTHER_TOOLS, OTHER_TOOLS)
        self._recent: deque[Sample] = deque(maxlen=RECENT)
        self._calls = 0
        self._recovering: dict[str, tuple[ToolFigures, RecoveryKey]] = {}

    def __call__(self, event: ToolEvent) -> None:
        """Count a call that ends, and what was tried to save it."""
        kind = event.kind
        if event.result is not None:
            sample = (event.at, event.seconds or 0.0, kind)
            self._figures_of(event.call).add(event.result.status, sample)
            self._recent.append(sample)
            self._calls += 1
            if self._recovering:
                self._end_recovery(event)
        elif kind is _RETRY or kind is _FALLBACK:
            self._begin_recovery(event)

    def tools(self) -> list[ToolFigures]:
        """Return the figures of every called tool, and of the rest together."""
        shared = [figures for figures in (self._unknown, self._other) if figures.calls]
        return [*self._tools.copy().values(), *shared]

    def names(self) -> list[str]:
        """Return the tools that have figures of their own."""
        return list(self._tools)

    def to_json(self, tool: str | None = None) -> dict[str, Any]:
        """Return the figures of one tool, or of the system and every tool, as plain JSON.

        Args:
            tool: A tool's name; one that was never called has zeros.
        """
        now = time.time()
        if tool is not None:
            figures = self._find(tool) or ToolFigures(tool, UNKNOWN_TOOL)
            return figures.to_json(active=self._active(tool), now=now)
        tools = self.tools()
        system = system_figures(tools, self._recent.copy()).to_json(
            active=self._active(None), now=now
        )
        system["calls_per_minute"] = self._calls_per_minute(None, now)
        return {
            "system": system,
            "tools": {t.tool: t.to_json(active=self._active(t.tool), now=now) for t in tools},
        }

    def measure(self, metric: str, tool: str | None, now: float) -> float | None:
        """Return one figure of the recent past; `None` where there were no calls to measure.

        Args:
            metric: `error_rate`, `mean_seconds`, `p50_seconds`, `p95_seconds`, `p99_seconds`,
                `calls_per_minute` or `active`.
            tool: Of this tool; of the system for `None`.
            now: The time, in seconds since the epoch.
        """
        if metric == "active":
            return float(self._active(tool))
        if metric == "calls_per_minute":
            return self._calls_per_minute(tool, now)
        figures = self._find(tool)
        recent = self._recent if tool is None else figures.recent if figures else deque[Sample]()
        if metric == "error_rate":
            return recent_error_rate(recent)
        return _time_of(metric, recent_seconds(recent))

    def durations(self, tool: str | None) -> DurationHistogram:
        """Return a histogram of the durations of a tool's calls, or of all calls."""
        parts = [figures for figures in self.tools() if tool in {None, figures.tool}]
        return DurationHistogram.merged(figures.durations for figures in parts)

    def calls(self, tool: str | None) -> int:
        """Return how many calls have ended: of one tool, or of all for `None`."""
        figures = self._find(tool)
        return self._calls if tool is None else figures.calls if figures else 0

    def _calls_per_minute(self, tool: str | None, now: float) -> float:
        return sum(
            figures.calls_per_minute(now)
            for figures in self.tools()
            if tool is None or figures.tool == tool
        )

    def _find(self, tool: str | None) -> ToolFigures | None:
        shared = {UNKNOWN_TOOL: self._unknown, OTHER_TOOLS: self._other}
        return None if tool is None else self._tools.get(tool) or shared.get(tool)

    def _figures_of(self, call: ToolCall) -> ToolFigures:
        if call.tool is None:
            return self._unknown
        figures = self._tools.get(call.name)
        if figures is None:
            if len(self._tools) >= self._most_tools:
                return self._other
            figures = ToolFigures(call.name, str(category_of(call.tool, call.settings)))
            self._tools[call.name] = figures
        return figures

    def _begin_recovery(self, event: ToolEvent) -> None:
        figures = self._figures_of(event.call)
        if event.kind is _RETRY:
            figures.retries += 1
        else:
            figures.fallbacks += 1
        key = figures.recoveries.add(recovery_key(event))
        self._recovering[event.call.trace_id] = (figures, key)
        if len(self._recovering) > _MOST_RECOVERING:
            del self._recovering[next(iter(self._recovering))]

    def _end_recovery(self, event: ToolEvent) -> None:
        """Count what was tried last as what helped, if the call succeeded."""
        figures, key = self._recovering.pop(event.call.trace_id, (None, ("", "")))
        if figures is not None and event.result is not None and event.result.ok:
            figures.recoveries.succeed(key)


def _time_of(metric: str, seconds: list[float]) -> float | None:
    """Return the mean or a percentile (by nearest rank) of some durations, the shortest first."""
    if not seconds:
        return None
    if metric == "mean_seconds":
        return sum(seconds) / len(seconds)
    percent = int(metric.removeprefix("p").removesuffix("_seconds"))
    return seconds[-(-len(seconds) * percent // 100) - 1]


_log = visible_logger(__name__)

_MINUTE_SECONDS = 60.0
_MOST_SESSIONS = 1000


class Frequency:
    """Counts the calls of each session by the minute.

    Args:
        most_per_minute: How many are ordinary; `None` for any number.
    """

    __slots__ = ("_minutes", "busy_minutes", "most_per_minute")

    def __init__(self, most_per_minute: int | None = 30) -> None:
        self.most_per_minute = most_per_minute
        self.busy_minutes = 0
        """How many minutes of how many sessions had more."""
        self._minutes: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def __call__(self, event: ToolEvent) -> None:
        """Count a call that ends."""
        most = self.most_per_minute
        if event.result is None or most is None:
            return
        session, now = event.call.session.id, event.at // _MINUTE_SECONDS
        minute, count = self._minutes.pop(session, (now, 0))
        count = count + 1 if minute == now else 1
        self._minutes[session] = (now, count)
        if len(self._minutes) > _MOST_SESSIONS:
            self._minutes.popitem(last=False)
        if count == most + 1:
            self.busy_minutes += 1
            _log.warning("The session %r makes more than %d calls a minute", session, most)
