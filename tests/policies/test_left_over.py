"""What could not be undone is said: the model must not take it for undone."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from leonidas_tools import RetryableError, Tool, ToolContext, ToolResult, tool
from leonidas_tools.calls.events import EventKind
from leonidas_tools.session.state import AgentState
from tests.policies.clock import in_no_time, now
from tests.policies.runs import Told, begin, settled, tools_of

SAID = "1 step(s) could not be rolled back; tell the user."


def broken() -> None:
    raise OSError


async def test_a_failure_says_what_is_left_of_it() -> None:
    async def book(ctx: ToolContext) -> None:
        ctx.undo(lambda: None)
        ctx.undo(broken)
        raise ValueError

    tools = tools_of(book)
    told = Told(tools)
    result = await tools.execute("book")
    assert result.message == f"The tool 'book' failed. {SAID}"
    assert [event.data["done"] for event in told.of(EventKind.UNDO)] == [False, True]


async def test_nothing_is_said_where_all_is_undone() -> None:
    async def book(ctx: ToolContext) -> None:
        ctx.undo(lambda: None)
        raise ValueError

    assert (await tools_of(book).execute("book")).message == "The tool 'book' failed."


async def test_the_tools_own_undo_counts_too() -> None:
    async def book() -> None:
        raise ValueError

    result = await tools_of(Tool(book, undo=broken)).execute("book")
    assert result.message == f"The tool 'book' failed. {SAID}"


@pytest.mark.parametrize("covers", ["timeout", "deadline"])
async def test_a_call_that_runs_out_of_time_says_it_too(covers: str) -> None:
    async def book(ctx: ToolContext) -> None:
        ctx.undo(broken)
        await asyncio.Event().wait()

    tools = tools_of(tool(effect="read")(book), tools={"book": {covers: "10ms"}})
    message = (await tools.execute("book")).message
    assert message is not None
    assert message.endswith(SAID)


async def test_a_success_after_a_failure_says_what_the_failure_has_left() -> None:
    runs: list[Any] = []

    async def book(ctx: ToolContext) -> str:
        runs.append(ctx)
        if len(runs) == 1:
            ctx.undo(broken)
            raise RetryableError("Busy.")
        return "booked"

    result = await tools_of(book).execute("book")
    assert (result.result, result.message) == ("booked", SAID)


async def test_a_multi_step_change_of_state_is_rolled_back_in_reverse() -> None:
    async def prepare(ctx: ToolContext) -> None:
        state = ctx.session.get(AgentState)
        for new in ("thinking", "working"):
            state.change(new, "a step")
            ctx.undo(state.roll_back)
        raise ValueError

    tools = tools_of(prepare)
    told = Told(tools)
    seen: list[str] = []
    tools.session.get(AgentState).on_change(lambda change: seen.append(change.new))
    assert (await tools.execute("prepare")).status == "failed"
    assert seen == ["thinking", "working", "thinking", "idle"]
    assert tools.session.get(AgentState).current == "idle"
    assert len(told.of(EventKind.UNDO)) == 2


async def test_a_cancelled_multi_step_tool_is_rolled_back_too() -> None:
    begun = asyncio.Event()

    async def prepare(ctx: ToolContext) -> None:
        state = ctx.session.get(AgentState)
        state.change("working", "a step")
        ctx.undo(state.roll_back)
        begun.set()
        await asyncio.Event().wait()

    tools = tools_of(tool(on_cancel="undo")(prepare))
    call = begin(tools, "prepare")
    async with asyncio.timeout(10):
        await begun.wait()
    call.cancel()
    await settled()
    assert tools.session.get(AgentState).current == "idle"


@in_no_time
async def test_a_side_effect_that_is_undone_as_a_whole_has_timed_out_and_is_said_to_be_undone() -> (
    None
):
    async def cancels_booking() -> None:
        await asyncio.sleep(3)  # longer than a stopped tool may go on

    async def book() -> None:
        await asyncio.Event().wait()

    tools = tools_of(Tool(book, undo=cancels_booking, timeout_seconds=5))
    assert (await tools.execute("book")).to_response() == {
        "status": "timeout",
        "message": (
            "The tool 'book' did not finish within 5 seconds. Its completed steps were rolled back."
        ),
        "retryable": True,
        "reason_code": "attempt_timeout",
    }


@in_no_time
async def test_of_steps_that_are_undone_the_one_that_ran_may_have_taken_effect() -> None:
    async def book(ctx: ToolContext) -> None:
        ctx.undo(lambda: None)
        await asyncio.Event().wait()

    result = await tools_of(Tool(book, timeout_seconds=5)).execute("book")
    assert (result.status, result.retryable) == ("unknown_outcome", False)
    assert result.message == (
        "The tool 'book' did not finish within 5 seconds. Every recorded "
        "step was rolled back, but it is not known whether the step in "
        "progress took effect: do not call it again before you have checked."
    )


@in_no_time
async def test_an_undo_that_hangs_delays_the_answer_for_its_own_time_only() -> None:
    async def hangs() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    async def book(ctx: ToolContext) -> None:
        ctx.undo(hangs)
        await asyncio.Event().wait()

    tools = tools_of(Tool(book, timeout_seconds=5))
    result = await tools.execute("book")
    assert result.status == "unknown_outcome"
    assert result.message is not None
    assert result.message.endswith("before you have checked.")
    assert "rolled back" not in result.message
    assert now() <= 11


def test_what_a_thread_may_still_do_is_not_said_to_be_undone() -> None:
    go_on = threading.Event()

    def book() -> None:
        go_on.wait(10)

    async def run() -> ToolResult:
        async with tools_of(Tool(book, undo=lambda: None, timeout_seconds=0.05)) as tools:
            try:
                return await tools.execute("book")
            finally:
                go_on.set()

    assert asyncio.run(run()).status == "unknown_outcome"
