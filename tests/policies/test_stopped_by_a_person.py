"""A person stops a call: its work ends, and it is answered once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from leonidas_tools import Tool, ToolContext, ToolError, ToolSession, tool
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.calls.events import EventKind
from tests.policies.clock import in_no_time, now
from tests.policies.runs import Told, begin, settled, tools_of


async def hangs() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_call_that_changes_nothing_is_cancelled(effect: str) -> None:
    tools = tools_of(Tool(hangs, effect=effect))
    told = Told(tools)
    call = asyncio.create_task(tools.execute("hangs", call_id="7"))
    await settled()
    answer = tools.cancel("7")
    assert (await call).to_response() == {
        "status": "cancelled",
        "message": "The user stopped the tool 'hangs'. Do not call it again unless the user "
        "asks for it.",
        "retryable": False,
        "reason_code": "cancelled_by_user",
    }
    assert await answer == await call
    assert told.kinds() == ["tool_start", "tool_cancel"]


async def test_a_side_effect_is_stopped_too_and_its_outcome_is_unknown() -> None:
    tools = tools_of(hangs)
    call = begin(tools, "hangs")
    await settled()
    await tools.cancel(f"{tools.session.id}-1")
    assert (await call).to_response() == {
        "status": "unknown_outcome",
        "message": "The user stopped the tool 'hangs' while it was running. It is not known "
        "whether it took effect: do not call it again before "
        "you have checked.",
        "retryable": False,
        "reason_code": "cancelled_by_user",
    }


async def test_what_waits_for_its_lane_has_done_nothing() -> None:
    tools = tools_of(hangs)
    first = begin(tools, "hangs")
    second = asyncio.create_task(tools.execute("hangs", call_id="second"))
    await settled()
    assert (await tools.cancel("second")).status == "cancelled"
    assert not first.done()
    first.cancel()
    await asyncio.wait([first, second])


@in_no_time
async def test_a_tool_that_ignores_it_is_left_behind() -> None:
    released = asyncio.Event()

    async def stubborn() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    tools = tools_of(tool(effect="read")(stubborn))
    call = asyncio.create_task(tools.execute("stubborn", call_id="1"))
    await settled()
    assert (await tools.cancel("1")).reason_code == "cancelled_by_user"
    assert now() == 0.5
    assert (await call).status == "cancelled"
    released.set()
    await settled()


async def test_what_can_be_undone_is_undone_and_said() -> None:
    undone: list[str] = []

    async def book() -> None:
        await asyncio.Event().wait()

    tools = tools_of(Tool(book, undo=lambda: undone.append("booking")))
    call = begin(tools, "book")
    await settled()
    tools.cancel(f"{tools.session.id}-1")
    result = await call
    assert undone == ["booking"]
    assert result.status == "cancelled"
    assert result.message == (
        "The user stopped the tool 'book'. Its completed steps were rolled back. Do not "
        "call it again unless the user asks for it."
    )


async def test_a_thread_is_asked_to_end_and_undone_only_then() -> None:
    begun, log = threading.Event(), []

    def book(ctx: ToolContext) -> str:
        ctx.undo(log.append, "undone")
        begun.set()
        while not ctx.cancelled:
            threading.Event().wait(0.001)
        log.append("ended")
        return "booked"

    async with tools_of(tool(on_cancel="undo")(book)) as tools:
        call = begin(tools, "book")
        assert await asyncio.to_thread(begun.wait, 10)
        tools.cancel(f"{tools.session.id}-1")
        result = await call
    assert log == ["ended", "undone"]
    assert (result.status, result.reason_code) == ("cancelled", "cancelled_by_user")


async def test_a_tool_that_fails_as_it_is_stopped_is_not_tried_again() -> None:
    runs: list[int] = []

    async def flaky() -> None:
        runs.append(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError from None

    tools = tools_of(tool(effect="read", retry_attempts=3)(flaky))
    call = begin(tools, "flaky")
    await settled()
    await tools.cancel(f"{tools.session.id}-1")
    assert (await call).status == "failed"
    assert len(runs) == 1


async def test_the_calls_that_its_tool_has_made_are_stopped_with_it() -> None:
    async def outer() -> Any:
        return await tools.execute("hangs")

    tools = tools_of(tool(effect="read")(outer), tool(lane="other")(hangs))
    told = Told(tools)
    call = begin(tools, "outer")
    await settled()
    await tools.cancel(f"{tools.session.id}-1")
    await call
    await settled()
    assert tools.monitor.ledger.in_flight == 0
    assert {event.call.name for event in told.of(EventKind.CANCEL)} == {"hangs", "outer"}


async def test_a_question_that_waits_is_withdrawn() -> None:
    async def asks(_: object) -> None:
        await asyncio.Event().wait()

    from leonidas_tools import AdvancedToolProcessor

    tools = AdvancedToolProcessor([tool(requires_approval=True)(hangs)], approval=asks)
    call = begin(tools, "hangs")
    await settled()
    assert len(tools.session.get(Approvals).pending()) == 1
    assert (await tools.cancel(f"{tools.session.id}-1")).status == "cancelled"
    assert tools.session.get(Approvals).pending() == []
    await call


async def test_only_a_call_that_runs_can_be_stopped_and_the_id_must_be_clear() -> None:
    tools = tools_of(tool(effect="read")(hangs))
    with pytest.raises(ToolError, match="No call '1' is running"):
        tools.cancel("1")
    sessions = [ToolSession(), ToolSession()]
    calls = [
        asyncio.create_task(tools.execute("hangs", session=session, call_id="1"))
        for session in sessions
    ]
    await settled()
    with pytest.raises(ToolError, match="Several calls have the id '1'"):
        tools.cancel("1")
    await tools.cancel("1", session=sessions[0])
    assert [call.done() for call in calls] == [True, False]
    assert tools.cancel("1") is tools.cancel("1"), "stopped once"
    await asyncio.wait(calls)
    with pytest.raises(ToolError):
        tools.cancel("1")


# --- how long a call may take is said when it begins ------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, {"timeout_seconds": 30.0}),
        ({"timeout_seconds": 5}, {"timeout_seconds": 5}),
        ({"deadline_seconds": 9}, {"timeout_seconds": 30.0, "deadline_seconds": 9}),
    ],
)
async def test_the_first_event_says_how_long_a_call_may_take(
    options: dict[str, Any], said: dict[str, float]
) -> None:
    async def look() -> None:
        return None

    tools = tools_of(tool(effect="read", **options)(look))
    told = Told(tools)
    await tools.execute("look")
    (start,) = told.of(EventKind.START)
    assert start.data == said
    assert start.to_json().items() >= said.items()
