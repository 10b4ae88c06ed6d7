import contextlib
import socket
import struct
import subprocess
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from leonidas_tools.calls.call import ToolSession
from leonidas_tools.monitoring import Monitor, prometheus
from leonidas_tools.settings.models import AlertRule


def filled(told):
    rule = AlertRule(name="slow", metric="mean_seconds", above=0.5, min_calls=1)
    monitor = Monitor(alerts=[rule])
    told.tool("lookup", "mcp")
    for seconds in (0.001, 0.0015, 0.3, 20.0):
        call = told.call("lookup")
        monitor(told.start(call))
        monitor(told.end(call, seconds=seconds))
    failed = told.call("book")
    for event in (told.start(failed), told.retry(failed), told.fallback(failed)):
        monitor(event)
    monitor(told.end(failed, "failed", 0.2))
    monitor(told.end(told.call("made_up", known=False), "not_found", 0.0))
    monitor(told.start(told.call("book")))
    return monitor


LABELS = ("tool", "category", "status", "alert", "le")


def samples(page):
    families = text_string_to_metric_families(page.decode())
    return {
        (sample.name, *(sample.labels[key] for key in LABELS if key in sample.labels)): sample.value
        for family in families
        for sample in family.samples
    }


def test_the_page_tells_every_figure_and_is_read_by_the_parser(told):
    found = samples(filled(told).prometheus().exposition())
    buckets = {key: value for key, value in found.items() if key[0].endswith("_bucket")}

    assert {key: value for key, value in found.items() if key not in buckets} == {
        ("leonidas_tool_calls_total", "lookup", "mcp", "ok"): 4,
        ("leonidas_tool_calls_total", "book", "python", "failed"): 1,
        ("leonidas_tool_calls_total", "(unknown)", "(unknown)", "not_found"): 1,
        ("leonidas_tool_duration_seconds_count", "lookup", "mcp"): 4,
        ("leonidas_tool_duration_seconds_sum", "lookup", "mcp"): pytest.approx(20.3025),
        ("leonidas_tool_duration_seconds_count", "book", "python"): 1,
        ("leonidas_tool_duration_seconds_sum", "book", "python"): pytest.approx(0.2),
        ("leonidas_tool_duration_seconds_count", "(unknown)", "(unknown)"): 0,
        ("leonidas_tool_duration_seconds_sum", "(unknown)", "(unknown)"): 0,
        ("leonidas_tool_retries_total", "lookup", "mcp"): 0,
        ("leonidas_tool_retries_total", "book", "python"): 1,
        ("leonidas_tool_retries_total", "(unknown)", "(unknown)"): 0,
        ("leonidas_tool_fallbacks_total", "lookup", "mcp"): 0,
        ("leonidas_tool_fallbacks_total", "book", "python"): 1,
        ("leonidas_tool_fallbacks_total", "(unknown)", "(unknown)"): 0,
        ("leonidas_tool_calls_in_flight",): 1,
        ("leonidas_alerts_total", "slow"): 1,
        ("leonidas_alert_firing", "slow"): 1,
    }
    lookup = {key[3]: value for key, value in buckets.items() if key[1] == "lookup"}
    assert {edge: lookup[edge] for edge in ("0.001", "0.00199526", "0.1", "1.0", "+Inf")} == {
        "0.001": 1,
        "0.00199526": 2,
        "0.1": 2,
        "1.0": 3,
        "+Inf": 4,
    }


def test_made_up_names_add_no_lines(told):
    monitor = Monitor(most_tools=3)
    for name in "abcdefgh":
        monitor(told.end(told.call(name)))
    for number in range(100):
        monitor(told.end(told.call(f"x{number}", known=False), "not_found"))

    tools = {key[1] for key in samples(monitor.prometheus().exposition()) if len(key) > 2}
    assert tools == {"a", "b", "c", "(other)", "(unknown)"}


def test_a_name_that_would_break_the_page_is_escaped(told):
    monitor = Monitor()
    monitor(told.end(told.call('quote " and \\ and \n line')))

    found = samples(monitor.prometheus().exposition())
    assert found["leonidas_tool_calls_total", 'quote " and \\ and \n line', "python", "ok"] == 1


