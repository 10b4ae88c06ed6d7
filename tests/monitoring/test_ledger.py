import time
from dataclasses import replace
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools.calls.call import ToolCall, ToolResult, ToolSession
from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.monitoring.ledger import Ledger, RunningCall


def counts(ledger):
    return ledger.to_json()


def test_a_call_that_starts_and_ends_is_counted_and_forgotten(told):
    ledger, call = Ledger(), told.call()

    ledger(told.start(call))
    assert [running.call_id for running in ledger.running()] == ["id-1"]
    ledger(told.end(call))

    assert ledger.running() == []
    assert counts(ledger) == {
        "seen": 1,
        "started": 1,
        "ended": 1,
        "cancelled": 0,
        "in_flight": 0,
        "protocol_errors": 0,
    }


def test_the_running_calls_are_listed_with_their_age_the_oldest_first(told):
    ledger = Ledger()
    now = time.time()
    older, newer = told.call("search"), told.call("book", id=None)
    ledger(told.event(EventKind.START, older, at=now - 60))
    ledger(told.event(EventKind.START, newer, at=now - 5))

    running = ledger.running()

    assert [replace(call, seconds=round(call.seconds / 5) * 5) for call in running] == [
        RunningCall(
            tool="search",
            call_id="id-1",
            session="kitchen",
            trace_id="kitchen-1",
            at=now - 60,
            seconds=60,
        ),
        RunningCall(
            tool="book",
            call_id=None,
            session="kitchen",
            trace_id="kitchen-2",
            at=now - 5,
            seconds=5,
        ),
    ]


def test_a_clock_that_was_set_back_makes_no_negative_age(told):
    ledger = Ledger()
    ledger(told.event(EventKind.START, told.call(), at=time.time() + 3600))

    assert ledger.running()[0].seconds == 0


def test_a_cancelled_call_is_counted_as_ended_and_as_cancelled(told):
    ledger, call = Ledger(), told.call()
    ledger(told.start(call))
    ledger(told.end(call, "cancelled", kind=EventKind.CANCEL))

    assert (ledger.ended, ledger.cancelled, ledger.protocol_errors) == (1, 1, 0)


def test_a_call_that_ends_without_a_start_is_a_call_too(told):
    ledger = Ledger()
    ledger(told.end(told.call("nonsense", known=False), "not_found"))
    ledger(told.end(told.call(), "cancelled", kind=EventKind.CANCEL))

    ledger(told.end(told.call(), "unavailable"))

    assert (ledger.seen, ledger.started, ledger.ended, ledger.protocol_errors) == (3, 0, 3, 0)


@pytest.mark.parametrize("second", ["ok", "failed", "not_found"])
def test_a_second_end_is_a_protocol_error_and_not_another_call(told, second, caplog):
    ledger, call = Ledger(), told.call()
    ledger(told.start(call))
    ledger(told.end(call))
    ledger(told.end(call, second))

    assert (ledger.ended, ledger.protocol_errors) == (1, 1)
    assert "'search'" in caplog.text
    assert "kitchen-1" in caplog.text


def test_a_cancellation_after_the_end_is_a_second_end(told):
    ledger, call = Ledger(), told.call()
    ledger(told.start(call))
    ledger(told.end(call))
    ledger(told.end(call, "cancelled", kind=EventKind.CANCEL))

    assert (ledger.ended, ledger.cancelled, ledger.protocol_errors) == (1, 0, 1)


def test_a_second_refusal_is_a_second_end(told):
    ledger, call = Ledger(), told.call()
    ledger(told.end(call, "disabled"))
    ledger(told.end(call, "disabled"))

    assert (ledger.ended, ledger.protocol_errors) == (1, 1)


def test_a_second_start_is_a_protocol_error(told):
    ledger, call = Ledger(), told.call()
    ledger(told.start(call))
    ledger(told.start(call))

    assert (ledger.started, ledger.in_flight, ledger.protocol_errors) == (1, 1, 1)


def test_a_call_with_changed_arguments_is_the_same_call(told):
    ledger, call = Ledger(), told.call(arguments={"city": "lisbon"})
    ledger(told.start(call))
    ledger(told.end(replace(call, arguments={"city": "Lisbon"})))

    assert (ledger.in_flight, ledger.ended, ledger.protocol_errors) == (0, 1, 0)


def test_calls_without_a_number_are_distinguished(told):
    ledger = Ledger()
    one, other = told.call(number=0), told.call(number=0)
    ledger(told.start(one))
    ledger(told.start(other))
    ledger(told.end(one))

    assert (ledger.in_flight, ledger.protocol_errors) == (1, 0)
    ledger(told.end(one))
    assert (ledger.in_flight, ledger.protocol_errors) == (1, 1)


def test_sessions_of_the_same_name_are_distinguished(told):
    ledger = Ledger()
    calls = [told.call(session=ToolSession("kitchen"), number=1) for _ in range(2)]
    for call in calls:
        ledger(told.start(call))
    for call in calls:
        ledger(told.end(call))
    ledger(told.end(told.call(session=ToolSession("kitchen"), number=1), "disabled"))

    assert (ledger.ended, ledger.protocol_errors) == (3, 0)


def test_active_calls_are_counted_by_tool(told):
    ledger = Ledger()
    for name in ("search", "search", "book"):
        ledger(told.start(told.call(name)))

    assert (ledger.active(), ledger.active("search"), ledger.active("pay")) == (3, 2, 0)


def test_progress_and_retries_change_nothing(told):
    ledger, call = Ledger(), told.call()
    ledger(told.start(call))
    before = counts(ledger)
    ledger(told.event(EventKind.PROGRESS, call))
    ledger(told.retry(call))
    ledger(told.fallback(call))

    assert counts(ledger) == before


def test_an_ended_session_is_not_kept_alive(told):
    ledger, session = Ledger(), ToolSession()
    call = ToolCall(name="search", session=session, number=1)
    ledger(told.start(call))
    ledger(told.end(call))
    gone = ref(session)
    del call, session

    assert gone() is None


@given(order=st.permutations(sorted([*range(8)] * 2)))
def test_in_any_order_each_call_is_seen_once_and_none_stays(order):
    ledger, session, begun = Ledger(), ToolSession(), set()
    calls = [ToolCall(name="search", session=session, number=n + 1) for n in range(8)]
    for n in order:
        if n in begun:
            ledger(ToolEvent(kind=EventKind.COMPLETE, call=calls[n], result=ToolResult()))
            begun.remove(n)
        else:
            ledger(ToolEvent(kind=EventKind.START, call=calls[n]))
            begun.add(n)
        running = {call.trace_id for call in ledger.running()}
        assert running == {calls[n].trace_id for n in begun}

    assert (ledger.seen, ledger.ended, ledger.in_flight, ledger.protocol_errors) == (8, 8, 0, 0)
