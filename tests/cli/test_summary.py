import pytest

from leonidas_tools.cli.happenings import Happening
from leonidas_tools.cli.summary import CallLog, CallSummary, of_session, parse_outcomes
from leonidas_tools.simulator import CallRecord
from leonidas_tools.simulator.recording import ReceivedText


def happening(kind, **data):
    return Happening(kind=kind, at_seconds=0.0, data={"id": "1", "tool": "search", **data})


def answer(status="ok"):
    return happening("answered", seconds=0.5, response={"status": status})


CALLED = happening("called", arguments={})
CANCELLED = happening("cancelled")


@pytest.mark.parametrize(
    ("told", "expected", "problems"),
    [
        (
            [CALLED, answer()],
            CallSummary(id="1", tool="search", status="ok", seconds=0.5, answers=1, ok=True),
            [],
        ),
        (
            [CALLED, answer("failed")],
            CallSummary(id="1", tool="search", status="failed", seconds=0.5, answers=1, ok=True),
            [],
        ),
        (
            [CALLED, CANCELLED],
            CallSummary(id="1", tool="search", status="cancelled", ok=True),
            [],
        ),
        (
            [CALLED],
            CallSummary(id="1", tool="search"),
            ["'search' (call '1') was answered 0 times"],
        ),
        (
            [CALLED, answer(), answer()],
            CallSummary(id="1", tool="search", status="ok", seconds=0.5, answers=2),
            ["'search' (call '1') was answered 2 times"],
        ),
        (
            [CALLED, CANCELLED, answer()],
            CallSummary(id="1", tool="search", status="ok", seconds=0.5, answers=1),
            ["'search' (call '1') was answered after it was cancelled"],
        ),
        (
            [CALLED, answer(), CANCELLED],
            CallSummary(id="1", tool="search", status="ok", seconds=0.5, answers=1, ok=True),
            [],
        ),
    ],
)
def test_a_call_is_right_when_it_is_answered_once_or_cancelled(told, expected, problems):
    log = CallLog()
    for each in told:
        log.note(each)
    summary = of_session(log, [], interrupted=False)
    assert list(summary.calls) == [expected]
    assert list(summary.problems) == problems
    assert summary.ok is not problems


def test_what_broke_the_session_off_is_a_problem():
    summary = of_session(CallLog(), ["the connection was lost: 1006"], interrupted=False)
    assert not summary.ok
    assert list(summary.problems) == ["the connection was lost: 1006"]


def test_connections_and_the_calls_that_outlived_theirs_are_counted():
    log = CallLog()
    opened = Happening(kind="connection_opened", at_seconds=0, data={"connection": 1})
    renewed = Happening(kind="connection_renewed", at_seconds=0, data={"connection": 2})
    late = happening("answered", seconds=0.5, response={"status": "ok"}, after_reconnect=True)
    for each in (opened, CALLED, renewed, late):
        log.note(each)
    summary = of_session(log, [], interrupted=False)
    assert summary.verdict == (
        "1 call: 1 answered once, 0 cancelled; 2 connections, 1 call outlived its own; passed"
    )


TOLD = (
    "These have ended:\n"
    '{"id": "a", "name": "search", "response": {"status": "ok"}}\n'
    '{"id": "b~2", "name": "search", "response": {}}\n'
    "[1]\n{}"
)


@pytest.mark.parametrize(
    ("identifier", "name", "connection", "statuses"),
    [
        ("a", "search", 1, ["ok"]),
        ("b", "search", 1, ["answered"]),
        ("a", "other", 1, []),
        ("a", "search", 2, []),
        ("c", "search", 1, []),
        (None, "search", 1, ["ok", "answered"]),
    ],
)
def test_an_outcome_in_the_conversation_is_that_of_a_call_on_an_earlier_connection(
    identifier, name, connection, statuses
):
    text = ReceivedText(connection=2, at=3.0, text=TOLD, source="clientContent")
    record = CallRecord(id=identifier, name=name, args={}, connection=connection, sent_at=1.0)
    found = [each.status for each in parse_outcomes([text]) if each.is_of(record)]
    assert found == statuses
