"""What was half done is taken back: last step first, to the end, whatever stops the call."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from typing import Any

import pytest

from leonidas_tools import RetryableError, Tool, ToolContext
from leonidas_tools.calls.events import EventKind
from tests.policies.runs import Told, begin, tools_of


async def test_steps_run_in_reverse_order_when_a_tool_fails() -> None:
    undone: list[str] = []

    async def later(name: str) -> None:
        await asyncio.sleep(0)
        undone.append(name)

    async def book(ctx: ToolContext) -> None:
        ctx.undo(undone.append, "flight")
        ctx.undo(later, name="hotel")
        raise ValueError

    tools = tools_of(book)
    told = Told(tools)
    assert (await tools.execute("book")).status == "failed"
    assert undone == ["hotel", "flight"]
    assert [event.data for event in told.of(EventKind.UNDO)] == [{"done": True}] * 2


async def test_nothing_is_undone_when_all_goes_well() -> None:
    undone: list[str] = []

    async def book(ctx: ToolContext) -> str:
        ctx.undo(undone.append, "flight")
        return "booked"

    tools = tools_of(Tool(book, undo=lambda: undone.append("all")))
    assert (await tools.execute("book")).ok
    assert undone == []


async def test_a_cancelled_call_that_can_be_undone_is_stopped_and_undone() -> None:
    begun, undone = asyncio.Event(), asyncio.Event()

    async def book() -> None:
        begun.set()
        await asyncio.Event().wait()

    tools = tools_of(Tool(book, effect="once", undo=undone.set))
    call = begin(tools, "book")
    async with asyncio.timeout(10):
        await begun.wait()
        call.cancel()
        await undone.wait()


async def test_a_step_that_fails_does_not_stop_the_others() -> None:
    undone: list[str] = []

    def fails() -> None:
        raise SystemExit

    async def cancels() -> None:
        raise asyncio.CancelledError

    async def book(ctx: ToolContext) -> None:
        ctx.undo(undone.append, "first")
        ctx.undo(fails)
        ctx.undo(cancels)
        ctx.undo(undone.append, "last")
        raise ValueError

    tools = tools_of(book)
    told = Told(tools)
    assert (await tools.execute("book")).to_response() == {
        "status": "failed",
        "message": "The tool 'book' failed. 2 step(s) could not be rolled back; tell the user.",
        "retryable": False,
    }
    assert undone == ["last", "first"]
    assert [e.data["done"] for e in told.of(EventKind.UNDO)] == [True, False, False, True]


@pytest.mark.parametrize("stopping", ["cancel", "failure"])
async def test_undoing_goes_on_to_its_end_while_the_call_is_stopped_again(stopping: str) -> None:
    begun, undoing, go_on, undone = (asyncio.Event() for _ in range(4))

    async def undo() -> None:
        undoing.set()
        await go_on.wait()
        undone.set()

    async def book() -> None:
        begun.set()
        if stopping == "failure":
            raise ValueError
        await asyncio.Event().wait()

    tools = tools_of(Tool(book, undo=undo))
    async with asyncio.timeout(10), tools:
        call = begin(tools, "book")
        await begun.wait()
        if stopping == "cancel":
            call.cancel()
        await undoing.wait()
        call.cancel()
        for invocation in tuple(tools.executor._invocations):
            invocation.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert tools.monitor.ledger.in_flight == 1, "it ends when all is undone"
        go_on.set()
        await undone.wait()


async def test_an_undo_step_that_hangs_is_given_up() -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    async def book(ctx: ToolContext) -> None:
        ctx.undo(hangs)
        raise ValueError

    tools = tools_of(Tool(book, timeout_seconds=0.05))
    told = Told(tools)
    async with asyncio.timeout(10):
        assert (await tools.execute("book")).status in ("failed", "unknown_outcome")
    assert [event.data for event in told.of(EventKind.UNDO)] == [{"done": False}]


async def test_the_undo_of_a_tool_is_given_its_arguments_as_the_tool_is() -> None:
    given: list[Any] = []

    def book(day: dt.date, /, seats: int, ctx: ToolContext) -> None:
        given.append((day, seats))
        raise ValueError

    def undo(day: dt.date, /, seats: int) -> None:
        given.append((day, seats))

    async with tools_of(Tool(book, undo=undo)) as tools:
        await tools.execute("book", {"day": "2025-01-02", "seats": "2"})
    assert given == [(dt.date(2025, 1, 2), 2)] * 2


async def test_what_undoes_a_sync_tool_runs_in_a_thread_as_the_tool_does() -> None:
    threads: list[str] = []

    def where() -> None:
        threads.append(threading.current_thread().name)

    def book(ctx: ToolContext) -> None:
        ctx.undo(where)
        where()
        raise ValueError

    async with tools_of(Tool(book, undo=where)) as tools:
        await tools.execute("book")
    assert threads == ["leonidas-tool"] * 3


async def test_each_attempt_is_undone_by_itself() -> None:
    undone: list[int] = []
    tried: list[int] = []

    async def book(ctx: ToolContext) -> str:
        tried.append(1)
        ctx.undo(undone.append, len(tried))
        if len(tried) < 3:
            raise RetryableError("The line was busy.")
        return "booked"

    tools = tools_of(book, defaults={"retry_delay": "1ms"})
    assert (await tools.execute("book")).result == "booked"
    assert undone == [1, 2]
