"""A tool that calls others does not wait for what it has itself."""

from __future__ import annotations

import asyncio

from leonidas_tools import tool
from tests.policies.bench import Bench, Steps, quiet


async def test_a_tool_that_has_the_last_place_may_call_others() -> None:
    @tool(effect="read", lane="plan")
    async def plan() -> list[object]:
        results = await asyncio.gather(*(made.run("look", n=n) for n in range(3)))
        return [result.result for result in results]

    @tool(effect="read", lane="look")
    async def look(n: int) -> object:
        return (await made.run("see", n=n)).result

    @tool(effect="read", lane="see")
    async def see(n: int) -> int:
        return n

    made = Bench(plan, look, see, policies={"concurrency": 1}, defaults={"concurrency": 1})
    async with asyncio.timeout(5):
        assert (await made.run("plan")).result == [0, 1, 2]
        assert (await made.run("look", n=7)).result == 7


async def test_a_tool_may_call_itself() -> None:
    @tool(lane="count")
    async def count(n: int) -> int:
        return n and 1 + (await made.run("count", n=n - 1)).result

    made = Bench(count, policies={"concurrency": 1}, defaults={"concurrency": 1})
    async with asyncio.timeout(5):
        assert (await made.run("count", n=5)).result == 5


async def test_a_sync_tool_may_call_others_from_its_thread() -> None:
    loop = asyncio.get_running_loop()

    @tool(lane="shared")
    def outer() -> object:
        future = asyncio.run_coroutine_threadsafe(made.run("inner"), loop)
        return future.result(5).result

    @tool(lane="shared")
    async def inner() -> str:
        return "inside"

    made = Bench(outer, inner, policies={"concurrency": 1})
    async with asyncio.timeout(5):
        assert (await made.run("outer")).result == "inside"
    await made.executor.workers.close()


async def test_what_a_tool_leaves_running_waits_for_a_place_like_others() -> None:
    steps, go_on, left = Steps(), asyncio.Event(), []

    @tool(effect="read", lane="leaves")
    async def leaves_a_task() -> None:
        async def later() -> None:
            await go_on.wait()
            await made.run("read", step="late")

        left.append(asyncio.create_task(later()))

    reading = steps.tool("read", effect="read", lane="reads")
    made = Bench(leaves_a_task, reading, policies={"concurrency": 1})
    await made.run("leaves_a_task")
    holding = made.start("read", step="holds")
    await quiet()
    go_on.set()
    await quiet()
    assert steps.log == ["+holds"]
    steps.finish("holds", "late")
    await asyncio.gather(holding, *left)
    assert steps.log == ["+holds", "-holds", "+late", "-late"]
