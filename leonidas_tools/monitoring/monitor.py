"""The monitor: the ledger, the metrics, the history, the alerts and the health as one sink."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.events import EventKind
from leonidas_tools.monitoring.alerts import Alert, Alerts, Rule
from leonidas_tools.monitoring.event_stream import EventStream
from leonidas_tools.monitoring.history import History
from leonidas_tools.monitoring.ledger import Ledger
from leonidas_tools.monitoring.metrics import Frequency, Metrics
from leonidas_tools.monitoring.vitals import Vitals
from leonidas_tools.redaction import described
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from leonidas_tools.calls.call import ResultStatus
    from leonidas_tools.calls.events import Sink, ToolEvent
    from leonidas_tools.monitoring.histogram import DurationHistogram
    from leonidas_tools.monitoring.prometheus import PrometheusExporter

_log = visible_logger(__name__)

_START = EventKind.START
_MOST_WAITING = 16
"""How many events are counted at once: the call that has to wait for them is not to notice."""
_LONGEST_WAIT_SECONDS = 0.1


class Monitor:
    """Hears of every event, and knows what happened.

    It never raises: what goes wrong here is logged, and no call suffers from it. One thread sends
    the events; the Prometheus page may be read in any.

    Args:
        history_size: How many ended calls are remembered.
        alerts: The rules of the alerts, such as `AlertRule` of the settings.
        most_tools: How many tools have figures of their own.
        vitals: What others know of the system's health.

    Example:
        >>> from leonidas_tools.calls.call import ToolCall, ToolResult
        >>> from leonidas_tools.calls.events import EventKind, ToolEvent
        >>> monitor = Monitor()
        >>> call = ToolCall(name="get_weather", id="1", number=1)
        >>> monitor(ToolEvent(kind=EventKind.START, call=call))
        >>> done = ToolResult(result={"celsius": 21})
        >>> monitor(ToolEvent(kind=EventKind.COMPLETE, call=call, result=done, seconds=0.1))
        >>> monitor.metrics()["system"]["successes"], monitor.health()["status"]
        (1, 'healthy')
        >>> [(record["call_id"], record["status"]) for record in monitor.history()]
        [('1', 'ok')]
    """

    def __init__(
        self,
        *,
        history_size: int = 1000,
        alerts: Iterable[Rule] = (),
        most_tools: int = 500,
        vitals: Vitals | None = None,
    ) -> None:
        self._ledger = Ledger()
        self._metrics = Metrics(active=self._ledger.active, most_tools=most_tools)
        self._history = History(history_size)
        self._alerts = Alerts(self._metrics, alerts)
        self._frequency = Frequency()
        self._vitals = vitals or Vitals()
        self.events = EventStream(calls=self._under_way, breakers=self._vitals.breakers)
        """The events; see `EventStream.subscribe`."""
        self._subscribers: tuple[Sink, ...] = (self.events,)
        self._alerts.subscribe(lambda alert: self.events.publish("alert", **alert.to_json()))
        self._waiting: deque[ToolEvent] = deque()

    def __call__(self, event: ToolEvent) -> None:
        """Hand the event to every subscriber, and lays it by to be counted.

        Events are counted many at a time, which takes a third of the time a call, and not while
        a caller waits for the call; reading a figure counts them first.
        """
        self._waiting.append(event)
        waiting = len(self._waiting)
        if waiting >= _MOST_WAITING:
            self._count()
        elif waiting == 1:
            self._count_soon()
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except Exception as error:  # noqa: BLE001 - a listener must not break a call
                _log.warning("A subscriber of events failed: %s", described(error))

    @property
    def ledger(self) -> Ledger:
        """Return every call seen, and that each ends exactly once."""
        self._count()
        return self._ledger

    def metrics(self, tool: str | None = None) -> dict[str, Any]:
        """Return the figures of one tool, or of all under `system` and `tools`, as plain JSON.

        Args:
            tool: A tool's name; one that was never called has zeros.
        """
        self._count()
        figures = self._metrics.to_json(tool)
        if tool is None:
            figures["system"]["busy_minutes"] = self._frequency.busy_minutes
            kept = {"breakers": self._vitals.breakers(), "cache": self._vitals.cache()}
            figures |= {name: dict(figure) for name, figure in kept.items() if figure}
        return figures

    def durations(self, tool: str | None = None) -> DurationHistogram:
        """Return how long calls took, as a histogram that a notebook draws.

        Args:
            tool: A tool's name; all tools by default.
        """
        self._count()
        return self._metrics.durations(tool)

    def median_seconds(self, tool: str) -> float | None:
        """Return the median duration of a tool's recent calls; `None` where there were none.

        Args:
            tool: A tool's name.
        """
        self._count()
        return self._metrics.measure("p50_seconds", tool, time.time())

    def history(
        self,
        *,
        tool: str | None = None,
        status: ResultStatus | str | None = None,
        session: str | None = None,
        since: float | None = None,
        limit: int | None = 100,
    ) -> list[dict[str, Any]]:
        """Return how the last calls ended, the newest first, as plain JSON.

        Args:
            tool: Only those of this tool.
            status: Only those that ended so.
            session: Only those of this conversation.
            since: Only those that ended at this time or later, in seconds since the epoch.
            limit: How many at most; `None` for all.
        """
        self._count()
        records = self._history.query(
            tool=tool, status=status, session=session, since=since, limit=limit
        )
        return [record.to_json() for record in records]

    def health(self) -> dict[str, Any]:
        """Return whether all is well, and if not, why, as plain JSON."""
        from leonidas_tools.monitoring.health import Health

        self._count()
        self._alerts.evaluate()
        health = Health(self._metrics, self._ledger, self._alerts.firing, self._vitals)
        return health.report().to_json()

    def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts that fire now, as plain JSON."""
        self._count()
        self._alerts.evaluate()
        return [alert.to_json() for alert in self._alerts.firing()]

    def configure(
        self, *, history_size: int, alerts: Iterable[Rule], warn_per_minute: int | None = 30
    ) -> None:
        """Take over changed settings; what was counted stays, and so do the newest records.

        Args:
            history_size: How many ended calls are remembered from now on.
            alerts: The rules of the alerts from now on.
            warn_per_minute: More calls of a session than this, in a minute, are said in the log.
        """
        self._count()
        self._frequency.most_per_minute = warn_per_minute
        self._history.resize(history_size)
        self._alerts.configure(alerts)
        self.events.publish("settings_changed")

    def subscribe(self, sink: Sink) -> Callable[[], None]:
        """Hand every event on to a sink from now on.

        Args:
            sink: Called with each event; it returns at once. What it raises is logged.

        Returns:
            A function that ends it.
        """
        self._subscribers = (*self._subscribers, sink)

        def unsubscribe() -> None:
            self._subscribers = tuple(s for s in self._subscribers if s is not sink)

        return unsubscribe

    def subscribe_alerts(self, subscriber: Callable[[Alert], None]) -> Callable[[], None]:
        """Tell someone of every alert that is raised or taken back from now on.

        Args:
            subscriber: Called with each `Alert`; it returns at once. What it raises is logged.

        Returns:
            A function that ends it.
        """
        return self._alerts.subscribe(subscriber)

    def prometheus(self) -> PrometheusExporter:
        """Return the metrics as a page for Prometheus, and a server for it."""
        from leonidas_tools.monitoring.prometheus import PrometheusExporter

        # Read from another thread, where nothing may be counted: at most a moment behind.
        return PrometheusExporter(
            self._metrics.tools,
            lambda: self._ledger.in_flight,
            self._alerts,
            self._vitals.breakers,
        )

    @asynccontextmanager
    async def serving(self, port: int | None) -> AsyncIterator[None]:
        """Serve the page for Prometheus; in threads, since the server takes a while to end.

        Args:
            port: The port; nothing is served for `None`.

        Raises:
            OSError: The port is taken.
        """
        if port is None:
            yield
            return
        serving = self.prometheus().serve(port)
        await asyncio.to_thread(serving.__enter__)
        try:
            yield
        finally:
            await asyncio.to_thread(serving.__exit__, None, None, None)

    def _under_way(self) -> Iterator[dict[str, Any]]:
        for call in self.ledger.under_way():
            body = asdict(call)
            del body["seconds"]
            yield body

    def _count_soon(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._count()
        else:
            loop.call_later(_LONGEST_WAIT_SECONDS, self._count)

    def _count(self) -> None:
        """Count what has happened since it was last counted."""
        waiting = self._waiting
        while waiting:
            event = waiting.popleft()
            try:
                self._ledger(event)
                if event.kind is not _START:  # the most frequent event says nothing to the others
                    self._metrics(event)
                    self._history(event)
                    self._alerts(event)
                    self._frequency(event)
            except Exception as error:  # noqa: BLE001 - what counts a call must not break it
                kind, name = event.kind.value, event.call.name
                _log.warning("The event %s of %r was not counted: %s", kind, name, described(error))
