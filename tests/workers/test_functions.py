"""How functions of each kind are run: coroutines, threads, generators."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any

import pytest

from leonidas_tools import Tool, ToolContext
from leonidas_tools.errors import SchemaError
from leonidas_tools.runtime.functions import kind_of
from tests.policies.bench import Bench, quiet
from tests.policies.clock import in_no_time


class Counter:
    def __init__(self) -> None:
        self.total = 0

    async def add(self, n: int) -> int:
        self.total += n
        return self.total

    def take(self, n: int) -> int:
        self.total -= n
        return self.total

    async def __call__(self, n: int) -> int:
        return n * 10

    async def count(self, n: int) -> AsyncIterator[int]:
        for k in range(n):
            yield k

    def walk(self, n: int) -> Iterator[int]:
        yield from range(n)

    @staticmethod
    def double(n: int) -> int:
        return n * 2

    @classmethod
    def triple(cls, n: int) -> int:
        return n * 3


async def subtract(a: int, n: int) -> int:
    return a - n


def sync_subtract(a: int, n: int) -> int:
    return a - n


def later(n: int) -> Awaitable[int]:
    return subtract(100, n)


@pytest.mark.parametrize(
    ("function", "kind", "result"),
    [
        pytest.param(Counter().add, "async", 7, id="method"),
        pytest.param(Counter().take, "sync", -7, id="sync method"),
        pytest.param(Counter(), "async", 70, id="object that is callable"),
        pytest.param(Counter().count, "async generator", 6, id="async generator method"),
        pytest.param(Counter().walk, "generator", 6, id="generator method"),
        pytest.param(Counter.double, "sync", 14, id="static method"),
        pytest.param(Counter.triple, "sync", 21, id="class method"),
        pytest.param(functools.partial(subtract, 10), "async", 3, id="partial"),
        pytest.param(
            functools.partial(functools.partial(sync_subtract), 10), "sync", 3, id="nested partial"
        ),
        pytest.param(functools.partial(Counter().count), "async generator", 6, id="partial method"),
        pytest.param(later, "sync", 93, id="sync function that returns an awaitable"),
        pytest.param(lambda n: n, "sync", 7, id="lambda"),
    ],
)
async def test_a_function_of_any_kind_is_run(function: Any, kind: str, result: Any) -> None:
    bench = Bench(Tool(function, name="function"))
    assert kind_of(function) == kind
    assert (await bench.run("function", n=7)).result == result
    await bench.executor.workers.close()


async def test_a_coroutine_runs_on_the_loop_and_a_sync_function_beside_it() -> None:
    async def here() -> bool:
        return threading.current_thread() is threading.main_thread()

    def there() -> bool:
        return threading.current_thread() is threading.main_thread()

    bench = Bench(here, there)
    assert [(await bench.run(name)).result for name in ("here", "there")] == [True, False]
    await bench.executor.workers.close()


async def stream(n: int) -> AsyncIterator[Any]:
    for k in range(n):
        yield k if k % 2 else f"step {k}"


def walk(n: int) -> Iterator[Any]:
    for k in range(n):
        yield k if k % 2 else f"step {k}"


@pytest.mark.parametrize("function", [stream, walk])
async def test_what_a_generator_yields_is_progress_and_last_its_result(function: Any) -> None:
    bench = Bench(Tool(function, name="tells"))
    result = await bench.run("tells", n=5)
    assert result.result == "step 4"
    assert bench.told("tool_progress") == [
        {"message": "step 0"}, {"value": 1}, {"message": "step 2"}, {"value": 3},
    ]  # fmt: skip
    assert [event.kind.value for event in bench.events] == [
        "tool_start", *["tool_progress"] * 4, "tool_complete",
    ]  # fmt: skip
    await bench.executor.workers.close()


@pytest.mark.parametrize("function", [stream, walk])
@pytest.mark.parametrize(("n", "result"), [(0, None), (1, "step 0")])
async def test_a_generator_that_yields_little_tells_nothing_before(
    function: Any, n: int, result: Any
) -> None:
    bench = Bench(Tool(function, name="tells"))
    assert (await bench.run("tells", n=n)).result == result
    assert bench.told("tool_progress") == []
    await bench.executor.workers.close()


async def test_a_generator_may_take_a_context_too() -> None:
    async def with_context(ctx: ToolContext) -> AsyncIterator[str]:
        ctx.progress("of its own", fraction=0.5)
        yield ctx.call.name

    bench = Bench(with_context)
    assert (await bench.run("with_context")).result == "with_context"
    assert bench.told("tool_progress") == [{"message": "of its own", "fraction": 0.5}]


async def test_a_stream_that_is_cancelled_is_closed() -> None:
    closed: list[str] = []
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[int]:
        try:
            yield 1
            begun.set()
            await asyncio.Event().wait()
            yield 2
        finally:
            closed.append("closed")

    bench = Bench(Tool(endless, effect="read"))
    call = bench.start("endless")
    await begun.wait()
    call.cancel()
    await quiet()
    assert (closed, bench.ends) == (["closed"], [("endless", "tool_cancel")])


async def test_a_stream_that_never_waits_is_closed_before_its_call_ends() -> None:
    ended_before: list[bool] = []

    async def endless() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            ended_before.append(bool(bench.ends))

    bench = Bench(Tool(endless, effect="read"))
    call = bench.start("endless")
    while len(bench.told("tool_progress")) < 3:
        await asyncio.sleep(0)
    call.cancel()
    while not bench.ends:
        await asyncio.sleep(0)
    assert ended_before == [False]


@in_no_time
async def test_a_stream_that_takes_too_long_is_closed() -> None:
    closed: list[str] = []

    async def slow() -> AsyncIterator[int]:
        try:
            for k in range(1000):
                yield k
                await asyncio.sleep(1)
        finally:
            closed.append("closed")

    bench = Bench(Tool(slow, effect="read", timeout_seconds=4.5))
    assert (await bench.run("slow")).status == "timeout"
    assert closed == ["closed"]
    assert [told["value"] for told in bench.told("tool_progress")] == [0, 1, 2, 3]


async def test_a_generator_in_a_thread_is_closed_once_it_is_not_needed() -> None:
    begun, go_on, closed = threading.Event(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
                begun.set()
                go_on.wait(20)
        finally:
            loop.call_soon_threadsafe(closed.set)

    bench = Bench(Tool(endless, effect="read"))
    call = bench.start("endless")
    assert await bench.executor.workers.in_thread(begun.wait, 20)
    call.cancel()
    await quiet()
    go_on.set()
    async with asyncio.timeout(20):
        await closed.wait()
    assert bench.ends == [("endless", "tool_cancel")]
    await bench.executor.workers.close()


@pytest.mark.parametrize("function", [stream, walk])
@pytest.mark.parametrize("n", [0, 1, 4])
async def test_a_generator_may_give_all_that_it_yields(function: Any, n: int) -> None:
    bench = Bench(Tool(function, name="tells", collect=True))
    told = ["step 0", 1, "step 2", 3][:n]
    assert (await bench.run("tells", n=n)).result == told
    assert len(bench.told("tool_progress")) == max(n - 1, 0)
    await bench.executor.workers.close()


async def test_the_settings_say_whether_all_values_are_given() -> None:
    bench = Bench(Tool(stream, name="tells"), tools={"tells": {"collect": True}})
    assert (await bench.run("tells", n=2)).result == ["step 0", 1]
    bench = Bench(Tool(stream, name="tells", collect=True), tools={"tells": {"collect": False}})
    assert (await bench.run("tells", n=2)).result == 1


async def many(n: int) -> AsyncIterator[str]:
    for _ in range(n):
        yield "x" * 10_000


def many_in_a_thread(n: int) -> Iterator[str]:
    for _ in range(n):
        yield "x" * 10_000


@pytest.mark.parametrize("function", [many, many_in_a_thread])
async def test_what_there_is_no_room_for_is_not_kept_and_that_is_said(function: Any) -> None:
    bench = Bench(Tool(function, name="tells", collect=True))
    result = await bench.run("tells", n=1000)
    assert result.message is not None
    assert "These are the first 7 of 1000 values" in result.message
    assert len(result.to_response()["result"]) <= 8
    await bench.executor.workers.close()


def test_only_a_generator_can_be_collected() -> None:
    async def plain() -> None:
        return None

    with pytest.raises(SchemaError, match="collect=True, which is for generators"):
        _ = Tool(plain, collect=True).metadata


async def test_a_secret_is_masked_in_every_value_that_is_collected() -> None:
    async def leaks(password: str) -> AsyncIterator[Any]:
        yield {"password": password}
        yield f"it is {password}"

    bench = Bench(Tool(leaks, collect=True, secrets=["password"]))
    result = await bench.run("leaks", password="hunter2-hunter2")
    assert "hunter2" not in str(result.to_response())
