import gc
from weakref import ref

import pytest

from leonidas_tools.calls.call import ResultStatus, ToolSession
from leonidas_tools.calls.events import EventKind
from leonidas_tools.monitoring.history import EndedCall, History


def ids(records):
    return [record.call_id for record in records]


def test_a_record_says_how_a_call_ended_but_not_its_arguments_and_result(told):
    history = History()
    call = told.call("book", arguments={"card": "4111"})
    history(told.start(call))
    history(told.end(call, "failed", 1.5, result="secret", message="m", reason_code="full"))

    assert history.query() == [
        EndedCall(
            tool="book",
            call_id="id-1",
            session="kitchen",
            trace_id="kitchen-1",
            status=ResultStatus.FAILED,
            seconds=1.5,
            at=told.now,
            reason_code="full",
            attempts=1,
        )
    ]
    assert history.query()[0].to_json() == {
        "tool": "book",
        "call_id": "id-1",
        "session": "kitchen",
        "trace_id": "kitchen-1",
        "status": "failed",
        "seconds": 1.5,
        "at": told.now,
        "reason_code": "full",
        "attempts": 1,
    }


def test_only_the_newest_are_kept_and_the_newest_comes_first(told):
    history = History(3)
    for _ in range(5):
        history(told.end(told.call()))

    assert ids(history.query()) == ["id-5", "id-4", "id-3"]
    assert len(history) == 3


def test_resizing_keeps_the_newest(told):
    history = History(4)
    for _ in range(4):
        history(told.end(told.call()))

    history.resize(2)
    assert ids(history.query()) == ["id-4", "id-3"]
    history.resize(3)
    for _ in range(2):
        history(told.end(told.call()))
    assert ids(history.query()) == ["id-6", "id-5", "id-4"]


def test_a_history_of_no_size_keeps_nothing(told):
    history = History(0)
    history(told.end(told.call()))

    assert history.query() == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"tool": "search"}, ["id-4", "id-1"]),
        ({"status": "failed"}, ["id-3", "id-2"]),
        ({"status": ResultStatus.OK}, ["id-4", "id-1"]),
        ({"session": "garden"}, ["id-3"]),
        ({"tool": "book", "status": "failed", "session": "kitchen"}, ["id-2"]),
        ({"since": 1_700_000_003.0}, ["id-4", "id-3"]),
        ({"limit": 1}, ["id-4"]),
        ({"limit": 0}, []),
        ({"limit": None}, ["id-4", "id-3", "id-2", "id-1"]),
        ({"tool": "search", "limit": 1}, ["id-4"]),
        ({"tool": "pay"}, []),
    ],
)
def test_a_query_narrows_down(told, query, expected):
    history = History()
    history(told.end(told.call("search")))
    history(told.end(told.call("book"), "failed"))
    history(told.end(told.call("book", session=ToolSession("garden")), "failed"))
    history(told.end(told.call("search")))

    assert ids(history.query(**query)) == expected


def test_attempts_are_the_retries_of_that_call_and_one(told):
    history = History()
    twice, once = told.call(), told.call()
    for event in (told.start(twice), told.start(once), told.retry(twice), told.retry(twice)):
        history(event)
    history(told.end(once))
    history(told.end(twice))

    assert [record.attempts for record in history.query()] == [3, 1]


def test_a_name_that_a_model_made_up_is_kept_short(told):
    history = History()
    history(told.end(told.call("x" * 100_000, known=False), "not_found"))

    assert history.query()[0].tool == "x" * 128


def test_nothing_of_an_ended_call_is_kept_alive(told):
    class Big(dict):
        """A dict that can be watched."""

    history, big = History(), Big(a=1)
    history(told.end(told.call(arguments=big), result=big))
    gone = ref(big)
    del big
    gc.collect()

    assert gone() is None


def test_a_cancelled_call_is_in_the_history(told):
    history, call = History(), told.call()
    history(told.start(call))
    history(told.end(call, "cancelled", kind=EventKind.CANCEL))

    assert ids(history.query(status="cancelled")) == ["id-1"]
