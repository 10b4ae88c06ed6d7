"""The health report: whether all is well, and if not, why, in sentences."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from leonidas_tools.errors import ConfigurationError, StoreError
from leonidas_tools.monitoring.vitals import Vitals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

HealthState: TypeAlias = Literal["healthy", "degraded", "unhealthy"]

_WORST: Sequence[HealthState] = ("healthy", "degraded", "unhealthy")
_FEWEST_CALLS = 5
"""Fewer calls than these say nothing of a tool."""
_DEGRADED_ERROR_RATE = 0.1
_UNHEALTHY_ERROR_RATE = 0.5
_LONG_CALL_SECONDS = 300.0
_DEGRADED_LAG_SECONDS = 0.1
_UNHEALTHY_LAG_SECONDS = 1.0

Finding: TypeAlias = tuple[HealthState, str]
"""How bad it is, and what is the matter, as a sentence."""


class Figures(Protocol):
    """The part of the registry that the report reads."""

    def names(self) -> Iterable[str]:
        """Return the tools that were called."""

    def measure(self, metric: str, tool: str | None, now: float) -> float | None:
        """Return one figure of a tool or of the system; `None` where there is none yet."""

    def calls(self, tool: str | None) -> int:
        """Return how many calls of a tool have ended."""


class Call(Protocol):
    """A running call."""

    @property
    def tool(self) -> str:
        """Return the tool's name."""

    @property
    def trace_id(self) -> str:
        """Name the call in events and logs."""

    @property
    def seconds(self) -> float:
        """Return how long it has run."""


class Calls(Protocol):
    """The part of the ledger that the report reads."""

    @property
    def protocol_errors(self) -> int:
        """Call that started or ended a second time."""

    def under_way(self) -> Sequence[Call]:
        """Return the running calls, the oldest first."""


class FiringAlert(Protocol):
    """An alert that fires."""

    @property
    def sentence(self) -> str:
        """Return what happened, for a person."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolHealth:
    """The health of one tool.

    Args:
        state: `healthy`, `degraded` or `unhealthy`.
        error_rate: The share of failures among its recent calls.
    """

    state: HealthState
    error_rate: float


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthReport:
    """The health of the system.

    Args:
        status: `healthy`, `degraded` or `unhealthy`.
        reasons: Why it is not healthy, the worst first.
        tools: How each tool is doing that was called, by name.
        in_flight: How many calls run.
        oldest_call: The call that has run longest: tool, trace id, seconds.
        abandoned_threads: How many threads run on whose call has ended.
        alerts: What fires.
        settings_error: What is wrong with the settings file, if anything.
        errors: What is wrong outside of the tools, each with its `level` and its `message`.
        loop_lag_seconds: How late the event loop runs what is due, where that is measured.
        breakers: The state of every breaker that watches a tool, by its name.
        at: When the report was made, in seconds since the epoch.
    """

    status: HealthState
    reasons: Sequence[str] = ()
    tools: dict[str, ToolHealth] = field(default_factory=dict)
    in_flight: int = 0
    oldest_call: dict[str, Any] | None = None
    abandoned_threads: int = 0
    alerts: Sequence[str] = ()
    settings_error: str | None = None
    errors: Sequence[dict[str, str]] = ()
    loop_lag_seconds: float | None = None
    breakers: dict[str, str] = field(default_factory=dict)
    at: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON."""
        lists = {"reasons": self.reasons, "alerts": self.alerts, "errors": self.errors}
        return {**asdict(self), **{key: list(values) for key, values in lists.items()}}


