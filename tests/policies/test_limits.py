"""Only so many calls run at once; who matters more goes first."""

from __future__ import annotations

import asyncio

from leonidas_tools import AdvancedToolProcessor, Settings, Tool
from leonidas_tools.events import EventKind
from tests.policies.runs import Stage, Told, begin, ended, settled, tools_of


def office(stage: Stage, **settings: object) -> AdvancedToolProcessor:
    async def play(name: str) -> str:
        return await stage.play(name)

    return tools_of(
        *(
            Tool(play, name=priority, priority=priority, effect="read", lane=priority)
            for priority in ("critical", "high", "normal", "low", "background")
        ),
        Tool(play, name="tidy", priority="background", effect="once", lane="tidy"),
        **settings,
    )


async def test_only_so_many_calls_run_at_once() -> None:
    stage = Stage()
    tools = office(stage, policies={"concurrency": 2})
    calls = [begin(tools, "normal", name=name) for name in "abc"]
    await stage.until_on("a", "b")
    await settled()
    assert stage.on == {"a", "b"}
    stage.let_go("a")
    await stage.until_on("b", "c")
    stage.let_go("b", "c")
    await ended(*calls)


async def test_who_waits_goes_on_in_the_order_of_priority_then_of_arrival() -> None:
    stage = Stage()
    tools = office(stage, policies={"concurrency": 1})
    calls = [begin(tools, "normal", name="first")]
    await stage.until_on("first")
    for name in ("background", "low", "normal", "high", "normal 2"):
        calls.append(begin(tools, name.split()[0], name=name))
        await settled()
    stage.let_go("first", "background", "low", "normal", "high", "normal 2")
    await ended(*calls)
    assert stage.came == ["first", "high", "normal", "normal 2", "low", "background"]


async def test_a_critical_call_never_waits() -> None:
    stage = Stage()
    tools = office(stage, policies={"concurrency": 1})
    calls = [begin(tools, "normal", name="a")]
    await stage.until_on("a")
    calls += [begin(tools, "critical", name=name) for name in ("b", "c")]
    await stage.until_on("a", "b", "c")
    stage.let_go("a", "b", "c")
    await ended(*calls)


async def test_a_critical_call_preempts_a_background_read_which_then_runs_again() -> None:
    stage = Stage()
    tools = office(stage, policies={"concurrency": 1})
    told = Told(tools)
    background = begin(tools, "background", name="slow")
    await stage.until_on("slow")
    critical = begin(tools, "critical", name="urgent")
    await stage.until(lambda: stage.on == {"urgent"})
    stage.let_go("urgent")
    await stage.until_on("slow")
    stage.let_go("slow")
    assert await ended(background, critical) == ["slow", "urgent"]
    assert stage.came == ["slow", "urgent", "slow"]
    assert [(e.call.name, e.data["error"]) for e in told.of(EventKind.RETRY)] == [
        ("background", "preempted")
    ]


async def test_what_takes_effect_is_never_preempted() -> None:
    stage = Stage()
    tools = office(stage, policies={"concurrency": 1})
    tidy = begin(tools, "tidy", name="tidy")
    await stage.until_on("tidy")
    critical = begin(tools, "critical", name="urgent")
    await stage.until_on("tidy", "urgent")
    stage.let_go("tidy", "urgent")
    assert await ended(tidy, critical) == ["tidy", "urgent"]


async def test_a_cancelled_call_is_not_run_again_by_a_preemption() -> None:
    stage = Stage()
    tools = office(stage, policies={"concurrency": 1})
    background = begin(tools, "background", name="slow")
    await stage.until_on("slow")
    background.cancel()
    critical = begin(tools, "critical", name="urgent")
    stage.let_go("urgent")
    assert await ended(critical) == ["urgent"]
    await settled()
    assert stage.came == ["slow", "urgent"]


async def test_a_tool_has_a_limit_of_its_own() -> None:
    stage = Stage()
    tools = office(stage, tools={"normal": {"concurrency": 1}})
    calls = [begin(tools, "normal", name="a"), begin(tools, "normal", name="b")]
    other = begin(tools, "low", name="c")
    await stage.until_on("a", "c")
    await settled()
    assert stage.on == {"a", "c"}
    stage.let_go("a", "b", "c")
    await ended(*calls, other)


async def test_a_limit_that_is_raised_lets_those_in_who_wait() -> None:
    stage = Stage()
    tools = office(stage, tools={"normal": {"concurrency": 1}})
    calls = [begin(tools, "normal", name="a"), begin(tools, "normal", name="b")]
    await stage.until_on("a")
    await settled()
    tools.executor.apply(Settings(tools={"normal": {"concurrency": 3}}))
    calls.append(begin(tools, "normal", name="c"))
    await stage.until_on("a", "b", "c")
    stage.let_go("a", "b", "c")
    await ended(*calls)


async def test_a_call_cancelled_while_it_waits_takes_no_place() -> None:
    stage = Stage()
    tools = office(stage, policies={"concurrency": 1})
    first = begin(tools, "normal", name="a")
    await stage.until_on("a")
    waiting = begin(tools, "normal", name="b")
    await settled()
    waiting.cancel()
    await settled()
    stage.let_go("a", "c")
    assert await ended(first, begin(tools, "normal", name="c")) == ["a", "c"]
    assert stage.came == ["a", "c"]


async def test_a_tool_that_calls_another_does_not_wait_for_its_own_place() -> None:
    async def inner() -> int:
        return 7

    async def outer() -> int:
        return (await tools.execute("inner")).result

    tools = tools_of(Tool(inner, lane="inner"), outer, policies={"concurrency": 1})
    async with asyncio.timeout(10):
        assert (await tools.execute("outer")).result == 7
        assert (await tools.execute("inner")).result == 7


async def test_a_failing_call_gives_its_place_back() -> None:
    async def failing() -> None:
        raise ValueError

    tools = tools_of(Tool(failing, retry_attempts=0), policies={"concurrency": 1})
    async with asyncio.timeout(10):
        assert [(await tools.execute("failing")).status for _ in range(3)] == ["failed"] * 3
