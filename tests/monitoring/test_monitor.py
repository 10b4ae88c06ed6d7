import json
import subprocess
import sys
import time
import tracemalloc

import pytest

from leonidas_tools import AdvancedToolProcessor, ToolContext, ToolSession
from leonidas_tools.calls.call import ResultStatus, ToolCall, ToolResult
from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.monitoring import Monitor, Vitals
from leonidas_tools.runtime.executor import Executor
from leonidas_tools.settings.models import AlertRule, Settings
from leonidas_tools.tools.registry import ToolRegistry
from leonidas_tools.tools.tool import tool


def test_everything_it_tells_is_plain_json(told):
    rule = AlertRule(name="errors", metric="error_rate", above=0.1, min_calls=1)
    monitor = Monitor(alerts=[rule], vitals=Vitals(abandoned_threads=lambda: 1))
    call = told.call()
    for event in (told.start(call), told.retry(call), told.end(call, "failed")):
        monitor(event)
    monitor(told.start(told.call()))
    everything = [
        monitor.metrics(),
        monitor.metrics("search"),
        monitor.history(),
        monitor.health(),
        monitor.alerts(),
        monitor.ledger.to_json(),
    ]

    assert json.loads(json.dumps(everything, allow_nan=False)) == everything


def test_one_stream_of_events_reaches_every_sink(told):
    monitor, told.now = Monitor(), time.time()
    done, open_ = told.call("search"), told.call("book")
    for event in (told.start(done), told.start(open_), told.retry(done), told.end(done)):
        monitor(event)

    assert monitor.ledger.in_flight == 1
    assert monitor.metrics("search")["successes"] == 1
    assert (monitor.metrics("book")["active"], monitor.metrics()["system"]["active"]) == (1, 1)
    assert [record["attempts"] for record in monitor.history()] == [2]
    assert monitor.health()["status"] == "healthy"
    assert monitor.health()["oldest_call"]["tool"] == "book"


def test_an_alert_is_raised_by_calls_and_taken_back_by_calls(told):
    rule = AlertRule(
        name="errors", metric="error_rate", tool="book", above=0.5, clear_below=0.2, min_calls=4
    )
    monitor, states, told.now = Monitor(alerts=[rule]), [], time.time()
    monitor.subscribe_alerts(lambda alert: states.append((alert.state, alert.value)))
    for status in ("failed", "failed", "failed"):
        monitor(told.end(told.call("book"), status))
    assert states == []
    monitor(told.end(told.call("book"), "failed"))
    assert states == [("firing", 1.0)]
    assert [alert["name"] for alert in monitor.alerts()] == ["errors"]
    assert monitor.health()["alerts"] == ["Alert 'errors': error_rate of 'book' is 1, above 0.5."]
    for _ in range(17):
        monitor(told.end(told.call("book")))

    assert states == [("firing", 1.0), ("resolved", 4 / 21)]
    assert monitor.alerts() == []


def test_changed_settings_hold_at_once_and_what_was_counted_stays(told):
    monitor = Monitor(history_size=10)
    for _ in range(5):
        monitor(told.end(told.call(), "failed"))
    rule = AlertRule(name="errors", metric="error_rate", above=0.5, min_calls=5)

    monitor.configure(history_size=2, alerts=[rule])

    assert [record["call_id"] for record in monitor.history()] == ["id-5", "id-4"]
    assert [alert["name"] for alert in monitor.alerts()] == ["errors"]
    assert monitor.metrics()["system"]["failures"] == 5
    monitor.configure(history_size=2, alerts=[])
    assert monitor.alerts() == []


def test_a_subscriber_hears_every_event_until_it_leaves(told):
    monitor, heard, call = Monitor(), [], told.call()
    leave = monitor.subscribe(heard.append)
    events = [told.start(call), told.event(EventKind.PROGRESS, call), told.end(call)]
    for event in events:
        monitor(event)
    leave()
    monitor(told.start(told.call()))

    assert heard == events


def test_a_subscriber_that_fails_breaks_nothing(told, caplog):
    monitor, heard = Monitor(), []

    def fail(_):
        raise RuntimeError("no")

    monitor.subscribe(fail)
    monitor.subscribe(heard.append)
    monitor(told.end(told.call()))

    assert len(heard) == 1
    assert monitor.metrics()["system"]["successes"] == 1
    assert "A listener for events failed" in caplog.text


