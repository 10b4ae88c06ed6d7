import pytest

from leonidas_tools.cli.happenings import Happening
from leonidas_tools.cli.summary import CallLog, CallSummary, of_session


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