class Health:
    """Judge the figures, the running calls, the alerts and the vitals.

    A tool, and the system as a whole, is degraded from a tenth of recent calls failing and
    unhealthy from a half, given five calls. The system is also unhealthy where a call ended twice
    or the event loop lags by a second; a tool that is unhealthy, an alert that fires, a broken
    settings file, an abandoned thread, a call of five minutes or a lag of 0.1 s degrades it.

    Args:
        figures: What is known of the tools.
        calls: The running calls.
        alerts: The alerts that fire.
        vitals: What others know.
    """

    __slots__ = ("_alerts", "_calls", "_figures", "_vitals")

    def __init__(
        self,
        figures: Figures,
        calls: Calls,
        alerts: Callable[[], Iterable[FiringAlert]] = tuple,
        vitals: Vitals | None = None,
    ) -> None:
        self._figures = figures
        self._calls = calls
        self._alerts = alerts
        self._vitals = vitals or Vitals()

    def report(self) -> HealthReport:
        """Return how things are now."""
        now = time.time()
        under_way = self._calls.under_way()
        tools = {name: self._tool(name, now) for name in self._figures.names()}
        alerts = [alert.sentence for alert in self._alerts()]
        vitals = self._vitals
        threads, error, lag = (
            vitals.abandoned_threads(),
            vitals.settings_error(),
            vitals.loop_lag_seconds(),
        )
        breakers, store_error = dict(vitals.breakers()), vitals.store_error()
        findings = [
            *self._system_findings(now),
            *_tool_findings(tools),
            *_call_findings(under_way),
            *_vital_findings(threads, error, lag),
            *_breaker_findings(breakers),
            *_store_findings(store_error),
            *(("degraded", sentence) for sentence in alerts),
        ]
        findings.sort(key=lambda finding: _WORST.index(finding[0]), reverse=True)
        return HealthReport(
            status=findings[0][0] if findings else "healthy",
            reasons=[sentence for _, sentence in findings],
            tools=tools,
            in_flight=len(under_way),
            oldest_call=_oldest(under_way),
            abandoned_threads=threads,
            alerts=alerts,
            settings_error=error,
            errors=_errors(error, store_error),
            loop_lag_seconds=lag,
            breakers=breakers,
            at=now,
        )

    def _tool(self, name: str | None, now: float) -> ToolHealth:
        rate = self._figures.measure("error_rate", name, now) or 0.0
        if self._figures.calls(name) < _FEWEST_CALLS or rate < _DEGRADED_ERROR_RATE:
            return ToolHealth(state="healthy", error_rate=rate)
        state: HealthState = "unhealthy" if rate >= _UNHEALTHY_ERROR_RATE else "degraded"
        return ToolHealth(state=state, error_rate=rate)

    def _system_findings(self, now: float) -> Iterator[Finding]:
        system = self._tool(None, now)
        if system.state != "healthy":
            yield system.state, f"{system.error_rate:.0%} of the recent calls failed."
        if self._calls.protocol_errors:
            count = self._calls.protocol_errors
            yield "unhealthy", f"Calls that started or ended a second time: {count}."


def _tool_findings(tools: dict[str, ToolHealth]) -> Iterator[Finding]:
    for name, tool in tools.items():
        if tool.state != "healthy":
            yield "degraded", f"{tool.error_rate:.0%} of the recent calls of {name!r} failed."


def _call_findings(under_way: Sequence[Call]) -> Iterator[Finding]:
    long = [call for call in under_way if call.seconds >= _LONG_CALL_SECONDS]
    if long:
        oldest = long[0]
        reason = (
            f"Calls running for {_LONG_CALL_SECONDS:g} s or more: {len(long)}; "
            f"the oldest of {oldest.tool!r} ({oldest.trace_id}) for {oldest.seconds:.0f} s."
        )
        yield "degraded", reason


def _vital_findings(threads: int, error: str | None, lag: float | None) -> Iterator[Finding]:
    if threads:
        yield "degraded", f"Threads that run on after their call has ended: {threads}."
    if error is not None:
        yield "degraded", f"The settings are broken, the last good ones hold: {error}"
    if lag is not None and lag >= _DEGRADED_LAG_SECONDS:
        state: HealthState = "unhealthy" if lag >= _UNHEALTHY_LAG_SECONDS else "degraded"
        yield state, f"The event loop runs {lag:.2f} s late: a tool blocks it."


def _store_findings(error: str | None) -> Iterator[Finding]:
    if error is not None:
        yield "degraded", f"What happens may not be kept: {error}."


def _errors(settings_error: str | None, store_error: str | None) -> tuple[dict[str, str], ...]:
    """Return the errors that last, the worst first."""
    found = ((StoreError.level, store_error), (ConfigurationError.level, settings_error))
    return tuple({"level": level, "message": each} for level, each in found if each is not None)


def _breaker_findings(breakers: dict[str, str]) -> Iterator[Finding]:
    for name, state in breakers.items():
        if state != "closed":
            yield "degraded", f"The tool {name!r} keeps failing and is not called for a while."


def _oldest(under_way: Sequence[Call]) -> dict[str, Any] | None:
    if not under_way:
        return None
    call = under_way[0]
    return {"tool": call.tool, "trace_id": call.trace_id, "seconds": call.seconds}