def test_an_event_that_cannot_be_counted_breaks_nothing(told, caplog):
    monitor, heard = Monitor(), []
    monitor.subscribe(heard.append)
    result = ToolResult()
    monitor(ToolEvent(kind=EventKind.COMPLETE, call=told.call(), result=result, seconds="soon"))

    assert len(heard) == 1
    assert "was not counted" in caplog.text


def test_the_vitals_are_in_the_health_report():
    vitals = Vitals(
        abandoned_threads=lambda: 2,
        settings_error=lambda: "broken",
        loop_lag_seconds=lambda: 3.0,
    )
    health = Monitor(vitals=vitals).health()

    assert (health["abandoned_threads"], health["settings_error"], health["status"]) == (
        2,
        "broken",
        "unhealthy",
    )


@pytest.mark.slow
def test_twenty_thousand_calls_of_made_up_names_keep_nothing(told):
    monitor = Monitor(history_size=100)

    def flood():
        for number in range(20_000):
            call = told.call(f"made_up_{number % 5_000}", known=False)
            monitor(told.end(call, "not_found"))
            known = told.call("search")
            for event in (told.start(known), told.retry(known), told.end(known)):
                monitor(event)

    flood()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    flood()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()

    # What the rings hold was untraced before and is traced now: 100 rows, 300 samples, 256 ends.
    assert grown < 200 * 1024
    assert len(monitor.history(limit=None)) == 100
    assert list(monitor.metrics()["tools"]) == ["search", "(unknown)"]
    assert monitor.ledger.to_json() == {
        "seen": 80_000,
        "started": 40_000,
        "ended": 80_000,
        "cancelled": 0,
        "in_flight": 0,
        "protocol_errors": 0,
    }


async def test_the_calls_of_an_executor_are_accounted_for():
    @tool(effect="read")
    async def fine() -> str:
        return "yes"

    @tool(effect="read", retry_attempts=1, fallback_tools=["fine"])
    async def down() -> str:
        raise ConnectionError("no")

    monitor = Monitor()
    settings = Settings(defaults={"retry_delay": "1ms"})
    executor = Executor(ToolRegistry([fine, down]), settings=settings, sinks=(monitor,))
    async with executor:
        for number, name in enumerate(("fine", "down", "fine")):
            call = ToolCall(name=name, tool=executor.registry[name], number=number + 1)
            assert (await executor.run(call)).ok
        unknown = ToolCall(name="nonsense", number=4)
        executor.end_unstarted(unknown, ToolResult(status=ResultStatus.NOT_FOUND))

    assert monitor.ledger.to_json() == {
        "seen": 4,
        "started": 3,
        "ended": 4,
        "cancelled": 0,
        "in_flight": 0,
        "protocol_errors": 0,
    }
    down = monitor.metrics("down")
    assert (down["successes"], down["retries"], down["fallbacks"]) == (1, 1, 1)
    assert down["recoveries"] == {
        "retry": {"failed": {"tried": 1, "succeeded": 0}},
        "fallback": {"failed": {"tried": 1, "succeeded": 1}},
    }
    assert [(record["tool"], record["status"]) for record in monitor.history()] == [
        ("nonsense", "not_found"),
        ("fine", "ok"),
        ("down", "ok"),
        ("fine", "ok"),
    ]


def test_prometheus_loads_only_when_it_is_asked_for():
    code = (
        "import sys; from leonidas_tools.monitoring import Monitor; monitor = Monitor(); "
        "before = 'prometheus_client' in sys.modules; monitor.prometheus(); "
        "print(before, 'prometheus_client' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.split() == ["False", "True"]


async def test_what_a_tool_says_of_its_progress_does_not_change_what_the_event_says():
    @tool
    def forge(ctx: ToolContext) -> None:
        mine = {"call_id": "9", "tool": "pay", "session": "ben", "trace_id": "ben-1", "at": 0}
        ctx.progress("half", event="tool_complete", dropped=7, place="here", **mine)

    tools, told = AdvancedToolProcessor([forge]), []
    tools.monitor.subscribe(lambda event: told.append(event.to_json()))
    await tools.execute("forge", session=ToolSession("ana"))
    _, progress, end = told
    own = {"event": "tool_progress", "at": progress["at"], "message": "half", "place": "here"}
    told_of = {name: end[name] for name in ("call_id", "tool", "session", "trace_id")}
    assert progress == {**told_of, **own, "dropped": 7}
    assert progress["at"] > 0
