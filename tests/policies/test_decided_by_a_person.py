"""After a failure a person decides: try it again, or go on without it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leonidas_tools import AdvancedToolProcessor, Tool, ToolError, ToolResult, ToolSession
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.calls.events import EventKind
from tests.policies.runs import Told, begin, settled, tools_of


class Flaky:
    """A tool whose side effect happens once, and that fails as often as it is told to."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.runs: list[int] = []

    async def book(self, seats: int) -> str:
        self.runs.append(seats)
        if len(self.runs) <= self.failures:
            raise ConnectionError
        return f"{seats} booked"


def late(tools: AdvancedToolProcessor) -> list[tuple[str | None, ToolResult]]:
    heard: list[tuple[str | None, ToolResult]] = []
    tools.session.get(Approvals).on_result(lambda call, result: heard.append((call.id, result)))
    return heard


async def test_a_side_effect_is_tried_again_by_that_decision_only_and_once() -> None:
    flaky = Flaky(failures=1)
    tools = tools_of(flaky.book)
    told, heard = Told(tools), late(tools)
    failed = await tools.execute("book", {"seats": 2}, call_id="7")
    assert (failed.status, flaky.runs) == ("failed", [2])
    first = tools.retry("7")
    with pytest.raises(ToolError, match="No failed call '7' waits for a decision"):
        tools.retry("7")
    assert (await first).result == "2 booked"
    assert flaky.runs == [2, 2]
    with pytest.raises(ToolError):
        tools.retry("7")
    ((call_id, outcome),) = heard
    assert (call_id, outcome.to_response()) == (
        "7",
        {
            "status": "ok",
            "result": "2 booked",
            "message": "'book' was retried at the user's request.",
            "retryable": False,
        },
    )
    assert told.kinds() == [
        "tool_start", "tool_failed", "tool_start", "tool_retry", "tool_complete",
    ]  # fmt: skip
    (retried,) = told.of(EventKind.RETRY)
    assert retried.data["by"] == "person"
    assert len({event.call.trace_id for event in told.events}) == 2


async def test_what_fails_again_may_be_decided_about_again() -> None:
    flaky = Flaky(failures=2)
    tools = tools_of(flaky.book)
    await tools.execute("book", {"seats": 1}, call_id="7")
    assert (await tools.retry("7")).status == "failed"
    assert (await tools.retry("7")).status == "ok"
    assert flaky.runs == [1, 1, 1]


async def test_a_retry_is_held_to_the_rules() -> None:
    flaky = Flaky(failures=1)
    tools = AdvancedToolProcessor([Tool(flaky.book, requires_approval=True)])
    await tools.execute("book", {"seats": 1}, call_id="7", autonomous=True)
    assert (await tools.retry("7")).status == "pending_approval"
    with pytest.raises(ToolError):
        tools.retry("7")  # it waits for its question
    assert flaky.runs == [1]


async def test_the_loop_guard_does_not_refuse_what_a_person_wants() -> None:
    flaky = Flaky(failures=20)
    tools, session = tools_of(flaky.book), ToolSession()
    await tools.execute("book", {"seats": 1}, call_id="7", session=session)
    results = [(await tools.retry("7")).status for _ in range(12)]
    assert results == ["failed"] * 12


async def test_a_person_goes_on_without_it() -> None:
    flaky = Flaky(failures=1)
    tools = tools_of(flaky.book)
    told, heard = Told(tools), late(tools)
    await tools.execute("book", {"seats": 1}, call_id="7")
    assert (await tools.skip("7")).to_response() == {
        "status": "cancelled",
        "message": ("The user decided to continue without 'book': do not call it again for this."),
        "retryable": False,
        "reason_code": "skipped",
    }
    assert [result.reason_code for _, result in heard] == ["skipped"]
    assert told.kinds() == ["tool_start", "tool_failed", "tool_skip"]
    for decide in (tools.retry, tools.skip):
        with pytest.raises(ToolError):
            decide("7")


async def test_a_call_that_runs_is_stopped_and_then_not_kept() -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    tools = tools_of(Tool(hangs, effect="read"))
    heard = late(tools)
    call = begin(tools, "hangs")
    await settled()
    skipped = await tools.skip(f"{tools.session.id}-1")
    assert await call == skipped
    assert (skipped.status, skipped.reason_code) == ("cancelled", "skipped")
    assert heard == [], "its one answer says it"
    with pytest.raises(ToolError):
        tools.retry(f"{tools.session.id}-1")


async def test_a_call_that_was_cancelled_by_a_person_may_be_tried_again() -> None:
    runs: list[int] = []

    async def waits() -> str:
        runs.append(1)
        if len(runs) == 1:
            await asyncio.Event().wait()
        return "done"

    tools = tools_of(waits)
    call = begin(tools, "waits")
    await settled()
    await tools.cancel(f"{tools.session.id}-1")
    await call
    assert (await tools.retry(f"{tools.session.id}-1")).result == "done"


@pytest.mark.parametrize("arguments", [{}, {"seats": "many"}])
async def test_what_never_ran_is_the_models_to_mend(arguments: dict[str, Any]) -> None:
    tools = tools_of(Flaky(failures=0).book)
    await tools.execute("book", arguments, call_id="7")
    with pytest.raises(ToolError):
        tools.retry("7")


async def test_only_so_many_failures_are_kept_and_none_beyond_its_session() -> None:
    flaky = Flaky(failures=1000)
    tools = tools_of(flaky.book, policies={"loop": "off"})
    for n in range(70):
        await tools.execute("book", {"seats": n}, call_id=str(n))
    with pytest.raises(ToolError):
        tools.retry("5")
    assert (await tools.retry("69")).status == "failed"
    other = ToolSession()
    with pytest.raises(ToolError):
        tools.retry("68", session=other)


async def test_an_id_of_two_sessions_is_not_guessed() -> None:
    flaky, sessions = Flaky(failures=2), [ToolSession(), ToolSession()]
    tools = tools_of(flaky.book)
    for session in sessions:
        await tools.execute("book", {"seats": 1}, call_id="1", session=session)
    with pytest.raises(ToolError, match="Several calls have the id '1'"):
        tools.retry("1")
    assert (await tools.retry("1", session=sessions[1])).status == "ok"
