"""The metrics as a page for Prometheus; made when it is asked for, so that calls pay nothing."""

from __future__ import annotations

import math
import socket
import threading
import time
from contextlib import contextmanager, suppress
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

_LABELS = ("tool", "category")
_MOST_CONNECTIONS = 64
_REQUEST_SECONDS = 10.0


class Durations(Protocol):
    """Durations in buckets."""

    @property
    def total_seconds(self) -> float:
        """Return the sum of all durations."""

    def cumulative(self) -> Sequence[tuple[float, int]]:
        """Return how many durations are at or below each edge; the last is infinite."""


class Figures(Protocol):
    """The figures of one tool."""

    @property
    def tool(self) -> str:
        """Return the tool's name."""

    @property
    def category(self) -> str:
        """Return its category."""

    @property
    def retries(self) -> int:
        """Return how often a call was tried again."""

    @property
    def fallbacks(self) -> int:
        """Return how often another tool was tried instead."""

    @property
    def durations(self) -> Durations:
        """Return how long the calls took that completed or failed."""

    def by_status(self) -> Mapping[str, int]:
        """Return the ended calls by the status of their result."""


class Alerts(Protocol):
    """The alerts that are watched."""

    @property
    def fired(self) -> Mapping[str, int]:
        """Return how often each was raised, by name."""

    def firing_names(self) -> Iterable[str]:
        """Return the names of those that fire."""


class PrometheusExporter(Collector):
    """Serves the metrics of one monitor, in a registry of its own.

    Label values are those of the figures given: what bounds their number bounds the page.

    Args:
        tools: The figures of each tool.
        in_flight: How many calls run.
        alerts: The alerts that are watched.
        breakers: The state of every breaker that watches a tool, by its name.
    """

    def __init__(
        self,
        tools: Callable[[], Iterable[Figures]],
        in_flight: Callable[[], int],
        alerts: Alerts,
        breakers: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._tools = tools
        self._in_flight = in_flight
        self._alerts = alerts
        self._breakers = breakers
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Everything there is to tell, for the registry of prometheus_client."""
        tools = list(self._tools())
        yield _calls(tools)
        yield _durations(tools)
        yield from _recoveries(tools)
        yield GaugeMetricFamily(
            "leonidas_tool_calls_in_flight", "Running tool calls.", value=self._in_flight()
        )
        yield from self._alert_metrics()
        yield from _breaker_metrics(self._breakers())

    def exposition(self) -> bytes:
        """Return the page as Prometheus reads it, in its text format."""
        return generate_latest(self._registry)

    @contextmanager
    def serve(self, port: int = 0, host: str = "127.0.0.1") -> Iterator[str]:
        """Serve the page in a thread, and give its address.

        A request has ten seconds. Of more than 64 connections the oldest is closed, so that those
        that say nothing keep no other out. Leaving takes up to half a second: in asynchronous code,
        leave it in a thread.

        Args:
            port: The port; 0 for any that is free.
            host: The address to listen on; by default this machine only.

        Raises:
            OSError: The port is taken.

        Example:
            >>> from leonidas_tools.monitoring import Monitor
            >>> with Monitor().prometheus().serve() as address:
            ...     address.startswith("http://127.0.0.1:"), address.endswith("/metrics")
            (True, True)
        """
        server = _Server(host, port)
        server.set_app(make_wsgi_app(self._registry))
        thread = threading.Thread(target=server.serve_forever, name="prometheus", daemon=True)
        thread.start()
        try:
            shown = f"[{host}]" if ":" in host else host
            yield f"http://{shown}:{server.server_port}/metrics"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def _alert_metrics(self) -> Iterator[Metric]:
        firing = set(self._alerts.firing_names())
        raised = CounterMetricFamily(
            "leonidas_alerts", "How often each alert was raised.", labels=("alert",)
        )
        state = GaugeMetricFamily(
            "leonidas_alert_firing", "1 where the alert fires, else 0.", labels=("alert",)
        )
        for name, times in self._alerts.fired.items():
            raised.add_metric((name,), times)
            state.add_metric((name,), name in firing)
        yield raised
        yield state


class _Server(ThreadingMixIn, WSGIServer):
    """Serve each connection in a thread; connections are few and short."""

    daemon_threads = True
    request_queue_size = _MOST_CONNECTIONS

    def __init__(self, host: str, port: int) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, *_, address = found[0]
        self._open: dict[socket.socket, float] = {}  # with when it began, the oldest first
        self._lock = threading.Lock()
        self._places = threading.Semaphore(2 * _MOST_CONNECTIONS)
        super().__init__((str(address[0]), port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread."""
        with self._lock:
            self._open[request] = time.monotonic()
            if len(self._open) > _MOST_CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                _end(oldest)
        self._places.acquire()  # of those that have been ended, too
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection, in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def shutdown_request(self, request: Any) -> None:
        """End a connection that was answered."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End the connections whose time is over; called twice a second."""
        with self._lock:
            for connection, began in self._open.items():
                if time.monotonic() - began > _REQUEST_SECONDS:
                    _end(connection)

    def server_close(self) -> None:
        """End all connections."""
        super().server_close()
        with self._lock:
            for connection in self._open:
                _end(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: what is wrong with a connection is not an error of this program."""


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the library
        """Log nothing: what a client sends is not for the terminal."""


def _end(connection: socket.socket) -> None:
    """End a connection; the thread that reads it finds its end."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _breaker_metrics(breakers: Mapping[str, str]) -> Iterator[Metric]:
    if not breakers:
        return
    left_alone = GaugeMetricFamily(
        "leonidas_tool_breaker_open",
        "1 where the tool is left alone, 0.5 where a call tries it, else 0.",
        labels=("tool",),
    )
    for tool, state in breakers.items():
        left_alone.add_metric((tool,), {"open": 1.0, "half_open": 0.5}.get(state, 0.0))
    yield left_alone


def _calls(tools: Iterable[Figures]) -> Metric:
    calls = CounterMetricFamily(
        "leonidas_tool_calls", "Tool calls that ended.", labels=(*_LABELS, "status")
    )
    for figures in tools:
        for status, count in figures.by_status().items():
            calls.add_metric((figures.tool, figures.category, status), count)
    return calls


def _durations(tools: Iterable[Figures]) -> Metric:
    histogram = HistogramMetricFamily(
        "leonidas_tool_duration_seconds",
        "How long tool calls took that completed or failed.",
        labels=_LABELS,
    )
    for figures in tools:
        histogram.add_metric(
            (figures.tool, figures.category),
            buckets=[(_edge(edge), count) for edge, count in figures.durations.cumulative()],
            sum_value=figures.durations.total_seconds,
        )
    return histogram


def _recoveries(tools: Iterable[Figures]) -> Iterator[Metric]:
    retries = CounterMetricFamily("leonidas_tool_retries", "Calls tried again.", labels=_LABELS)
    fallbacks = CounterMetricFamily(
        "leonidas_tool_fallbacks", "Calls that another tool was tried for.", labels=_LABELS
    )
    for figures in tools:
        labels = (figures.tool, figures.category)
        retries.add_metric(labels, figures.retries)
        fallbacks.add_metric(labels, figures.fallbacks)
    yield retries
    yield fallbacks


def _edge(seconds: float) -> str:
    return "+Inf" if seconds == math.inf else str(float(f"{seconds:.6g}"))
