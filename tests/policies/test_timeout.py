"""No call takes longer than it may, whatever its tool does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import pytest

from leonidas_tools import RetryableError, Tool, ToolContext, tool
from tests.policies.bench import Bench, Steps, quiet
from tests.policies.clock import in_no_time, now


async def hangs() -> None:
    await asyncio.Event().wait()


class Stubborn:
    """A tool that goes on although it is stopped, until the test lets it end."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.stopped = 0
        self.ended = asyncio.Event()

    async def __call__(self) -> str:
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                self.stopped += 1
        self.ended.set()
        return "at last"


@pytest.mark.parametrize("effect", ["read", "idempotent"])
@in_no_time
async def test_an_attempt_that_takes_too_long_is_stopped(effect: str) -> None:
    bench = Bench(Tool(hangs, effect=effect, timeout_seconds=2.5))
    assert (await bench.run("hangs")).to_response() == {
        "status": "timeout",
        "message": "The tool 'hangs' did not finish within 2.5 seconds.",
        "retryable": True,
        "reason_code": "attempt_timeout",
    }
    assert now() == 2.5
    assert bench.ends == [("hangs", "tool_failed")]


@in_no_time
async def test_of_a_side_effect_that_takes_too_long_the_outcome_is_unknown() -> None:
    assert (await Bench(Tool(hangs, timeout_seconds=60)).run("hangs")).to_response() == {
        "status": "unknown_outcome",
        "message": "The tool 'hangs' did not finish within 60 seconds. It is not known "
        "whether it took effect: do not call it again before you have "
        "checked.",
        "retryable": False,
        "reason_code": "attempt_timeout",
    }


@pytest.mark.parametrize(
    ("own", "settings", "seconds"),
    [
        (None, {}, 30),
        (None, {"policies": {"default_timeout": "7s"}}, 7),
        (None, {"defaults": {"timeout": "5s"}}, 5),
        (3, {}, 3),
        (3, {"policies": {"default_timeout": "7s"}}, 3),
        (3, {"tools": {"hangs": {"timeout": "200ms"}}}, 0.2),
    ],
)
@in_no_time
async def test_the_settings_say_how_long_before_the_tool_does(
    own: float | None, settings: dict[str, Any], seconds: float
) -> None:
    await Bench(Tool(hangs, effect="read", timeout_seconds=own), **settings).run("hangs")
    assert now() == pytest.approx(seconds)


@in_no_time
async def test_calls_that_begin_at_different_times_each_have_the_whole_of_it() -> None:
    ended: list[float] = []

    async def one(delay: float) -> None:
        await asyncio.sleep(delay)
        await bench.run("hangs")
        ended.append(now() - delay)

    bench = Bench(Tool(hangs, effect="read", timeout_seconds=10))
    await asyncio.gather(*(one(delay) for delay in (0, 1, 4, 9, 9, 25)))
    assert ended == [pytest.approx(10)] * 6


