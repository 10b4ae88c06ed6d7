"""What could not be undone is said: the model must not take it for undone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leonidas_tools import RetryableError, Tool, ToolContext, tool
from leonidas_tools.events import EventKind
from leonidas_tools.state import AgentState
from tests.policies.runs import Told, begin, settled, tools_of

SAID = "Of what was done before it failed, 1 could not be undone: tell so."


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
