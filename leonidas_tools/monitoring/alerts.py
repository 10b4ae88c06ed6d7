"""Alerts: raised when a figure crosses a threshold, taken back when it has fallen well below."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from leonidas_tools.redaction import described
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from leonidas_tools.calls.events import ToolEvent

_log = visible_logger(__name__)

_EVERY_SECONDS = 0.1
_EVERY_CALLS = 50

AlertState: TypeAlias = Literal["firing", "resolved"]


class Rule(Protocol):
    """The condition of an alert; `AlertRule` of the settings is one."""

    @property
    def name(self) -> str:
        """Return what the alert is called."""

    @property
    def metric(self) -> str:
        """Return what is watched."""

    @property
    def tool(self) -> str | None:
        """Return the tool it is about; all tools together for `None`."""

    @property
    def above(self) -> float:
        """Return the alert is raised when the metric goes above this."""

    @property
    def clear_below(self) -> float | None:
        """It is taken back below this; for `None`, when the metric is not above any more."""

    @property
    def min_calls(self) -> int:
        """Return how many calls there must be before the metric says anything."""


class Measures(Protocol):
    """The source of the figures."""

    def measure(self, metric: str, tool: str | None, now: float) -> float | None:
        """Return one figure of a tool or of the system; `None` where there is none yet."""

    def calls(self, tool: str | None) -> int:
        """Return how many calls have ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """A threshold that was crossed, or that is clear again.

    Args:
        name: What the alert is called.
        state: `firing` or `resolved`.
        metric: What is watched.
        tool: The tool it is about; `None` for all tools together.
        value: The figure when it was last looked at; `None` where there is none any more.
        above: The threshold it went above.
        clear_below: What it has to fall below to be clear.
        since: When it came into this state, in seconds since the epoch.
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
        """Return what happened, for a person."""
        of = "all tools" if self.tool is None else repr(self.tool)
        value = "unknown" if self.value is None else f"{self.value:.4g}"
        edge = f"above {self.above:g}" if self.state == "firing" else "clear again"
        return f"Alert {self.name!r}: {self.metric} of {of} is {value}, {edge}."

    def to_json(self) -> dict[str, Any]:
        """Return the alert as plain JSON."""
        return {**asdict(self), "message": self.sentence}


Subscriber: TypeAlias = Callable[[Alert], None]


class Alerts:
    """Watches thresholds and tells subscribers once when one is crossed and once when it clears.

    Looks at the rules when a call ends and 0.1 s have passed or fifty calls have ended since it
    last did, and whenever `evaluate` is called.

    Args:
        measures: Where the figures come from.
        rules: What is watched; no two of the same name.
    """

    __slots__ = ("_calls", "_due", "_firing", "_measures", "_rules", "_subscribers", "fired")

    def __init__(self, measures: Measures, rules: Iterable[Rule] = ()) -> None:
        self._measures = measures
        self._rules: Sequence[Rule] = tuple(rules)
        self._subscribers: tuple[Subscriber, ...] = ()
        self._firing: dict[str, Alert] = {}
        self._calls = 0
        self._due = 0.0
        self.fired: dict[str, int] = {rule.name: 0 for rule in self._rules}
        """How often each alert was raised, by name."""

    def __call__(self, event: ToolEvent) -> None:
        """Look at the rules if it is time to."""
        if event.result is None or not self._rules:
            return
        self._calls += 1
        if event.at >= self._due or self._calls >= _EVERY_CALLS:
            self.evaluate(event.at)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Tell someone of every alert from now on.

        Args:
            subscriber: Called with each `Alert`; it returns at once. What it raises is logged.

        Returns:
            A function that ends it.
        """
        self._subscribers = (*self._subscribers, subscriber)

        def unsubscribe() -> None:
            self._subscribers = tuple(s for s in self._subscribers if s is not subscriber)

        return unsubscribe

    def configure(self, rules: Iterable[Rule]) -> None:
        """Watch these rules from now on; what fires and is watched no longer is taken back."""
        self._rules = tuple(rules)
        names = {rule.name for rule in self._rules}
        self.fired = {name: self.fired.get(name, 0) for name in names}
        for name in self._firing.keys() - names:
            self._tell(replace(self._firing.pop(name), state="resolved", since=time.time()))
        self.evaluate()

    def firing(self) -> list[Alert]:
        """Return the alerts that fired when the rules were last looked at; safe in any thread."""
        return list(self._firing.copy().values())

    def firing_names(self) -> list[str]:
        """Return the names of the alerts that fired when the rules were last looked at."""
        return list(self._firing)

    def evaluate(self, now: float | None = None) -> None:
        """Look at every rule.

        Args:
            now: The time, in seconds since the epoch; by default that of the clock.
        """
        now = time.time() if now is None else now
        self._calls = 0
        self._due = now + _EVERY_SECONDS
        for rule in self._rules:
            self._evaluate(rule, now)

    def _evaluate(self, rule: Rule, now: float) -> None:
        value = self._measures.measure(rule.metric, rule.tool, now)
        firing = self._firing.get(rule.name)
        if firing is None:
            if _crossed(rule, value) and self._measures.calls(rule.tool) >= rule.min_calls:
                self.fired[rule.name] += 1
                self._firing[rule.name] = _alert(rule, "firing", value, now)
                self._tell(self._firing[rule.name])
        elif _cleared(rule, value):
            del self._firing[rule.name]
            self._tell(_alert(rule, "resolved", value, now))
        else:
            self._firing[rule.name] = _alert(rule, "firing", value, firing.since)

    def _tell(self, alert: Alert) -> None:
        level = logging.WARNING if alert.state == "firing" else logging.INFO
        _log.log(level, "%s", alert.sentence)
        for subscriber in self._subscribers:
            try:
                subscriber(alert)
            except Exception as error:  # noqa: BLE001 - a listener must not break a call
                _log.warning("A subscriber of alerts failed: %s", described(error))


def _crossed(rule: Rule, value: float | None) -> bool:
    return value is not None and value > rule.above


def _cleared(rule: Rule, value: float | None) -> bool:
    if value is None or rule.clear_below is None:
        return not _crossed(rule, value)
    return value < rule.clear_below


def _alert(rule: Rule, state: AlertState, value: float | None, since: float) -> Alert:
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
