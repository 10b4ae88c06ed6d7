"""Only so many calls run at once; who matters more goes first."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leonidas_tools import Settings, ToolConfiguration, ToolContext, tool
from leonidas_tools.policies.limit import Limiter
from tests.policies.bench import Bench, Steps, quiet
from tests.policies.clock import in_no_time

PRIORITIES = ("critical", "high", "normal", "low", "background")


def bench(steps: Steps, **settings: Any) -> Bench:
    reads = [
        steps.tool(priority, priority=priority, effect="read", lane=priority)
        for priority in PRIORITIES
    ]
    tidy = steps.tool("tidy", priority="background", effect="once", lane="tidy")
    return Bench(*reads, tidy, **settings)


async def test_only_so_many_calls_run_at_once() -> None:
    steps = Steps()
    made = bench(steps, policies={"concurrency": 2})
    calls = [made.start(name, step=name) for name in ("normal", "high", "low")]
    await quiet()
    assert steps.log == ["+normal", "+high"]
    steps.finish("high", "normal", "low")
    await asyncio.gather(*calls)
    assert sorted(steps.log[2:4]) == ["-high", "-normal"]
    assert steps.log[4:] == ["+low", "-low"]


async def test_without_a_limit_any_number_runs() -> None:
    steps = Steps()
    made = bench(steps)
    calls = [made.start("normal", step=str(n)) for n in range(500)]
    await quiet()
    assert len(steps.log) == 500
    steps.finish(*(str(n) for n in range(500)))
    await asyncio.gather(*calls)


async def test_who_waits_goes_on_by_priority_and_then_in_the_order_of_arrival() -> None:
    steps = Steps()
    made = bench(steps, policies={"concurrency": 1})
    calls = [made.start("low", step="first")]
    for name in ("background", "low", "normal", "high", "normal 2", "high 2"):
        calls.append(made.start(name.split()[0], step=name))
        await quiet()
    steps.finish("first", "background", "low", "normal", "high", "normal 2", "high 2")
    await asyncio.gather(*calls)
    began = [entry[1:] for entry in steps.log if entry[0] == "+"]
    assert began == ["first", "high", "high 2", "normal", "normal 2", "low", "background"]


async def test_a_priority_of_the_settings_replaces_the_tools_own() -> None:
    steps = Steps()
    made = bench(steps, policies={"concurrency": 1}, tools={"low": {"priority": "critical"}})
    calls = [made.start("normal", step="a"), made.start("low", step="b")]
    await quiet()
    assert steps.log == ["+a", "+b"]
    steps.finish("a", "b")
    await asyncio.gather(*calls)


async def test_critical_calls_never_wait() -> None:
    steps = Steps()
    made = bench(steps, policies={"concurrency": 1})
    calls = [made.start("normal", step="a")]
    calls += [made.start("critical", step=step) for step in "bc"]
    calls += [made.start("high", step="d")]
    await quiet()
    assert steps.log == ["+a", "+b", "+c"]
    steps.finish("a", "b")
    await quiet()
    assert steps.log == ["+a", "+b", "+c", "-a", "-b"], "three are in one place: two too many"
    steps.finish("c", "d")
    await asyncio.gather(*calls)
    assert steps.log[5:] == ["-c", "+d", "-d"]


async def test_a_critical_call_preempts_a_background_read_which_then_runs_again() -> None:
    steps = Steps()
    made = bench(steps, policies={"concurrency": 1})
    background = made.start("background", step="slow")
    await quiet()
    critical = made.start("critical", step="urgent")
    await quiet()
    assert steps.log == ["+slow", "+urgent", "!slow"]
    steps.finish("slow")
    await quiet()
    assert not background.done()
    steps.finish("urgent")
    assert [(await call).result for call in (critical, background)] == ["urgent", "slow"]
    assert steps.log[3:] == ["-urgent", "+slow", "-slow"]
    assert made.told("tool_retry") == [{"attempt": 1, "delay_seconds": 0, "error": "preempted"}]
    assert made.ends == [("critical", "tool_complete"), ("background", "tool_complete")]


async def test_each_critical_call_preempts_one_and_only_where_there_is_no_place() -> None:
    steps = Steps()
    made = bench(steps, policies={"concurrency": 3})
    calls = [made.start("background", step=step) for step in ("b1", "b2")]
    await quiet()
    for step, stopped in (("c1", 0), ("c2", 1), ("c3", 2), ("c4", 2)):
        calls.append(made.start("critical", step=step))
        await quiet()
        assert sum(entry[0] == "!" for entry in steps.log) == stopped, step
    steps.finish("b1", "b2", "c1", "c2", "c3", "c4")
    assert all(result.ok for result in await asyncio.gather(*calls))


@pytest.mark.parametrize("name", ["tidy", "low"])
async def test_what_takes_effect_or_is_not_of_the_background_is_never_preempted(name: str) -> None:
    steps = Steps()
    made = bench(steps, policies={"concurrency": 1})
    calls = [made.start(name, step="a"), made.start("critical", step="b")]
    await quiet()
    assert steps.log == ["+a", "+b"]
    steps.finish("a", "b")
    await asyncio.gather(*calls)
    assert "!a" not in steps.log


async def test_who_has_ended_is_not_preempted() -> None:
    steps = Steps()
    made = bench(steps, policies={"concurrency": 1})
    steps.finish("a", "c")
    await made.run("background", step="a")
    normal = made.start("normal", step="b")
    await quiet()
    assert (await made.run("critical", step="c")).ok
    steps.finish("b")
    assert (await normal).ok


async def test_who_has_ended_is_not_preempted_in_the_place_of_who_has_not() -> None:
    steps = Steps()
    made = bench(steps, policies={"concurrency": 2})
    first = made.start("background", step="a")
    await quiet()
    steps.finish("b")
    await made.run("background", step="b")
    calls = [first, made.start("normal", step="c"), made.start("critical", step="d")]
    await quiet()
    assert steps.log == ["+a", "+b", "-b", "+c", "+d", "!a"]
    steps.finish("a", "c", "d")
    await asyncio.gather(*calls)


async def test_a_call_within_a_call_has_no_place_that_it_could_be_made_to_leave() -> None:
    steps, ran = Steps(), []

    @tool(effect="read", priority="background", lane="inner")
    async def inner() -> None:
        ran.append("inner")
        await steps.take("inner")

    @tool(effect="read", priority="background", lane="outer")
    async def outer() -> None:
        ran.append("outer")
        await made.run("inner")

    critical = steps.tool("critical", priority="critical", lane="critical")
    made = Bench(inner, outer, critical, policies={"concurrency": 1})
    calls = [made.start("outer")]
    await quiet()
    calls.append(made.start("critical", step="urgent"))
    await quiet()
    steps.finish("urgent", "inner")
    await asyncio.gather(*calls)
    assert ran == ["outer", "inner", "outer", "inner"]
    retried = [event.call.name for event in made.events if event.kind == "tool_retry"]
    assert retried == ["outer"]


async def test_a_cancelled_call_that_is_still_tidying_up_does_not_run_again_when_preempted() -> (
    None
):
    ran: list[str] = []
    tidied = asyncio.Event()

    @tool(effect="read", priority="background", lane="tidies")
    async def tidies() -> None:
        ran.append("tidies")
        try:
            await asyncio.Event().wait()
        finally:
            while not tidied.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await tidied.wait()

    steps = Steps()
    critical = steps.tool("critical", priority="critical", lane="critical")
    made = Bench(tidies, critical, policies={"concurrency": 1})
    background = made.start("tidies")
    await quiet()
    background.cancel()
    await quiet()
    steps.finish("urgent")
    await made.run("critical", step="urgent")
    tidied.set()
    await quiet()
    assert (ran, made.ends[1:]) == (["tidies"], [("tidies", "tool_cancel")])


async def test_a_preempted_call_that_is_cancelled_does_not_run_again() -> None:
    steps = Steps()
    made = bench(steps, policies={"concurrency": 1})
    background = made.start("background", step="slow")
    await quiet()
    critical = made.start("critical", step="urgent")
    await quiet()
    background.cancel()
    steps.finish("urgent")
    await critical
    await quiet()
    assert steps.log == ["+slow", "+urgent", "!slow", "-urgent"]
    assert sorted(made.ends) == [("background", "tool_cancel"), ("critical", "tool_complete")]


async def test_a_call_is_cancelled_although_it_is_being_preempted() -> None:
    steps = Steps()
    made = bench(steps, policies={"concurrency": 1})
    background = made.start("background", step="slow")
    await quiet()
    critical = made.start("critical", step="urgent")
    while "+urgent" not in steps.log:
        await asyncio.sleep(0)
    background.cancel()
    steps.finish("urgent")
    await critical
    await quiet()
    assert steps.log.count("+slow") == 1
    assert ("background", "tool_cancel") in made.ends


@pytest.mark.parametrize("until_seconds", [10.1, 100])
@pytest.mark.parametrize("covers", ["timeout_seconds", "deadline_seconds"])
@in_no_time
async def test_who_is_out_of_time_does_not_run_again_when_a_critical_call_needs_a_place(
    covers: str, until_seconds: float
) -> None:
    ran: list[str] = []
    stopped = asyncio.Event()

    @tool(effect="read", priority="background", lane="stubborn", **{covers: 10})
    async def stubborn() -> None:
        ran.append("stubborn")
        while not stopped.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await stopped.wait()
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    steps = Steps()
    normal = steps.tool("normal", lane="normal")
    critical = steps.tool("critical", priority="critical", lane="critical")
    made = Bench(stubborn, normal, critical, policies={"concurrency": 1})
    calls = [made.start("stubborn")]
    await asyncio.sleep(until_seconds)  # in its last half second, or left behind
    calls += [made.start("normal", step="a"), made.start("critical", step="b")]
    await quiet()
    assert "+b" in steps.log
    stopped.set()
    await quiet()
    steps.finish("a", "b")
    assert [(await call).status for call in calls] == ["timeout", "ok", "ok"]
    await quiet()
    assert (ran, made.told("tool_retry")) == (["stubborn"], [])


@in_no_time
async def test_who_was_left_behind_is_not_preempted_in_the_place_of_who_runs() -> None:
    steps = Steps()
    stopped = asyncio.Event()

    @tool(effect="read", priority="background", lane="stubborn", timeout_seconds=10)
    async def stubborn() -> None:
        for _ in range(3):
            with contextlib.suppress(asyncio.CancelledError):
                await stopped.wait()

    names = ("critical", "normal", "background")
    tools = [steps.tool(name, priority=name, effect="read", lane=name) for name in names]
    made = Bench(stubborn, *tools, policies={"concurrency": 2})
    calls = [made.start("background", step="a")]
    await quiet()
    assert (await made.run("stubborn")).status == "timeout"
    calls += [made.start("normal", step="b"), made.start("critical", step="c")]
    await quiet()
    assert steps.log == ["+a", "+b", "+c", "!a"]
    stopped.set()
    steps.finish("a", "b", "c")
    await asyncio.gather(*calls)


@in_no_time
async def test_a_preempted_call_has_all_its_time_again() -> None:
    steps = Steps()
    made = bench(steps, policies={"concurrency": 1}, defaults={"timeout": "10s"})
    background = made.start("background", step="slow")
    await asyncio.sleep(8)
    critical = made.start("critical", step="urgent")
    await asyncio.sleep(8)
    steps.finish("urgent")
    await asyncio.sleep(8)
    steps.finish("slow")
    assert [(await call).status for call in (critical, background)] == ["ok", "ok"]


async def test_a_preempted_tool_takes_back_what_it_began() -> None:
    steps = Steps()

    @tool(effect="read", priority="background", lane="counts")
    async def counts(ctx: ToolContext) -> None:
        ctx.undo(steps.log.append, "undone")
        await steps.take("counts")

    made = Bench(
        counts,
        steps.tool("critical", priority="critical", lane="critical"),
        policies={"concurrency": 1},
    )
    background = made.start("counts")
    await quiet()
    critical = made.start("critical", step="urgent")
    await quiet()
    steps.finish("urgent", "counts")
    assert [(await call).status for call in (critical, background)] == ["ok", "ok"]
    assert steps.log.count("undone") == 1


async def test_a_tool_has_a_limit_of_its_own() -> None:
    steps = Steps()
    made = bench(steps, tools={"normal": {"concurrency": 1}}, policies={"concurrency": 5})
    calls = [made.start("normal", step="a"), made.start("normal", step="b")]
    calls.append(made.start("low", step="c"))
    await quiet()
    assert steps.log == ["+a", "+c"]
    steps.finish("a", "b", "c")
    await asyncio.gather(*calls)


async def test_who_waits_for_the_tools_own_place_keeps_no_other_from_running() -> None:
    steps = Steps()
    made = bench(steps, tools={"normal": {"concurrency": 1}}, policies={"concurrency": 2})
    calls = [made.start("normal", step=step) for step in "abc"]
    calls.append(made.start("low", step="d"))
    await quiet()
    assert steps.log == ["+a", "+d"]
    steps.finish(*"abcd")
    await asyncio.gather(*calls)


async def test_a_limit_that_is_raised_lets_those_in_who_wait() -> None:
    steps = Steps()
    made = bench(steps, tools={"normal": {"concurrency": 1}})
    calls = [made.start("normal", step="a"), made.start("normal", step="b")]
    await quiet()
    made.executor.apply(Settings(tools={"normal": ToolConfiguration(concurrency=3)}))
    calls.append(made.start("normal", step="c"))
    await quiet()
    assert sorted(steps.log) == ["+a", "+b", "+c"]
    steps.finish("a", "b", "c")
    await asyncio.gather(*calls)


async def test_who_is_cancelled_while_waiting_takes_no_place() -> None:
    steps = Steps()
    made = bench(steps, policies={"concurrency": 1})
    first, waiting = made.start("normal", step="a"), made.start("normal", step="b")
    await quiet()
    waiting.cancel()
    await quiet()
    steps.finish("a", "c")
    assert [(await first).result, (await made.run("normal", step="c")).result] == ["a", "c"]
    assert steps.log == ["+a", "-a", "+c", "-c"]


async def test_a_failed_call_gives_its_place_back() -> None:
    async def failing() -> None:
        raise ValueError

    made = Bench(failing, policies={"concurrency": 1})
    async with asyncio.timeout(5):
        assert [(await made.run("failing")).status for _ in range(3)] == ["failed"] * 3


# --- against a model --------------------------------------------------------------------------


@given(
    places=st.integers(1, 3),
    ops=st.lists(
        st.one_of(
            st.tuples(st.just("come"), st.integers(1, 5)),
            st.tuples(st.sampled_from(["leave", "cancel", "both"]), st.integers(0, 20)),
        ),
        max_size=40,
    ),
)
@settings(deadline=None)
def test_a_limiter_admits_whom_its_model_admits(places: int, ops: list[tuple[str, int]]) -> None:
    asyncio.run(_compare(places, ops))


async def _compare(places: int, ops: list[tuple[str, int]]) -> None:
    limiter = Limiter(places)
    waiting: dict[int, asyncio.Task[None]] = {}
    inside: set[int] = set()
    model_waiting: list[tuple[int, int]] = []
    for number, (op, value) in enumerate(ops):
        if op == "come":
            waiting[number] = asyncio.create_task(limiter.enter(value))
            if value == 1:
                inside.add(number)
            else:
                model_waiting.append((value, number))
        if op in ("leave", "both") and inside:
            gone = sorted(inside)[value % len(inside)]
            inside.remove(gone)
            del waiting[gone]
            limiter.leave()
        if op in ("cancel", "both") and model_waiting:
            # With `both`, the first in line is cancelled at the moment when its turn has come.
            which = model_waiting.index(min(model_waiting)) if op == "both" else value
            _, gone = model_waiting.pop(which % len(model_waiting))
            waiting.pop(gone).cancel()
        while model_waiting and len(inside) < places:
            inside.add(min(model_waiting)[1])
            model_waiting.remove(min(model_waiting))
        await quiet()
        assert {number for number, task in waiting.items() if task.done()} == inside
        assert limiter.taken == len(inside)
    for task in waiting.values():
        task.cancel()
    await asyncio.gather(*waiting.values(), return_exceptions=True)
