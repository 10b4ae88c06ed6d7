"""What becomes of a call that nobody wants any more: stopped, finished or undone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from genai_processors import processor
from genai_processors.content_api import ProcessorPart

from leonidas_tools import AdvancedToolProcessor, Tool, ToolContext
from leonidas_tools.calls.events import EventKind
from leonidas_tools.policies.base import Policy
from tests.policies.runs import Told, begin, settled, tools_of
from tests.promises.faults.play import Heard, Script, call, cancellation


class Book:
    """A tool that says what it has done, and waits for its door in between."""

    def __init__(self) -> None:
        self.begun, self.go_on, self.undone = (asyncio.Event() for _ in range(3))
        self.did: list[str] = []

    async def book(self, ctx: ToolContext) -> str:
        self.did.append("begun")
        ctx.undo(self.did.append, "step undone")
        self.begun.set()
        await self.go_on.wait()
        self.did.append("booked")
        return "booked"

    def undo(self) -> None:
        self.did.append("undone")
        self.undone.set()

    def tool(self, **options: Any) -> Tool[..., Any]:
        return Tool(self.book, undo=self.undo, **options)


class Ends(Told):
    """Hears of every event, and of the end of a call."""

    def __init__(self, tools: AdvancedToolProcessor) -> None:
        super().__init__(tools)
        self.end = asyncio.Event()
        tools.monitor.subscribe(lambda event: self.end.set() if event.ends_call else None)


async def cancelled(
    tools: AdvancedToolProcessor, book: Book
) -> tuple[list[str], list[tuple[str, Any]]]:
    """Cancels a call half-way, lets it go on, and tells what it did and what was told."""
    told = Ends(tools)
    async with asyncio.timeout(10), tools:
        task = begin(tools, "book")
        await book.begun.wait()
        task.cancel()
        await settled()
        book.go_on.set()
        await told.end.wait()
    ends = [(e.kind.value, e.result.result) for e in told.events if e.result is not None]
    return book.did, ends


@pytest.mark.parametrize("effect", ["read", "idempotent", "once"])
@pytest.mark.parametrize("said_by", ["the tool", "the settings"])
async def test_a_call_that_finishes_is_not_stopped_and_its_result_is_dropped(
    effect, said_by
) -> None:
    book = Book()
    if said_by == "the tool":
        tools = tools_of(book.tool(effect=effect, on_cancel="finish"))
    else:
        settings = {"book": {"on_cancel": "finish"}}
        tools = tools_of(book.tool(effect=effect, on_cancel="undo"), tools=settings)
    assert await cancelled(tools, book) == (["begun", "booked"], [("tool_cancel", "booked")])


@pytest.mark.parametrize("on_cancel", ["stop", "undo"])
@pytest.mark.parametrize("effect", ["read", "once"])
async def test_a_call_that_stops_is_stopped_and_undone(effect, on_cancel) -> None:
    book = Book()
    tools = tools_of(book.tool(effect=effect, on_cancel=on_cancel))
    assert await cancelled(tools, book) == (
        ["begun", "step undone", "undone"],
        [("tool_cancel", None)],
    )


@pytest.mark.parametrize(
    ("effect", "undo", "finishes"),
    [("read", False, False), ("idempotent", False, False), ("once", False, True),
     ("once", True, False)],
)  # fmt: skip
async def test_unless_it_is_said_the_effect_decides(effect, undo, finishes) -> None:
    book = Book()
    tool = book.tool(effect=effect) if undo else Tool(book.book, effect=effect)
    _, [(kind, result)] = await cancelled(tools_of(tool), book)
    assert (kind, result) == ("tool_cancel", "booked" if finishes else None)


async def test_a_call_once_that_stops_is_stopped_without_an_undo() -> None:
    book = Book()
    tools = tools_of(Tool(book.book, effect="once", on_cancel="stop"))
    assert await cancelled(tools, book) == (["begun", "step undone"], [("tool_cancel", None)])


async def test_a_call_that_finishes_is_stopped_while_it_only_waits() -> None:
    book = Book()
    tools = tools_of(book.tool(effect="once", on_cancel="finish"))
    told = Told(tools)
    async with asyncio.timeout(10), tools:
        first = begin(tools, "book")
        await book.begun.wait()
        second = begin(tools, "book")  # waits for its lane
        await settled()
        second.cancel()
        await settled()
        assert [e.result.result for e in told.of(EventKind.CANCEL) if e.result] == [None]
        book.go_on.set()
        assert (await first).result == "booked"
    assert book.did == ["begun", "booked"]


async def test_a_thread_that_is_to_be_undone_is_undone_when_it_is_done() -> None:
    """It cannot be stopped: what it does must not be undone before it is done."""
    loop = asyncio.get_running_loop()
    begun, go_on, did = asyncio.Event(), threading.Event(), []
    seen: list[bool] = []

    def book(ctx: ToolContext) -> str:
        ctx.undo(did.append, "step undone")
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(10)
        seen.append(ctx.cancelled)
        did.append("booked")
        return "booked"

    tools = tools_of(Tool(book, on_cancel="undo", undo=lambda: did.append("undone")))
    told = Ends(tools)
    async with asyncio.timeout(10), tools:
        task = begin(tools, "book")
        await begun.wait()
        task.cancel()
        await settled()
        assert did == []
        go_on.set()
        await told.end.wait()
    assert did == ["booked", "step undone", "undone"]
    assert seen == [True], "it is told that it may stop"
    assert [e.result.result for e in told.of(EventKind.CANCEL) if e.result] == ["booked"]


@pytest.mark.parametrize(("on_cancel", "undone"), [("undo", ["undone"]), ("stop", [])])
async def test_what_was_done_is_undone_while_its_answer_is_on_its_way(on_cancel, undone) -> None:
    done, did = asyncio.Event(), []

    async def lingers(call: Any, run: Any) -> Any:
        result = await run(call)
        done.set()
        await asyncio.Event().wait()
        return result

    async def book() -> str:
        return "booked"

    policies: list[Policy] = [lingers]
    tools = AdvancedToolProcessor(
        tools=[Tool(book, on_cancel=on_cancel, effect="read", undo=lambda: did.append("undone"))],
        policies=policies,
        builtin_tools=False,
    )
    told = Ends(tools)
    async with asyncio.timeout(10), tools:
        task = begin(tools, "book")
        await done.wait()
        task.cancel()
        await told.end.wait()
    assert [event.kind for event in told.events if event.ends_call] == [EventKind.CANCEL]
    assert did == undone


class Talk:
    """A stream whose input is written by hand."""

    def __init__(self, tools: AdvancedToolProcessor) -> None:
        self.tools, self.heard = tools, Heard()
        self._input: asyncio.Queue[ProcessorPart | None] = asyncio.Queue()
        self._answered = asyncio.Event()

    def say(self, *parts: ProcessorPart | None) -> None:
        for part in parts:
            self._input.put_nowait(part)

    async def _source(self) -> AsyncIterator[ProcessorPart]:
        while (part := await self._input.get()) is not None:
            yield part

    async def listen(self) -> None:
        async with processor.context():
            async for part in self.tools(self._source()):
                self.heard.take(part)
                if self.heard.answers:
                    self._answered.set()

    async def answered(self) -> None:
        await self._answered.wait()


@pytest.mark.parametrize(
    ("on_cancel", "times", "undone"), [("undo", 1, 1), ("undo", 2, 1), ("stop", 1, 0)]
)
async def test_a_call_whose_answer_was_dropped_is_undone_once(on_cancel, times, undone) -> None:
    book = Book()
    book.go_on.set()
    tools = tools_of(book.tool(effect="once", on_cancel=on_cancel))
    told = Told(tools)
    talk = Talk(tools)
    async with asyncio.timeout(10), tools, asyncio.TaskGroup() as tasks:
        tasks.create_task(talk.listen())
        talk.say(call("book", id="c1"))
        await talk.answered()
        talk.say(*[cancellation("c1")] * times)
        if undone:
            await book.undone.wait()
        await settled()
        talk.say(None)
    assert book.did == ["begun", "booked", *["step undone", "undone"] * undone]
    assert [event.data for event in told.of(EventKind.UNDO)] == [{"done": True}] * 2 * undone
    assert [event.kind for event in told.events if event.ends_call] == [EventKind.COMPLETE]


async def test_no_answer_of_a_cancelled_call_goes_out() -> None:
    for on_cancel in ("stop", "finish", "undo"):
        book = Book()
        talk = Talk(tools_of(book.tool(on_cancel=on_cancel)))
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            tasks.create_task(talk.listen())
            talk.say(call("book", id="c1"))
            await book.begun.wait()
            talk.say(cancellation("c1"))
            await settled()
            book.go_on.set()
            talk.say(None)
        assert talk.heard.answers == [], on_cancel


async def test_a_thread_with_a_side_effect_that_was_told_to_stop_is_not_taken_as_stopped() -> None:
    """It goes on: an equal call is told that the outcome is unknown, and does not run beside it."""
    loop = asyncio.get_running_loop()
    begun, go_on, done = asyncio.Event(), threading.Event(), asyncio.Event()
    booked: list[int] = []

    def book() -> str:
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(10)
        booked.append(1)
        loop.call_soon_threadsafe(done.set)
        return "booked"

    tools = tools_of(Tool(book, effect="once", on_cancel="stop"))
    told = Ends(tools)
    async with asyncio.timeout(10), Script(tools) as stream:
        stream.say(call("book", id="1"))
        await begun.wait()
        stream.say(cancellation("1"))
        await told.end.wait()
        stream.say(call("book", id="2"))
        await stream.until_answered("2")
        go_on.set()
        await done.wait()
    (answer,) = stream.heard.by_id["2"]
    assert stream.heard.by_id.keys() == {"2"}
    assert (answer["status"], answer["reason_code"]) == ("unknown_outcome", "cancelled_call")
    assert "It is not known whether it took effect" in answer["message"]
    assert booked == [1]
