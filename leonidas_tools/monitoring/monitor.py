"""The monitor: one sink for the ledger, the metrics, the history, the alerts and the health."""

from __future__ import annotations

import asyncio
import errno
import time
from collections import deque
from contextlib import ExitStack, asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from weakref import ref

from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.calls.listeners import Listeners
from leonidas_tools.monitoring.alerts import Alert, Alerts
from leonidas_tools.monitoring.event_stream import EventStream
from leonidas_tools.monitoring.health import Health, Vitals
from leonidas_tools.monitoring.history import History
from leonidas_tools.monitoring.ledger import Ledger
from leonidas_tools.monitoring.live_tokens import LiveTokens
from leonidas_tools.monitoring.metrics import Metrics, SessionCallRate
from leonidas_tools.redaction import described
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from leonidas_tools.calls.call import ResultStatus, ToolSession
    from leonidas_tools.calls.events import Sink
    from leonidas_tools.monitoring.histogram import DurationHistogram
    from leonidas_tools.monitoring.prometheus import PrometheusExporter
    from leonidas_tools.settings.models import AlertRule

_log = visible_logger(__name__)

_START = EventKind.START
_COUNTED = frozenset({_START, EventKind.WAIT, EventKind.RETRY, EventKind.FALLBACK})
"""Kinds of events that are counted, in addition to the ends of calls."""
_MAX_WAITING = 16
"""Most events counted at once; few, since one call waits until they are counted."""
_MAX_WAIT_SECONDS = 0.1
_PORTS = 65536
_MAX_PORTS = 64
"""Ports that are tried for the Prometheus page: as many as `leonidas serve` has workers."""


