"""When a tool stays down, another does its work; nothing is done twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leonidas_tools import (
    AdvancedToolProcessor,
    ResultStatus,
    RetryableError,
    Settings,
    Tool,
    ToolCall,
    ToolError,
    ToolResult,
)
from leonidas_tools.calls.events import EventKind
from leonidas_tools.policies.hooks import Before
from tests.policies.bench import Bench, Steps, quiet
from tests.policies.clock import in_no_time, now
from tests.policies.runs import Told, tools_of

DOWN = {"status": "failed", "message": "The tool 'main' failed.", "retryable": False}


def tool_that(name: str, does: Any, **options: Any) -> Tool[..., Any]:
    async def function(n: int) -> Any:
        made = does() if callable(does) else does
        if isinstance(made, BaseException):
            raise made
        return made

    options = {"effect": "read", "retry_attempts": 0, **options}
    return Tool(function, name=name, lane=name, **options)


def chain(main: Any, *others: Tool[..., Any], **options: Any) -> AdvancedToolProcessor:
    names = [other.name for other in others]
    return tools_of(tool_that("main", main, fallback_tools=names, **options), *others)


async def answer(tools: AdvancedToolProcessor) -> dict[str, Any]:
    async with asyncio.timeout(10):
        return (await tools.execute("main", {"n": 1})).to_response()


async def test_a_fallback_does_the_work_and_says_so() -> None:
    tools = chain(ValueError, tool_that("spare", 7))
    told = Told(tools)
    assert await answer(tools) == {
        "status": "ok",
        "result": 7,
        "message": "The fallback 'spare' was used instead of 'main'.",
        "retryable": False,
    }
    assert [(e.data["to"], e.data["error"]) for e in told.of(EventKind.FALLBACK)] == [
        ("spare", "failed")
    ]


async def test_a_call_keeps_its_settings_for_its_fallbacks() -> None:
    failing = asyncio.Event()

    async def main(n: int) -> int:
        await failing.wait()
        raise ValueError(n)

    def of(spare: dict[str, Any], fallbacks: list[str]) -> Settings:
        own = {"main": {"fallback_tools": fallbacks}, "spare": spare}
        return Settings(tools=own, policies={"threads": 3} if spare else {})

    made = Bench(
        Tool(main, retry_attempts=0, effect="read", lane="off"),
        tool_that("spare", 7),
        tool_that("other", 8),
    )
    made.executor.apply(of({}, ["spare"]))
    under_way = made.start("main", n=1)
    await quiet()
    made.executor.apply(of({"status": "disabled"}, ["spare", "other"]))
    made.executor.registry.unregister("spare")
    made.executor.registry.register(tool_that("spare", 9))
    failing.set()
    assert [(await each).result for each in (under_way, made.start("main", n=2))] == [7, 8]
    made.executor.apply(of({}, ["spare"]))
    assert (await made.run("main", n=3)).result == 9


@pytest.mark.parametrize("good", [7, ToolResult.no_results("None on that day.")])
async def test_no_fallback_runs_when_the_tool_has_an_answer(good: Any) -> None:
    tools = chain(good, tool_that("spare", AssertionError))
    told = Told(tools)
    await answer(tools)
    assert told.kinds() == ["tool_start", "tool_complete"]


async def test_fallbacks_are_tried_in_turn_past_those_that_did_nothing() -> None:
    async def shaped(other: str) -> str:
        return other

    ran: list[str] = []
    tools = chain(
        ValueError,
        tool_that("switched_off", lambda: ran.append("off"), status="disabled"),
        tool_that("lacking", lambda: ran.append("lacking"), dependencies=["nobody"]),
        Tool(shaped, name="of_another_shape", effect="read"),
        tool_that("failing", ValueError),
        tool_that("spare", 7),
    )
    told = Told(tools)
    assert (await answer(tools))["result"] == 7
    assert ran == []
    assert [e.data["to"] for e in told.of(EventKind.FALLBACK)] == [
        "switched_off", "lacking", "of_another_shape", "failing", "spare",
    ]  # fmt: skip


async def test_the_first_failure_is_reported_when_nothing_helps() -> None:
    tools = chain(ValueError, tool_that("failing", OSError), tool_that("off", 1, status="disabled"))
    assert await answer(tools) == DOWN


async def test_a_fallback_that_does_not_exist_is_passed_over() -> None:
    main = tool_that("main", ValueError, fallback_tools=["nobody", "spare"])
    assert (await answer(tools_of(main, tool_that("spare", 7))))["result"] == 7


async def test_no_fallback_follows_a_side_effect_that_may_have_happened() -> None:
    ran: list[str] = []
    tools = chain(ValueError, tool_that("spare", lambda: ran.append("spare")), effect="once")
    assert await answer(tools) == DOWN
    assert ran == []


async def test_a_fallback_follows_a_side_effect_that_did_not_happen() -> None:
    tools = chain(
        lambda: RetryableError("The line was busy."), tool_that("spare", 7), effect="once"
    )
    assert (await answer(tools))["result"] == 7


async def test_no_fallback_follows_one_that_may_have_taken_effect() -> None:
    ran: list[str] = []
    tools = chain(
        ValueError,
        tool_that("charging", ValueError, effect="once"),
        tool_that("spare", lambda: ran.append("spare")),
    )
    assert await answer(tools) == {**DOWN, "message": "The tool 'charging' failed."}
    assert ran == []


async def test_a_refusal_for_good_is_no_reason_for_a_fallback() -> None:
    denied = ToolError("Not for you.", status="denied")
    tools = chain(denied, tool_that("spare", AssertionError))
    assert await answer(tools) == {
        "status": "denied",
        "message": "Not for you.",
        "retryable": False,
    }


async def test_a_fallback_has_its_own_policies_but_no_fallbacks() -> None:
    tried: list[int] = []

    def flaky() -> Any:
        tried.append(1)
        return ValueError() if len(tried) < 3 else 7

    spare = tool_that("spare", flaky, retry_attempts=2, fallback_tools=["main"])
    assert (await answer(chain(ValueError, spare)))["result"] == 7
    again = tool_that("spare", ValueError, fallback_tools=["main"])
    assert await answer(chain(ValueError, again)) == DOWN


async def test_no_fallback_runs_for_a_call_that_is_not_awaited() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    async def main(n: int) -> None:
        begun.set()
        await go_on.wait()
        raise RetryableError("The line was busy.")

    tools = tools_of(
        Tool(main, fallback_tools=["spare"]), tool_that("spare", lambda: ran.append("spare"))
    )
    async with asyncio.timeout(10), tools:
        call = asyncio.create_task(tools.execute("main", {"n": 1}))
        await begun.wait()
        call.cancel()
        await asyncio.wait([call])
        go_on.set()
        while tools.monitor.ledger.in_flight:
            await asyncio.sleep(0)
    assert ran == []


@in_no_time
async def test_a_fallback_has_its_own_time() -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    def hanging(name: str, seconds: float, **more: Any) -> Tool[..., Any]:
        return Tool(hangs, name=name, effect="read", timeout_seconds=seconds, **more)

    bench = Bench(hanging("main", 2, fallback_tools=["spare"]), hanging("spare", 7))
    result = await bench.run("main")
    assert (result.message, now()) == ("The tool 'main' did not finish within 2 seconds.", 9)


async def test_a_fallback_waits_in_its_own_lane() -> None:
    steps = Steps()

    async def fails(step: str) -> None:
        raise OSError(step)

    bench = Bench(
        Tool(fails, name="main", effect="read", fallback_tools=["write"], retry_attempts=0),
        steps.tool("write", lane="shared"),
    )
    calls = [bench.start("write", step="holds"), bench.start("main", step="waits")]
    await quiet()
    assert steps.log == ["+holds"]
    steps.finish("holds", "waits")
    await asyncio.gather(*calls)
    assert steps.log == ["+holds", "-holds", "+waits", "-waits"]


async def test_the_policies_of_the_user_hold_for_a_fallback_too() -> None:
    def refuse(call: ToolCall) -> ToolResult | None:
        seen.append(call.name)
        denied = ToolResult(status=ResultStatus.DENIED, message="No.")
        return denied if call.name == "forbidden" else None

    seen: list[str] = []
    bench = Bench(
        tool_that("main", OSError, fallback_tools=["forbidden", "spare"]),
        tool_that("forbidden", AssertionError),
        tool_that("spare", 7),
        around=[Before(refuse)],
    )
    assert (await bench.run("main", n=1)).result == 7
    assert seen == ["main", "forbidden", "spare"]


async def test_the_settings_name_other_fallbacks_or_none() -> None:
    made = (tool_that("main", OSError, fallback_tools=["own"]), tool_that("own", 1))
    other = Bench(*made, tool_that("set", 2), tools={"main": {"fallback_tools": ["set"]}})
    none = Bench(*made, tools={"main": {"fallback_tools": []}})
    assert (await other.run("main", n=1)).result == 2
    assert (await none.run("main", n=1)).to_response() == DOWN


@pytest.mark.parametrize(
    "outcome",
    [OSError("perhaps"), ToolError("Declined.", retryable=True), ToolResult.failed("Busy.")],
    ids=repr,
)
async def test_no_fallback_follows_a_side_effect_that_does_not_say_that_nothing_happened(
    outcome: Any,
) -> None:
    bench = Bench(
        tool_that("main", outcome, fallback_tools=["spare"], effect="once"),
        tool_that("spare", AssertionError),
    )
    assert (await bench.run("main", n=1)).status == "failed"
    assert bench.told("tool_fallback") == []
