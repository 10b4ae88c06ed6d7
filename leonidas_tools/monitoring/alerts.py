"""Alerts: raised when a metric crosses a threshold, cleared when it is well below again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from leonidas_tools.calls.listeners import Listeners
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from leonidas_tools.calls.events import ToolEvent
    from leonidas_tools.monitoring.metrics import Metrics
    from leonidas_tools.settings.models import AlertRule

_log = visible_logger(__name__)

_EVERY_SECONDS = 0.1
_EVERY_CALLS = 50

_LEVELS = {
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}

AlertState: TypeAlias = Literal["firing", "resolved"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """An alert that fires, or that is resolved.

    Args:
        name: The name of the alert.
        state: `firing` or `resolved`.
        metric: The metric.
        tool: The tool; `None` for all tools together.
        value: The last value of the metric; `None` if it no longer has one.
        above: The alert fires above this value.
        clear_below: The alert is resolved below this value.
        since: When it entered this state, in seconds since the epoch.
    """

    name: str
    state: AlertState
    metric: str
    tool: str | None
    value: float | None
    above: float
    clear_below: float
    since: float

    @property
    def sentence(self) -> str:
        """Return the alert as a sentence."""
        of = "all tools" if self.tool is None else repr(self.tool)
        value = "unknown" if self.value is None else f"{self.value:.4g}"
        edge = f"above {self.above:g}" if self.state == "firing" else "clear again"
        return f"Alert {self.name!r}: {self.metric} of {of} is {value}, {edge}."

    def to_json(self) -> dict[str, Any]:
        """Return the alert as plain JSON."""
        return {**asdict(self), "message": self.sentence}


Subscriber: TypeAlias = Callable[[Alert], None]


class Alerts:
    """Watches thresholds; notifies subscribers once when an alert fires and once when it resolves.

    The rules, each with its own name, are evaluated when a call ends at least 0.1 s or fifty calls
    after the last evaluation, and whenever `evaluate` is called.
    """

    __slots__ = ("_calls", "_due", "_firing", "_listeners", "_metrics", "_rules", "fired")

    def __init__(self, metrics: Metrics, rules: Iterable[AlertRule] = ()) -> None:
        self._metrics = metrics
        self._rules: Sequence[AlertRule] = tuple(rules)
        self._listeners = Listeners[Alert]("alerts")
        self._firing: dict[str, Alert] = {}
        self._calls = 0
        self._due = 0.0
        self.fired: dict[str, int] = {rule.name: 0 for rule in self._rules}
        """Number of times that each alert fired, by name."""

    def __call__(self, event: ToolEvent) -> None:
        """Evaluate the rules if an evaluation is due."""
        if event.result is None or not self._rules:
            return
        self._calls += 1
        if event.at >= self._due or self._calls >= _EVERY_CALLS:
            self.evaluate(event.at)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with every `Alert`; return a function that unsubscribes."""
        return self._listeners.subscribe(subscriber)

    def configure(self, rules: Iterable[AlertRule]) -> None:
        """Replace the rules; firing alerts without a rule are resolved."""
        self._rules = tuple(rules)
        names = {rule.name for rule in self._rules}
        self.fired = {name: self.fired.get(name, 0) for name in names}
        for name in self._firing.keys() - names:
            self._notify(replace(self._firing.pop(name), state="resolved", since=time.time()))
        self.evaluate()

    def firing(self) -> list[Alert]:
        """Return the alerts that were firing at the last evaluation; safe in any thread."""
        return list(self._firing.copy().values())

    def firing_names(self) -> list[str]:
        """Return the names of the alerts that were firing at the last evaluation."""
        return list(self._firing)

    def evaluate(self, now: float | None = None) -> None:
        """Evaluate every rule at a time in seconds since the epoch, by default now."""
        now = time.time() if now is None else now
        self._calls = 0
        self._due = now + _EVERY_SECONDS
        for rule in self._rules:
            self._evaluate(rule, now)

    def _evaluate(self, rule: AlertRule, now: float) -> None:
        value = self._metrics.measure(rule.metric, rule.tool, now)
        firing = self._firing.get(rule.name)
        if firing is None:
            if _crossed(rule, value) and self._metrics.calls(rule.tool) >= rule.min_calls:
                self.fired[rule.name] += 1
                self._firing[rule.name] = _alert(rule, "firing", value, now)
                self._notify(self._firing[rule.name], _LEVELS[rule.level])
        elif _cleared(rule, value):
            del self._firing[rule.name]
            self._notify(_alert(rule, "resolved", value, now))
        else:
            self._firing[rule.name] = _alert(rule, "firing", value, firing.since)

    def _notify(self, alert: Alert, level: int = logging.INFO) -> None:
        _log.log(level, "%s", alert.sentence)
        self._listeners.notify(alert)


def _crossed(rule: AlertRule, value: float | None) -> bool:
    return value is not None and value > rule.above


def _cleared(rule: AlertRule, value: float | None) -> bool:
    if value is None or rule.clear_below is None:
        return not _crossed(rule, value)
    return value < rule.clear_below


def _alert(rule: AlertRule, state: AlertState, value: float | None, since: float) -> Alert:
    return Alert(
        name=rule.name,
        state=state,
        metric=rule.metric,
        tool=rule.tool,
        value=value,
        above=rule.above,
        clear_below=rule.above if rule.clear_below is None else rule.clear_below,
        since=since,
    )
