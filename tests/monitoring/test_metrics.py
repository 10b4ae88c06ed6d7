import sys
import time

import pytest

from leonidas_tools.calls.events import EventKind
from leonidas_tools.monitoring.metrics import Metrics


def run(metrics, told, name="search", status="ok", seconds=0.1, **more):
    metrics(told.end(told.call(name, **more), status, seconds))


def test_a_tool_and_the_system_have_exact_counts_and_close_percentiles(told):
    metrics = Metrics(active=lambda tool: {"search": 2, None: 3}.get(tool, 0))
    for milliseconds in range(1, 101):
        run(metrics, told, seconds=milliseconds / 1000)
    for status in ("failed", "timeout", "invalid_argument"):
        run(metrics, told, status=status, seconds=0.1)
    metrics(told.end(told.call(), "cancelled", 9.0, kind=EventKind.CANCEL))
    expected = {
        "category": "python",
        "executions": 104,
        "successes": 100,
        "failures": 2,
        "refusals": 1,
        "cancellations": 1,
        "active": 2,
        "statuses": {"ok": 100, "failed": 1, "timeout": 1, "invalid_argument": 1, "cancelled": 1},
        "error_rate": 2 / 103,
        "recent_error_rate": 2 / 99,
        "mean_seconds": pytest.approx(5.25 / 102),
        "p50_seconds": pytest.approx(0.051, rel=0.04),
        "p95_seconds": pytest.approx(0.097, rel=0.04),
        "p99_seconds": pytest.approx(0.1, rel=0.04),
        "max_seconds": 0.1,
        "calls_per_minute": 0.0,
        "retries": 0,
        "fallbacks": 0,
        "recoveries": {},
        "last_execution": told.now,
    }

    assert metrics.to_json("search") == expected
    assert metrics.to_json() == {
        "system": {**expected, "category": "(system)", "active": 3},
        "tools": {"search": expected},
    }


def test_the_system_is_the_sum_of_its_tools(told):
    metrics = Metrics()
    run(metrics, told, "search", seconds=0.1)
    run(metrics, told, "book", "failed", seconds=0.3)
    run(metrics, told, "nonsense", "not_found", known=False)
    system = metrics.to_json()["system"]

    assert {key: system[key] for key in ("executions", "successes", "failures", "refusals")} == {
        "executions": 3,
        "successes": 1,
        "failures": 1,
        "refusals": 1,
    }
    assert system["statuses"] == {"ok": 1, "failed": 1, "not_found": 1}
    assert (system["mean_seconds"], system["max_seconds"]) == (pytest.approx(0.2), 0.3)
    assert system["last_execution"] == told.now


def test_a_tool_that_was_never_called_has_zeros_and_gets_no_entry(told):
    metrics = Metrics()
    report = metrics.to_json("search")

    assert (report["executions"], report["error_rate"], report["p99_seconds"]) == (0, 0.0, None)
    assert report["last_execution"] is None
    assert metrics.to_json()["tools"] == {}


def test_names_that_are_no_tools_share_one_entry(told):
    metrics = Metrics()
    for number in range(20_000):
        run(metrics, told, f"made_up_{number % 5_000}", "not_found", known=False)

    assert list(metrics.to_json()["tools"]) == ["(unknown)"]
    assert metrics.to_json("(unknown)")["refusals"] == 20_000


def test_tools_beyond_the_limit_share_one_entry(told):
    metrics = Metrics(most_tools=2)
    for name in ("a", "b", "c", "d", "a"):
        run(metrics, told, name)

    tools = metrics.to_json()["tools"]
    assert {name: figures["executions"] for name, figures in tools.items()} == {
        "a": 2,
        "b": 1,
        "(other)": 2,
    }
    assert metrics.to_json()["system"]["executions"] == 5


def test_a_tool_of_a_name_that_was_once_unknown_counts_for_itself(told):
    metrics = Metrics()
    run(metrics, told, "search", "not_found", known=False)
    run(metrics, told, "search")

    assert metrics.to_json("search")["executions"] == 1


def test_refusals_and_cancellations_do_not_count_as_errors_or_as_times(told):
    metrics = Metrics()
    run(metrics, told, "search", "disabled", seconds=0.0)
    metrics(told.end(told.call(), "cancelled", 60.0, kind=EventKind.CANCEL))
    run(metrics, told, seconds=1.0)

    report = metrics.to_json("search")
    assert (report["error_rate"], report["recent_error_rate"]) == (0.0, 0.0)
    assert (report["mean_seconds"], report["max_seconds"]) == (1.0, 1.0)


