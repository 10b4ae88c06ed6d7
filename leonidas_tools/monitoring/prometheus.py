"""The metrics as a Prometheus page, built on request, so that calls cost nothing."""

from __future__ import annotations

import math
import socket
import threading
import time
from contextlib import contextmanager, suppress
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client.metrics_core import Metric

    from leonidas_tools.monitoring.alerts import Alerts
    from leonidas_tools.monitoring.live_tokens import LiveTokens
    from leonidas_tools.monitoring.metrics import ToolMetrics

_LABELS = ("tool", "category")
_MAX_CONNECTIONS = 64
_REQUEST_SECONDS = 10.0


class PrometheusExporter(Collector):
    """Serves the metrics of one monitor, in its own registry.

    The limit of tools with metrics also limits the size of the page.
    """

    def __init__(
        self,
        tools: Callable[[], Iterable[ToolMetrics]],
        in_flight: Callable[[], int],
        alerts: Alerts,
        breakers: Callable[[], Mapping[str, str]],
        live_tokens: LiveTokens,
    ) -> None:
        self._tools = tools
        self._in_flight = in_flight
        self._alerts = alerts
        self._breakers = breakers
        self._live_tokens = live_tokens
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics for the registry of `prometheus_client`."""
        tools = list(self._tools())
        yield _calls(tools)
        yield _durations(tools)
        yield from _recoveries(tools)
        yield GaugeMetricFamily(
            "leonidas_tool_calls_in_flight", "Running tool calls.", value=self._in_flight()
        )
        yield from self._alert_metrics()
        yield from _breaker_metrics(self._breakers())
        tokens = CounterMetricFamily(
            "leonidas_live_tokens",
            "Tokens of live sessions.",
            labels=("model", "direction", "modality"),
        )
        for labels, count in self._live_tokens.by_kind.copy().items():
            tokens.add_metric(labels, count)
        yield tokens

    def exposition(self) -> bytes:
        """Return the page in the text format of Prometheus."""
        return generate_latest(self._registry)

    @contextmanager
    def serve(self, port: int = 0, host: str = "127.0.0.1") -> Iterator[str]:
        """Serve the page in a thread and yield its address.

        A request may take ten seconds. Beyond 64 connections the oldest is closed, so that idle
        ones do not block others. Leaving takes up to half a second: in asynchronous code, leave
        it in a thread.

        Args:
            port: The port; 0 for a free one.
            host: The address to listen on; by default this machine only.

        Raises:
            OSError: The port is in use.

        Example:
            >>> from leonidas_tools.monitoring import Monitor
            >>> with Monitor().prometheus().serve() as address:
            ...     address.startswith("http://127.0.0.1:"), address.endswith("/metrics")
            (True, True)
        """
        server = _MetricsServer(host, port)
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
            "leonidas_alerts", "How often each alert fired.", labels=("alert",)
        )
        state = GaugeMetricFamily(
            "leonidas_alert_firing", "1 if the alert fires, else 0.", labels=("alert",)
        )
        for name, times in self._alerts.fired.items():
            raised.add_metric((name,), times)
            state.add_metric((name,), name in firing)
        yield raised
        yield state


class _MetricsServer(ThreadingMixIn, WSGIServer):
    """Serves each connection in a thread; connections are few and short."""

    daemon_threads = True
    request_queue_size = _MAX_CONNECTIONS

    def __init__(self, host: str, port: int) -> None:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, *_, address = infos[0]
        self._open: dict[socket.socket, float] = {}  # with its start, the oldest first
        self._lock = threading.Lock()
        self._places = threading.Semaphore(2 * _MAX_CONNECTIONS)
        super().__init__((str(address[0]), port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in a thread."""
        with self._lock:
            self._open[request] = time.monotonic()
            if len(self._open) > _MAX_CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                _shut_down(oldest)
        self._places.acquire()  # closed connections count until their thread ends
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle a connection, in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def shutdown_request(self, request: Any) -> None:
        """Close a handled connection."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close the connections that exceed their time; called twice a second."""
        with self._lock:
            for connection, began in self._open.items():
                if time.monotonic() - began > _REQUEST_SECONDS:
                    _shut_down(connection)

    def server_close(self) -> None:
        """Close all connections."""
        super().server_close()
        with self._lock:
            for connection in self._open:
                _shut_down(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: an error of a connection is not an error of this program."""


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the library
        """Log nothing: requests do not belong on the terminal."""


def _shut_down(connection: socket.socket) -> None:
    """Shut a connection down, which ends the thread that reads it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _breaker_metrics(breakers: Mapping[str, str]) -> Iterator[Metric]:
    if not breakers:
        return
    open_breakers = GaugeMetricFamily(
        "leonidas_tool_breaker_open",
        "1 if the circuit breaker is open, 0.5 if half open, else 0.",
        labels=("tool",),
    )
    for tool, state in breakers.items():
        open_breakers.add_metric((tool,), {"open": 1.0, "half_open": 0.5}.get(state, 0.0))
    yield open_breakers


def _calls(tools: Iterable[ToolMetrics]) -> Metric:
    calls = CounterMetricFamily(
        "leonidas_tool_calls", "Tool calls that ended.", labels=(*_LABELS, "status")
    )
    for metrics in tools:
        for status, count in metrics.by_status().items():
            calls.add_metric((metrics.tool, metrics.category, status), count)
    return calls


def _durations(tools: Iterable[ToolMetrics]) -> Metric:
    histogram = HistogramMetricFamily(
        "leonidas_tool_duration_seconds",
        "Duration of tool calls that completed or failed.",
        labels=_LABELS,
    )
    for metrics in tools:
        histogram.add_metric(
            (metrics.tool, metrics.category),
            buckets=[(_edge(edge), count) for edge, count in metrics.durations.cumulative()],
            sum_value=metrics.durations.total_seconds,
        )
    return histogram


def _recoveries(tools: Iterable[ToolMetrics]) -> Iterator[Metric]:
    retries = CounterMetricFamily("leonidas_tool_retries", "Retried calls.", labels=_LABELS)
    fallbacks = CounterMetricFamily(
        "leonidas_tool_fallbacks", "Calls that fell back to another tool.", labels=_LABELS
    )
    for metrics in tools:
        labels = (metrics.tool, metrics.category)
        retries.add_metric(labels, metrics.retries)
        fallbacks.add_metric(labels, metrics.fallbacks)
    yield retries
    yield fallbacks


def _edge(seconds: float) -> str:
    return "+Inf" if seconds == math.inf else str(float(f"{seconds:.6g}"))