class Monitor:
    """Receives every event, and provides metrics, history, alerts and health.

    It never raises: its errors are logged and affect no call. One thread sends the events; any
    thread may read the Prometheus page.

    Args:
        history_size: The number of ended calls to keep.
        alerts: The rules of the alerts, which are `AlertRule`s of the settings.
        most_tools: The number of tools with their own metrics.
        vitals: Sources of further vital signs.

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
        alerts: Iterable[AlertRule] = (),
        most_tools: int = 500,
        vitals: Vitals | None = None,
    ) -> None:
        self._ledger = Ledger()
        self._metrics = Metrics(active=self._ledger.active, most_tools=most_tools)
        self._history = History(history_size)
        self._alerts = Alerts(self._metrics, alerts)
        self._call_rate = SessionCallRate()
        self._vitals = vitals or Vitals()
        self.events = EventStream(
            calls=self._running_calls,
            breakers=self._vitals.breakers,
            on_first_reader=lambda: self._listeners.subscribe(self.events),
        )
        """The event stream; see `EventStream.subscribe`."""
        self.live_tokens = LiveTokens()
        """The tokens of live sessions."""
        self._listeners = Listeners[ToolEvent]("events")
        self._alerts.subscribe(lambda alert: self.events.publish("alert", **alert.to_json()))
        self._latest_session: Callable[[], ToolSession | None] = lambda: None
        self._waiting: deque[ToolEvent] = deque()
        self._counting_loop: asyncio.AbstractEventLoop | None = None
        """The event loop that will soon count the queued events."""
        self._stop_tracing: Callable[[], None] | None = None

    def __call__(self, event: ToolEvent) -> None:
        """Pass the event to every subscriber, and queue it for counting.

        Events are counted in batches, which takes a third of the time per call, and mostly while
        no caller waits for the call; reading a metric counts the queued events first.
        """
        if event.result is not None or event.kind in _COUNTED:
            self._waiting.append(event)
            waiting = len(self._waiting)
            if waiting >= _MAX_WAITING:
                self._count()
            elif waiting == 1:
                self._count_soon()
        if event.kind is _START and event.call.session is not self._latest_session():
            self._latest_session = ref(event.call.session)  # which makes the next call, as a rule
            self.events.note(event.call.session)
        if self._listeners.subscribed:
            self._listeners.notify(event)

    @property
    def ledger(self) -> Ledger:
        """Return the call ledger."""
        self._count()
        return self._ledger

    def metrics(self, tool: str | None = None) -> dict[str, Any]:
        """Return the metrics of one tool, or of all under `system` and `tools`, as plain JSON.

        Args:
            tool: A tool's name; a tool that was never called has zeros.
        """
        self._count()
        figures = self._metrics.to_json(tool)
        if tool is None:
            figures["system"]["busy_minutes"] = self._call_rate.busy_minutes
            kept = {"breakers": self._vitals.breakers(), "cache": self._vitals.cache()}
            figures |= {name: dict(figure) for name, figure in kept.items() if figure}
        return figures

    def durations(self, tool: str | None = None) -> DurationHistogram:
        """Return the durations of calls, as a histogram that a notebook draws.

        Args:
            tool: A tool's name; all tools by default.
        """
        self._count()
        return self._metrics.durations(tool)

    def median_seconds(self, tool: str) -> float | None:
        """Return the median duration of a tool's recent calls; `None` if there were none."""
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
        """Return the last ended calls, the newest first, as plain JSON.

        Args:
            tool: Only calls of this tool.
            status: Only calls with this status.
            session: Only calls of this session.
            since: Only calls that ended at this time or later, in seconds since the epoch.
            limit: The maximum number of calls; `None` for all.

        Raises:
            ToolValidationError: The status is unknown; the error lists the known ones.
        """
        self._count()
        records = self._history.query(
            tool=tool, status=status, session=session, since=since, limit=limit
        )
        return [record.to_json() for record in records]

    def health(self) -> dict[str, Any]:
        """Return the health report, as plain JSON."""
        self._count()
        self._alerts.evaluate()
        health = Health(self._metrics, self._ledger, self._alerts.firing, self._vitals)
        return health.report().to_json()

    def alerts(self) -> list[dict[str, Any]]:
        """Return the firing alerts, as plain JSON."""
        self._count()
        self._alerts.evaluate()
        return [alert.to_json() for alert in self._alerts.firing()]

    def configure(
        self, *, history_size: int, alerts: Iterable[AlertRule], warn_per_minute: int | None = 30
    ) -> None:
        """Apply changed settings; the metrics and the newest calls of the history stay.

        Args:
            history_size: The number of ended calls to keep.
            alerts: The rules of the alerts.
            warn_per_minute: Calls of a session per minute above which a warning is logged.
        """
        self._count()
        self._call_rate.most_per_minute = warn_per_minute
        self._history.resize(history_size)
        self._alerts.configure(alerts)
        self.events.publish("settings_changed")

    def trace(self, *, wanted: bool) -> None:
        """Start or stop creating spans of sessions, connections and approvals.

        Args:
            wanted: Whether to create spans with OpenTelemetry.
        """
        if wanted and self._stop_tracing is None:
            from leonidas_tools.monitoring.live_traces import LiveTraces

            traces, stack = LiveTraces(), ExitStack()
            stack.callback(traces.close)
            stack.callback(self._listeners.subscribe(traces.on_event))
            stack.callback(self.events.live_listeners.subscribe(traces.on_live))
            self._stop_tracing = stack.close
        elif not wanted and self._stop_tracing is not None:
            self._stop_tracing()
            self._stop_tracing = None

    def subscribe(self, sink: Sink) -> Callable[[], None]:
        """Pass every event to a sink.

        Args:
            sink: Called with each event; it must return at once. Its exceptions are logged.

        Returns:
            A function that unsubscribes.
        """
        return self._listeners.subscribe(sink)

    def subscribe_alerts(self, subscriber: Callable[[Alert], None]) -> Callable[[], None]:
        """Pass every alert that fires or resolves to a subscriber.

        Args:
            subscriber: Called with each `Alert`; it must return at once. Its exceptions are logged.

        Returns:
            A function that unsubscribes.
        """
        return self._alerts.subscribe(subscriber)

    def prometheus(self) -> PrometheusExporter:
        """Return an exporter that serves the metrics to Prometheus."""
        from leonidas_tools.monitoring.prometheus import PrometheusExporter

        # The exporter reads in another thread, which must not count events: it may lag a moment.
        return PrometheusExporter(
            self._metrics.tools,
            lambda: self._ledger.in_flight,
            self._alerts,
            self._vitals.breakers,
            self.live_tokens,
        )

    @asynccontextmanager
    async def serving(self, port: int | None) -> AsyncIterator[None]:
        """Serve the Prometheus page, if there is a port; start and stop it in threads.

        Several processes may have the same settings: where a port is in use, the page takes the
        next free one.

        Raises:
            OSError: All these ports are in use.
        """
        if port is None:
            yield
            return
        page = await asyncio.to_thread(_start_page, self.prometheus(), port)
        try:
            yield
        finally:
            await asyncio.to_thread(page.__exit__, None, None, None)

    def _running_calls(self) -> Iterator[dict[str, Any]]:
        for call in self.ledger.running():
            body = asdict(call)
            del body["seconds"]
            if call.waits_for is None:
                del body["waits_for"]
            yield body

    def _count_soon(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._count()
            return
        if self._counting_loop is not loop:
            self._counting_loop = loop
            loop.call_later(_MAX_WAIT_SECONDS, self._count_due)

    def _count_due(self) -> None:
        self._counting_loop = None
        self._count()

    def _count(self) -> None:
        """Count the queued events."""
        waiting = self._waiting
        while waiting:
            event = waiting.popleft()
            try:
                self._ledger(event)
                if event.kind is not _START:  # the others ignore the most frequent event
                    self._metrics(event)
                    self._history(event)
                    self._alerts(event)
                    self._call_rate(event)
            except Exception as error:  # noqa: BLE001 - monitoring must not break a call
                kind, name = event.kind.value, event.call.name
                _log.warning("The event %s of %r was not counted: %s", kind, name, described(error))


def _start_page(exporter: PrometheusExporter, port: int) -> AbstractContextManager[str]:
    """Start the page on this port, or on the next one that is free."""
    last = min(port + _MAX_PORTS, _PORTS) - 1
    for tried in range(port, last + 1):
        page = exporter.serve(tried)
        try:
            address = page.__enter__()
        except OSError as error:
            if error.errno != errno.EADDRINUSE or tried == last:
                raise
        else:
            _log.info("The metrics of this process are at %s", address)
            return page
    raise AssertionError  # the last port returns or raises