def test_the_recent_error_rate_forgets_what_is_a_hundred_calls_old(told):
    metrics = Metrics()
    for _ in range(50):
        run(metrics, told, status="failed")
    for _ in range(75):
        run(metrics, told)

    report = metrics.to_json("search")
    assert (report["error_rate"], report["recent_error_rate"]) == (0.4, 0.25)


def test_recoveries_are_counted_by_strategy_and_kind_of_error(told):
    metrics = Metrics()
    saved, lost = told.call(), told.call()
    for event in (
        told.retry(saved, "timeout"),
        told.retry(saved, ConnectionError("password=1234")),
        told.end(saved),
        told.retry(lost, "timeout"),
        told.fallback(lost),
        told.fallback(lost, strategy="similar_tool"),
        told.end(lost, "failed"),
    ):
        metrics(event)

    report = metrics.to_json("search")
    assert (report["retries"], report["fallbacks"]) == (3, 2)
    assert report["recoveries"] == {
        "retry": {
            "timeout": {"tried": 2, "succeeded": 0},
            "ConnectionError": {"tried": 1, "succeeded": 1},
        },
        "fallback": {"failed": {"tried": 1, "succeeded": 0}},
        "similar_tool": {"failed": {"tried": 1, "succeeded": 0}},
    }
    assert metrics.to_json()["system"]["recoveries"] == report["recoveries"]


def test_the_text_of_an_error_is_no_kind_of_error(told):
    metrics, call = Metrics(), told.call()
    metrics(told.retry(call, "the password 1234 was refused"))

    assert metrics.to_json("search")["recoveries"] == {
        "retry": {"(other)": {"tried": 1, "succeeded": 0}}
    }


def test_the_kinds_of_error_are_bounded(told):
    metrics = Metrics()
    for number in range(1_000):
        metrics(told.retry(told.call(), f"kind_{number}"))

    kinds = metrics.to_json("search")["recoveries"]["retry"]
    assert len(kinds) == 65
    assert kinds["(other)"]["tried"] == 936


def test_calls_per_minute_are_those_of_the_last_sixty_seconds(told):
    metrics, minute = Metrics(), 1_700_000_040.0
    assert minute % 60 == 0
    for second in range(60):
        told.now = minute + second - 1
        run(metrics, told)
    for second in range(30):
        told.now = minute + 60 + second - 1
        run(metrics, told, "book")

    def per_minute(tool, after):
        return metrics.measure("calls_per_minute", tool, minute + after)

    assert per_minute("search", 60) == 60
    assert per_minute(None, 90) == 30 + 60 / 2
    assert per_minute("book", 90) == 30
    assert per_minute("search", 120) == 0
    assert per_minute("book", 150) == 15
    assert per_minute(None, 600) == 0


def test_calls_before_a_pause_are_not_those_of_the_minute_before(told):
    metrics = Metrics()
    for now in (1_700_000_040.0, 1_700_000_040.0 + 300):
        told.now = now
        run(metrics, told)

    assert metrics.measure("calls_per_minute", "search", told.now) == 1


def test_calls_per_minute_of_the_clock_of_today_are_reported(told):
    metrics = Metrics()
    told.now = time.time() - 2  # its start and its end are told a second apart, the last one now
    run(metrics, told)

    # The one call ended in this minute, or in the minute that has just gone by.
    assert 0.9 < metrics.to_json()["system"]["calls_per_minute"] <= 1


def test_measures_are_of_recent_calls_and_exact(told):
    metrics = Metrics(active=lambda tool: 7 if tool is None else 2)
    for milliseconds in range(1, 201):
        run(metrics, told, seconds=milliseconds / 1000)
    run(metrics, told, "book", "failed", 3.0)

    def measure(metric, tool=None):
        return metrics.measure(metric, tool, told.now)

    assert measure("p95_seconds", "search") == 0.195
    assert measure("p99_seconds", "search") == 0.199
    assert measure("mean_seconds", "search") == pytest.approx(0.1505)
    assert measure("error_rate", "search") == 0
    assert measure("error_rate") == 0.01
    assert (measure("active"), measure("active", "search")) == (7, 2)
    assert measure("p95_seconds", "never_called") is None
    assert (metrics.calls(None), metrics.calls("search"), metrics.calls("never")) == (201, 200, 0)


def test_calls_keep_nothing(told):
    metrics, call = Metrics(), told.call()
    events = [told.start(call), told.end(call)]

    def hundred():
        for _ in range(100):
            for event in events:
                metrics(event)

    hundred()
    hundred()
    blocks = sys.getallocatedblocks()
    for _ in range(100):
        hundred()

    # A sample and a few counters are replaced by others; ten thousand calls would keep as many.
    assert sys.getallocatedblocks() - blocks < 100