@pytest.mark.needs("promtool")
def test_promtool_finds_nothing_to_say(told):
    page = filled(told).prometheus().exposition()
    check = subprocess.run(
        ["promtool", "check", "metrics"], input=page, capture_output=True, check=False
    )

    assert (check.returncode, check.stdout, check.stderr) == (0, b"", b"")


def test_each_monitor_has_a_registry_of_its_own(told):
    shared = {family.name for family in REGISTRY.collect()}
    one, other = filled(told), Monitor()

    assert one.prometheus().exposition() != other.prometheus().exposition()
    assert {family.name for family in REGISTRY.collect()} == shared
    assert not any(name.startswith("leonidas") for name in shared)


def fetch(address):
    with urllib.request.urlopen(address, timeout=10) as response:
        return response.headers["Content-Type"], response.read()


def test_the_page_is_served_while_the_server_runs_and_not_after(told):
    monitor, threads = filled(told), set(threading.enumerate())
    with monitor.prometheus().serve() as address:
        content_type, page = fetch(address)
        assert content_type.startswith("text/plain; version=")
        assert samples(page) == samples(monitor.prometheus().exposition())
        monitor(told.end(told.call("book")))
        assert samples(fetch(address)[1])["leonidas_tool_calls_total", "book", "python", "ok"] == 1

    place = urlsplit(address)
    assert (place.hostname, place.path) == ("127.0.0.1", "/metrics")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((place.hostname, place.port), timeout=10)
    assert set(threading.enumerate()) <= threads


BEGINNINGS = {
    "nothing": b"",
    "half a line": b"GET /metr",
    "half a head": b"GET /metrics HTTP/1.1\r\nHost: a\r\nX-A: ",
    "a body": b"POST /metrics HTTP/1.1\r\nContent-Length: 999999\r\n\r\nx",
}


@contextlib.contextmanager
def idle(address, said, count):
    place = urlsplit(address)
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_said(place, said)) for _ in range(count)]


def _said(place, said):
    connection = socket.create_connection((place.hostname, place.port), timeout=30)
    connection.sendall(said)
    return connection


@pytest.mark.slow
@pytest.mark.parametrize("said", BEGINNINGS.values(), ids=BEGINNINGS)
def test_silent_connections_keep_no_client_out_and_use_few_threads(told, said):
    with filled(told).prometheus().serve() as address, idle(address, said, 300):
        assert fetch(address)[1]
        held = [each for each in threading.enumerate() if "process_request" in each.name]
        assert len(held) <= 2 * prometheus._MAX_CONNECTIONS


def test_a_request_that_does_not_come_ends_the_connection(told, monkeypatch):
    monkeypatch.setattr(prometheus, "_REQUEST_SECONDS", 0.0)
    with (
        filled(told).prometheus().serve() as address,
        idle(address, BEGINNINGS["half a head"], 1) as (connection,),
        contextlib.suppress(ConnectionError),
    ):
        assert connection.recv(1) == b""


def test_a_connection_that_breaks_off_says_nothing(told, capfd):
    with filled(told).prometheus().serve() as address:
        place = urlsplit(address)
        for said in (b"GET /\x1b[2J HTTP/1.1\r\n", b"\xff\n\n", b"GET / HTTP/9.9\r\n\r\n"):
            connection = _said(place, said)
            reset = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            connection.close()
        assert fetch(address)[1]
    assert capfd.readouterr() == ("", "")


def test_a_port_that_is_taken_is_an_error_at_once(told):
    exporter = Monitor().prometheus()
    with exporter.serve() as address, pytest.raises(OSError, match="in use"):
        exporter.serve(urlsplit(address).port).__enter__()


def test_the_page_can_be_read_while_calls_end(told):
    monitor, session, stop = Monitor(), ToolSession(), threading.Event()
    exporter = monitor.prometheus()

    def read():
        pages = 0
        while not stop.is_set() or pages == 0:
            samples(exporter.exposition())
            pages += 1
        return pages

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        for number in range(3_000):
            call = told.call(f"tool_{number % 300}", session=session)
            monitor(told.start(call))
            monitor(told.end(call, "ok" if number % 2 else "failed"))
        stop.set()

    assert reading.result() > 0
    counts = samples(exporter.exposition())
    ended = [value for key, value in counts.items() if key[0] == "leonidas_tool_calls_total"]
    assert sum(ended) == 3_000