@in_no_time
async def test_a_call_that_ends_in_time_is_left_alone_and_so_is_the_one_after() -> None:
    async def waits(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    bench = Bench(Tool(waits, effect="read", timeout_seconds=10))
    results = [(await bench.run("waits", seconds=seconds)).status for seconds in (9, 9, 11, 9)]
    assert results == ["ok", "ok", "timeout", "ok"]


# --- the deadline of a whole call -------------------------------------------------------------


@in_no_time
async def test_a_deadline_covers_the_waits_and_attempts_of_a_call() -> None:
    async def flaky() -> None:
        await asyncio.sleep(4)
        raise RetryableError("Busy.")

    made = Tool(flaky, effect="once", timeout_seconds=5, deadline_seconds=10, retry_attempts=20)
    bench = Bench(made)
    assert (await bench.run("flaky")).to_response() == {
        "status": "unknown_outcome",
        "message": "The tool 'flaky' did not finish within 10 seconds. It is not known "
        "whether it took effect: do not call it again before you have "
        "checked.",
        "retryable": False,
        "reason_code": "call_timeout",
    }
    assert now() == 10
    assert len(bench.told("tool_retry")) == 2


@in_no_time
async def test_a_deadline_between_two_attempts_of_a_side_effect_leaves_no_doubt() -> None:
    async def flaky() -> None:
        raise RetryableError("Busy.")

    settings = {"retry_delay": "10s", "deadline": "2s"}
    result = await Bench(flaky, defaults=settings).run("flaky")
    assert (result.status, result.reason_code, result.retryable) == (
        "timeout",
        "call_timeout",
        True,
    )
    assert now() == 2


@in_no_time
async def test_a_deadline_covers_the_wait_for_a_lane_and_for_a_place() -> None:
    steps = Steps()
    bench = Bench(
        steps.tool("holds", timeout_seconds=100, lane="lane"),
        steps.tool("waits", deadline_seconds=3, lane="lane"),
        steps.tool("waits_elsewhere", deadline_seconds=3, lane="elsewhere"),
        policies={"concurrency": 1},
    )
    holding = bench.start("holds", step="h")
    await quiet()
    for name in ("waits", "waits_elsewhere"):
        result = await bench.run(name, step="never")
        assert (result.status, result.reason_code) == ("timeout", "call_timeout")
    assert now() == 6
    steps.finish("h", "after")
    assert (await holding).ok
    assert (await bench.run("waits", step="after")).result == "after"
    assert steps.log == ["+h", "-h", "+after", "-after"]


@in_no_time
async def test_an_attempt_may_run_out_of_time_within_the_deadline_and_be_repeated() -> None:
    made = Tool(hangs, effect="read", timeout_seconds=3, deadline_seconds=100, retry_attempts=2)
    result = await Bench(made).run("hangs")
    assert result.reason_code == "attempt_timeout"
    assert 9 < now() < 10


@in_no_time
async def test_the_deadline_of_a_call_ends_also_one_that_stands_in_for_it() -> None:
    ran: list[str] = []

    @tool(effect="read", deadline_seconds=2, fallback_tools=["slow", "next"], retry_attempts=0)
    async def first() -> None:
        raise OSError

    @tool(effect="read", deadline_seconds=50)
    async def slow() -> None:
        ran.append("slow")
        await asyncio.Event().wait()

    @tool(effect="read", deadline_seconds=50)
    async def next() -> None:  # noqa: A001 - a tool's name
        ran.append("next")

    result = await Bench(first, slow, next).run("first")
    assert result.to_response() == {
        "status": "timeout",
        "message": "The tool 'first' did not finish within 2 seconds.",
        "retryable": True,
        "reason_code": "call_timeout",
    }
    assert (now(), ran) == (2, ["slow"])


# --- tools that do not stop -------------------------------------------------------------------


@in_no_time
async def test_a_tool_that_ignores_being_stopped_is_left_behind_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stubborn = Stubborn()
    bench = Bench(Tool(stubborn, name="stubborn", effect="read", timeout_seconds=2))
    with caplog.at_level(logging.WARNING):
        result = await bench.run("stubborn")
    assert (result.status, now(), stubborn.stopped) == ("timeout", 2.5, 1)
    assert [record.getMessage() for record in caplog.records] == [
        "The tool 'stubborn' still runs after it was stopped: it ignores cancellation"
    ]
    stubborn.released.set()
    await stubborn.ended.wait()
    await quiet()
    assert bench.ends == [("stubborn", "tool_failed")]


@in_no_time
async def test_who_waits_for_an_abandoned_call_goes_on() -> None:
    stubborn, steps = Stubborn(), Steps()
    bench = Bench(
        Tool(stubborn, name="stubborn", timeout_seconds=2, lane="shared"),
        steps.tool("next", lane="shared"),
        policies={"concurrency": 1},
    )
    calls = [bench.start("stubborn"), bench.start("next", step="a")]
    await calls[0]
    await quiet()
    assert steps.log == ["+a"]
    waiting = bench.start("next", step="b")
    stubborn.released.set()  # its end must not free the lane and the place a second time
    await stubborn.ended.wait()
    await quiet()
    assert steps.log == ["+a"]
    steps.finish("a", "b")
    await asyncio.gather(*calls, waiting)
    assert steps.log == ["+a", "-a", "+b", "-b"]


@in_no_time
async def test_nothing_more_is_tried_for_an_abandoned_call() -> None:
    ran: list[str] = []

    @tool(effect="read", timeout_seconds=2, retry_attempts=3, fallback_tools=["other"])
    async def stubborn() -> None:
        ran.append("stubborn")
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await go_on.wait()
        raise OSError

    @tool(effect="read")
    async def other() -> None:
        ran.append("other")

    go_on = asyncio.Event()
    bench = Bench(stubborn, other)
    assert (await bench.run("stubborn")).status == "timeout"
    go_on.set()
    await asyncio.sleep(100)
    assert ran == ["stubborn"]
    assert bench.told("tool_retry") == bench.told("tool_fallback") == []


@in_no_time
async def test_a_tool_that_cleans_up_in_time_is_not_left_behind() -> None:
    @tool(effect="read", timeout_seconds=2)
    async def tidies() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.4)

    result = await Bench(tidies).run("tidies")
    assert result.reason_code == "attempt_timeout"
    assert now() == pytest.approx(2.4)


@in_no_time
async def test_a_tool_that_answers_although_stopped_has_its_answer() -> None:
    @tool(effect="read", timeout_seconds=2)
    async def partly() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "what there is so far"
        return "never"

    bench = Bench(partly)
    assert (await bench.run("partly")).result == "what there is so far"
    assert (await bench.run("partly")).result == "what there is so far"


@in_no_time
async def test_a_tools_own_timeouts_are_its_own() -> None:
    @tool(effect="read", timeout_seconds=10, retry_attempts=0)
    async def asks(seconds: float) -> str:
        try:
            async with asyncio.timeout(seconds):
                await asyncio.Event().wait()
        except TimeoutError:
            return "nobody there"
        return "never"

    bench = Bench(asks)
    assert (await bench.run("asks", seconds=1)).result == "nobody there"
    assert (await bench.run("asks", seconds=20)).status == "timeout"


@in_no_time
async def test_the_context_of_a_call_knows_that_its_time_is_up() -> None:
    seen: list[bool] = []

    @tool(effect="read", timeout_seconds=2)
    async def looks(ctx: ToolContext) -> None:
        seen.append(ctx.cancelled)
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(ctx.cancelled)

    await Bench(looks).run("looks")
    assert seen == [False, True]


@in_no_time
async def test_a_cancellation_after_the_time_is_up_changes_nothing() -> None:
    stubborn = Stubborn()
    bench = Bench(Tool(stubborn, name="stubborn", effect="read", timeout_seconds=2))
    call = bench.start("stubborn")
    await asyncio.sleep(2.2)
    call.cancel()
    await asyncio.sleep(10)
    assert bench.ends == [("stubborn", "tool_cancel")]
    stubborn.released.set()
    await quiet()
    assert bench.ends == [("stubborn", "tool_cancel")]
