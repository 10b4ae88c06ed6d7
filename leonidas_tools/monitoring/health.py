"""The health report: the state of the system, with reasons in sentences."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from leonidas_tools.errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from leonidas_tools.monitoring.alerts import Alert
    from leonidas_tools.monitoring.ledger import Ledger, RunningCall
    from leonidas_tools.monitoring.metrics import Metrics


def _none() -> None:
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Vitals:
    """Sources of vital signs; each is called for every report.

    Args:
        abandoned_threads: Returns the number of threads that outlive their call.
        settings_error: Returns the error in the settings file, if any.
        store_error: Returns the error of the store, if any.
        loop_lag_seconds: Returns the lag of the event loop, if it is measured.
        breakers: Returns the state of each circuit breaker, by the name of its tool.
        cache: Returns the size of the result cache and its hits.
    """

    abandoned_threads: Callable[[], int] = int
    settings_error: Callable[[], str | None] = _none
    store_error: Callable[[], str | None] = _none
    loop_lag_seconds: Callable[[], float | None] = _none
    breakers: Callable[[], Mapping[str, str]] = dict
    cache: Callable[[], Mapping[str, Any]] = dict


HealthState: TypeAlias = Literal["healthy", "degraded", "unhealthy"]

_WORST: Sequence[HealthState] = ("healthy", "degraded", "unhealthy")
_FEWEST_CALLS = 5
"""A tool with fewer calls has no error rate."""
_DEGRADED_ERROR_RATE = 0.1
_UNHEALTHY_ERROR_RATE = 0.5
_LONG_CALL_SECONDS = 300.0
_DEGRADED_LAG_SECONDS = 0.1
_UNHEALTHY_LAG_SECONDS = 1.0

Finding: TypeAlias = tuple[HealthState, str]
"""The severity, and the problem as a sentence."""


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
        tools: The health of each tool that was called, by name.
        in_flight: The number of running calls.
        oldest_call: The longest running call: tool, trace id, seconds.
        abandoned_threads: The number of threads that outlive their call.
        alerts: The firing alerts, as sentences.
        settings_error: The error in the settings file, if any.
        errors: The errors outside of the tools, each with its `level` and its `message`.
        loop_lag_seconds: The lag of the event loop, if it is measured.
        breakers: The state of each circuit breaker, by the name of its tool.
        at: The time of the report, in seconds since the epoch.
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
    """Assesses the metrics, the running calls, the alerts and the vital signs.

    A tool, or the whole system, is degraded if a tenth of its recent calls failed and unhealthy if
    half did, given five calls. The system is also unhealthy if a call started or ended twice, or
    the event loop lags by a second. It is degraded by a tool that is not healthy, a firing alert,
    a breaker that is not closed, an error of the settings file or the store, an abandoned thread,
    a call of five minutes, or a lag of 0.1 s.
    """

    __slots__ = ("_alerts", "_ledger", "_metrics", "_vitals")

    def __init__(
        self,
        metrics: Metrics,
        ledger: Ledger,
        alerts: Callable[[], Iterable[Alert]] = tuple,
        vitals: Vitals | None = None,
    ) -> None:
        self._metrics = metrics
        self._ledger = ledger
        self._alerts = alerts
        self._vitals = vitals or Vitals()

    def report(self) -> HealthReport:
        """Return the current health."""
        now = time.time()
        running = self._ledger.running()
        tools = {name: self._tool(name, now) for name in self._metrics.names()}
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
            *_call_findings(running),
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
            in_flight=len(running),
            oldest_call=_oldest(running),
            abandoned_threads=threads,
            alerts=alerts,
            settings_error=error,
            errors=_errors(error, store_error),
            loop_lag_seconds=lag,
            breakers=breakers,
            at=now,
        )

    def _tool(self, name: str | None, now: float) -> ToolHealth:
        rate = self._metrics.measure("error_rate", name, now) or 0.0
        if self._metrics.calls(name) < _FEWEST_CALLS or rate < _DEGRADED_ERROR_RATE:
            return ToolHealth(state="healthy", error_rate=rate)
        state: HealthState = "unhealthy" if rate >= _UNHEALTHY_ERROR_RATE else "degraded"
        return ToolHealth(state=state, error_rate=rate)

    def _system_findings(self, now: float) -> Iterator[Finding]:
        system = self._tool(None, now)
        if system.state != "healthy":
            yield system.state, f"{system.error_rate:.0%} of the recent calls failed."
        if self._ledger.protocol_errors:
            count = self._ledger.protocol_errors
            yield "unhealthy", f"Calls that started or ended a second time: {count}."


def _tool_findings(tools: dict[str, ToolHealth]) -> Iterator[Finding]:
    for name, tool in tools.items():
        if tool.state != "healthy":
            yield "degraded", f"{tool.error_rate:.0%} of the recent calls of {name!r} failed."


def _call_findings(running: Sequence[RunningCall]) -> Iterator[Finding]:
    long = [call for call in running if call.seconds >= _LONG_CALL_SECONDS]
    if long:
        oldest = long[0]
        reason = (
            f"Calls running for {_LONG_CALL_SECONDS:g} s or more: {len(long)}; "
            f"the oldest of {oldest.tool!r} ({oldest.trace_id}) for {oldest.seconds:.0f} s."
        )
        yield "degraded", reason


def _vital_findings(threads: int, error: str | None, lag: float | None) -> Iterator[Finding]:
    if threads:
        yield "degraded", f"Threads that still run after their calls have ended: {threads}."
    if error is not None:
        yield (
            "degraded",
            f"The settings file is invalid; the last valid settings stay in use: {error}",
        )
    if lag is not None and lag >= _DEGRADED_LAG_SECONDS:
        state: HealthState = "unhealthy" if lag >= _UNHEALTHY_LAG_SECONDS else "degraded"
        yield state, f"The event loop lags by {lag:.2f} s: a tool blocks it."


def _store_findings(error: str | None) -> Iterator[Finding]:
    if error is not None:
        yield "degraded", f"Calls may not be stored: {error}."


def _errors(settings_error: str | None, store_error: str | None) -> tuple[dict[str, str], ...]:
    """Return the persistent errors, the worst first."""
    found = ((StoreError.level, store_error), (ConfigurationError.level, settings_error))
    return tuple({"level": level, "message": each} for level, each in found if each is not None)


def _breaker_findings(breakers: dict[str, str]) -> Iterator[Finding]:
    for name, state in breakers.items():
        if state != "closed":
            yield "degraded", f"The tool {name!r} keeps failing and is not called for a while."


def _oldest(running: Sequence[RunningCall]) -> dict[str, Any] | None:
    if not running:
        return None
    call = running[0]
    return {"tool": call.tool, "trace_id": call.trace_id, "seconds": call.seconds}
