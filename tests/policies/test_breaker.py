"""A tool that keeps failing is left alone; then one call tries whether it works again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from leonidas_tools import AdvancedToolProcessor, Tool, ToolResult, tool
from leonidas_tools.errors import ToolError
from leonidas_tools.policies.breaker import Breaker, BreakerLimits, BreakerState
from tests.policies.clock import in_no_time
from tests.policies.runs import Stage, begin, ended, settled, tools_of

QUICK = {"error_rate": 0.5, "window": "60s", "min_calls": 4, "open_for": "30s"}


class Flaky:
    """A service that works or does not, as the test says."""

    def __init__(self, **options: Any) -> None:
        self.outcome: Any = "fine"
        self.runs = 0

        async def ask() -> Any:
            self.runs += 1
            if isinstance(self.outcome, BaseException):
                raise self.outcome
            return self.outcome

        self.tool = Tool(ask, **{"effect": "read", "retry_attempts": 0, "polling": True, **options})


async def run(tools: AdvancedToolProcessor, times: int, name: str = "ask") -> list[str]:
    return [(await tools.execute(name)).status.value for _ in range(times)]


@in_no_time
async def test_it_opens_refuses_tries_and_closes() -> None:
    flaky = Flaky()
    tools = tools_of(flaky.tool, policies={"breaker": QUICK})
    assert await run(tools, 2) == ["ok"] * 2
    flaky.outcome = ValueError()
    assert await run(tools, 5) == ["failed"] * 2 + ["unavailable"] * 3
    assert flaky.runs == 4
    await asyncio.sleep(18.5)
    assert (await tools.execute("ask")).to_response() == {
        "status": "unavailable",
        "message": "The tool 'ask' keeps failing and is not called for a while.",
        "retryable": True,
        "retry_hint": "Try again in 12 seconds.",
        "reason_code": "circuit_open",
    }
    await asyncio.sleep(12)
    assert await run(tools, 2) == ["failed", "unavailable"]
    await asyncio.sleep(31)
    flaky.outcome = "fine"
    assert await run(tools, 3) == ["ok"] * 3
    assert tools.executor.breakers == {"ask": "closed"}


@in_no_time
async def test_only_one_call_tries() -> None:
    stage = Stage()
    flaky = Flaky(name="other")

    async def ask(name: str) -> str:
        if name == "fails":
            raise ValueError
        return await stage.play(name)

    tools = tools_of(
        tool(effect="read", retry_attempts=0)(ask), flaky.tool, policies={"breaker": QUICK}
    )
    for _ in range(4):
        await tools.execute("ask", {"name": "fails"})
    await asyncio.sleep(30)
    first, second = begin(tools, "ask", name="first"), begin(tools, "ask", name="second")
    await stage.until_on("first")
    await settled()
    assert second.done()
    assert second.result().status == "unavailable"
    assert second.result().retry_hint == "Try again in 1 seconds."
    assert tools.executor.breakers["ask"] == "half_open"
    stage.let_go("first", "third")
    assert await ended(first) == ["first"]
    assert await ended(begin(tools, "ask", name="third")) == ["third"]


@in_no_time
async def test_a_call_that_was_left_behind_lets_another_try() -> None:
    fails, stopped = True, asyncio.Event()

    async def ask() -> str:
        if fails:
            raise ValueError
        for _ in range(2):
            with contextlib.suppress(asyncio.CancelledError):
                await stopped.wait()
        return "at last"

    asks = Tool(ask, effect="read", retry_attempts=0, polling=True, timeout_seconds=5)
    tools = tools_of(asks, policies={"breaker": QUICK})
    assert await run(tools, 4) == ["failed"] * 4
    fails = False
    await asyncio.sleep(31)
    assert await run(tools, 2) == ["timeout", "unavailable"]
    await asyncio.sleep(31)
    assert await run(tools, 2) == ["timeout", "unavailable"]
    await asyncio.sleep(31)
    stopped.set()
    assert await run(tools, 2) == ["ok", "ok"]


@in_no_time
async def test_a_call_that_was_cancelled_lets_another_try() -> None:
    stage = Stage()

    async def ask(name: str) -> str:
        if name == "fails":
            raise ValueError
        return await stage.play(name)

    tools = tools_of(tool(effect="read", retry_attempts=0)(ask), policies={"breaker": QUICK})
    for _ in range(4):
        await tools.execute("ask", {"name": "fails"})
    await asyncio.sleep(30)
    first = begin(tools, "ask", name="first")
    await stage.until_on("first")
    first.cancel()
    await stage.until(lambda: not stage.on)
    stage.let_go("second")
    assert await ended(begin(tools, "ask", name="second")) == ["second"]


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        (ValueError(), True),
        (ToolError("Down.", status="unavailable"), True),
        (ToolError("No."), True),
        (ToolResult(status="timeout"), True),
        (ToolResult(status="unknown_outcome"), True),
        (ToolError("No such city.", status="not_found"), False),
        (ToolError("Wrong.", status="invalid_argument"), False),
        (ToolError("No.", status="denied"), False),
        (ToolResult.no_results("Nothing."), False),
    ],
)
async def test_what_the_tool_fails_at_counts_and_the_models_mistakes_do_not(
    outcome: Any, counts: bool
) -> None:
    flaky = Flaky()
    tools = tools_of(flaky.tool, policies={"breaker": QUICK})
    flaky.outcome = outcome
    await run(tools, 10)
    assert tools.executor.breakers == {"ask": "open" if counts else "closed"}


async def test_bad_arguments_never_reach_it() -> None:
    tools = tools_of(Flaky().tool, policies={"breaker": QUICK})
    for _ in range(10):
        await tools.execute("ask", {"no": 1})
    assert tools.executor.breakers == {"ask": "closed"}


async def test_time_that_runs_out_counts() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    tools = tools_of(
        tool(effect="read", retry_attempts=0, timeout_seconds=0.01, polling=True)(hang),
        policies={"breaker": QUICK},
    )
    assert await run(tools, 5, "hang") == ["timeout"] * 4 + ["unavailable"]


@pytest.mark.parametrize("effect", ["read", "once"])
async def test_another_tool_does_the_work_meanwhile(effect: str) -> None:
    flaky = Flaky(effect=effect, fallback_tools=["spare"])

    def spare() -> str:
        return "spare"

    tools = tools_of(flaky.tool, spare, policies={"breaker": QUICK})
    flaky.outcome = ValueError()
    await run(tools, 4)
    result = await tools.execute("ask")
    assert (result.status, result.result, flaky.runs) == ("ok", "spare", 4)


async def test_a_spare_tool_has_a_breaker_too() -> None:
    first = Flaky(fallback_tools=["spare"])
    spare = Flaky(name="spare")
    tools = tools_of(first.tool, spare.tool, policies={"breaker": QUICK})
    first.outcome = spare.outcome = ValueError()
    await run(tools, 8)
    assert (first.runs, spare.runs) == (4, 4)
    assert tools.executor.breakers == {"ask": "open", "spare": "open"}


@pytest.mark.parametrize(
    ("policies", "own", "watched"),
    [
        ({}, {}, False),
        ({"breaker": QUICK}, {}, True),
        ({"breaker": QUICK}, {"breaker": False}, False),
        ({}, {"breaker": True}, True),
    ],
)
async def test_the_settings_say_who_is_watched(policies: Any, own: Any, watched: bool) -> None:
    tools = tools_of(Flaky().tool, policies=policies, tools={"ask": own})
    await run(tools, 1)
    assert tools.executor.breakers == ({"ask": "closed"} if watched else {})


async def test_health_metrics_and_the_page_tell_of_it(caplog) -> None:
    flaky = Flaky()
    tools = tools_of(flaky.tool, policies={"breaker": QUICK})
    flaky.outcome = ValueError()
    await run(tools, 4)
    health = tools.monitor.health()
    assert health["breakers"] == {"ask": "open"}
    assert "The tool 'ask' keeps failing and is not called for a while." in health["reasons"]
    assert tools.monitor.metrics()["breakers"] == {"ask": "open"}
    page = tools.monitor.prometheus().exposition().decode()
    assert 'leonidas_tool_breaker_open{tool="ask"} 1.0' in page
    assert "is not called for 30 s" in caplog.text


async def test_changed_numbers_hold_at_once_and_keep_the_state() -> None:
    flaky = Flaky()
    tools = tools_of(flaky.tool, policies={"breaker": QUICK})
    flaky.outcome = ValueError()
    await run(tools, 3)
    tools.executor.apply(
        tools.settings.current.model_copy(
            update={
                "policies": tools.settings.current.policies.model_copy(
                    update={"breaker": type(tools.settings.current.policies.breaker)(min_calls=5)}
                )
            }
        )
    )
    assert await run(tools, 3) == ["failed"] * 2 + ["unavailable"]


class Machine(RuleBasedStateMachine):
    """The breaker beside a slow and simple one that keeps everything."""

    LIMITS = BreakerLimits(error_rate=0.5, window_seconds=10, min_calls=3, open_seconds=5)

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(self.LIMITS)
        self.now = 0.0
        self.state = "closed"
        self.since = 0.0
        self.outcomes: list[tuple[float, bool]] = []
        self.period = 0
        self.trying = False
        self.admitted: list[tuple[int | None, int]] = []

    @rule(seconds=st.integers(0, 12))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def a_call_begins(self) -> None:
        if self.state == "open" and self.now >= self.since + 5:
            self.become("half_open")
        allowed = self.state == "closed" or (self.state == "half_open" and not self.trying)
        got = self.breaker.admit(self.now)
        assert (got is not None) == allowed
        if allowed:
            self.trying = self.state == "half_open"
            self.admitted.append((got, self.period))

    @precondition(lambda self: self.admitted)
    @rule(index=st.integers(0), failed=st.none() | st.booleans())
    def a_call_ends(self, index: int, failed: bool | None) -> None:
        admitted, period = self.admitted.pop(index % len(self.admitted))
        self.breaker.ended(admitted, failed=failed, now=self.now)
        if period != self.period:
            return
        if self.state == "half_open":
            self.trying = False
            if failed is not None:
                self.become("open" if failed else "closed")
        elif failed is not None:
            self.outcomes.append((self.now, failed))
            recent = [bad for at, bad in self.outcomes if at > self.now - 10]
            if failed and len(recent) >= 3 and sum(recent) / len(recent) >= 0.5:
                self.become("open")

    def become(self, state: str) -> None:
        self.state, self.since, self.trying = state, self.now, False
        self.outcomes = []
        self.period += 1

    @invariant()
    def both_agree(self) -> None:
        assert self.breaker.state.value == self.state


TestMachine: Callable[..., Any] = Machine.TestCase


def test_of_very_many_calls_the_last_thousand_count() -> None:
    breaker = Breaker(BreakerLimits())
    for number in range(5000):
        breaker.ended(breaker.admit(0.0), failed=number >= 4500, now=0.0)
        assert len(breaker._calls) <= 1000
        assert (breaker.state is BreakerState.OPEN) == (number >= 4999)


def test_what_failed_before_the_last_thousand_does_not_count() -> None:
    breaker = Breaker(BreakerLimits(min_calls=1000))
    for number in range(2500):
        breaker.ended(breaker.admit(0.0), failed=number < 900 and number % 2 == 1, now=0.0)
    for number in range(500):
        assert breaker.state is BreakerState.CLOSED, number
        breaker.ended(breaker.admit(0.0), failed=True, now=0.0)
    assert breaker.state is BreakerState.OPEN
