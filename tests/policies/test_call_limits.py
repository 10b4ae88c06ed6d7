"""A session makes only so many calls: a turn, a minute, in all and at once; none slips through."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools import AdvancedToolProcessor, ToolSession, tool
from leonidas_tools.calls.turns import Turns
from leonidas_tools.policies.call_limits import CallCounts, CallLimit
from tests.policies.clock import in_no_time
from tests.policies.runs import Stage, begin, ended, tools_of
from tests.promises.faults.play import Script, call, cancellation

_numbers = itertools.count()


async def count() -> int:
    return next(_numbers)


async def other() -> int:
    return next(_numbers)


async def run(tools: AdvancedToolProcessor, *names: str, session: Any = None) -> list[str]:
    return [(await tools.execute(name, session=session)).status.value for name in names]


async def test_nothing_is_limited_by_default() -> None:
    tools = tools_of(count)
    assert set(await run(tools, *["count"] * 500)) == {"ok"}


@pytest.mark.parametrize("per", ["turn", "minute", "session"])
async def test_all_tools_together_are_limited(per: str) -> None:
    tools = tools_of(count, other, policies={"calls": {f"per_{per}": 3}})
    assert await run(tools, "count", "other", "count", "other") == ["ok"] * 3 + ["limited"]
    assert await run(tools, "count", session=ToolSession()) == ["ok"]


@pytest.mark.parametrize("per", ["turn", "minute", "session"])
async def test_one_tool_is_limited(per: str) -> None:
    tools = tools_of(count, other, tools={"count": {f"calls_per_{per}": 2}})
    assert await run(tools, *["count", "other"] * 3) == ["ok"] * 4 + ["limited", "ok"]


async def test_the_model_reads_what_is_limited_and_whether_waiting_helps() -> None:
    for per, said in {
        "turn": "per turn of the user",
        "session": "in this conversation",
    }.items():
        tools = tools_of(count, tools={"count": {f"calls_per_{per}": 2}})
        await run(tools, "count", "count")
        assert (await tools.execute("count")).to_response() == {
            "status": "limited",
            "message": f"'count' has reached its limit of 2 calls {said}. "
            "Continue without it, or ask the user.",
            "retryable": False,
            "reason_code": f"calls_per_{per}",
        }


@in_no_time
async def test_a_minute_is_any_sixty_seconds() -> None:
    tools = tools_of(count, policies={"calls": {"per_minute": 2}})
    await run(tools, "count")
    await asyncio.sleep(40)
    assert await run(tools, "count", "count") == ["ok", "limited"]
    refused = await tools.execute("count")
    assert (refused.retryable, refused.retry_hint) == (True, "Call again in 20 seconds.")
    assert refused.message is not None
    assert refused.message.startswith("The limit of 2 tool calls per minute")
    await asyncio.sleep(20)
    assert await run(tools, "count", "count") == ["ok", "limited"]
    assert (await tools.execute("count")).retry_hint == "Call again in 40 seconds."


async def test_a_new_turn_brings_new_calls() -> None:
    tools = tools_of(count, policies={"calls": {"per_turn": 2}})
    assert await run(tools, *["count"] * 3) == ["ok", "ok", "limited"]
    tools.session.get(Turns).next()
    assert await run(tools, *["count"] * 3) == ["ok", "ok", "limited"]


@pytest.mark.parametrize("per", ["turn", "minute", "session"])
async def test_a_refused_call_does_not_count(per: str) -> None:
    limits = {"calls": {f"per_{per}": 3}}
    tools = tools_of(count, other, policies=limits, tools={"count": {"calls_per_turn": 1}})
    got = await run(tools, "count", "count", "count", "other", "other", "other")
    assert got == ["ok", "limited", "limited", "ok", "ok", "limited"]


async def test_critical_tools_are_exempt_and_do_not_count() -> None:
    tools = tools_of(
        tool(priority="critical")(count),
        other,
        policies={"calls": {"per_session": 1}},
        tools={"count": {"calls_per_turn": 1}},
    )
    assert await run(tools, "count", "count", "count", "other", "other") == ["ok"] * 4 + ["limited"]


async def test_calls_at_once_do_not_go_beyond_the_limit() -> None:
    stage, numbers = Stage(), itertools.count()

    async def work() -> str:
        return await stage.play(str(next(numbers)))

    limits = {"calls": {"per_turn": 7}, "loop": {"refuse_at": 0}}
    tools = tools_of(tool(effect="read")(work), policies=limits)
    calls = [begin(tools, "work") for _ in range(50)]
    await stage.until(lambda: len(stage.on) == 7)
    stage.let_go(*map(str, range(50)))
    await ended(*calls)
    statuses = [call.result().status.value for call in calls]
    assert statuses.count("ok") == 7
    assert statuses.count("limited") == 43


async def test_a_result_from_the_cache_costs_no_call() -> None:
    tools = tools_of(
        tool(effect="read", cache_seconds=60)(count), policies={"calls": {"per_session": 1}}
    )
    assert await run(tools, *["count"] * 4) == ["ok"] * 4


async def test_one_that_waits_for_the_call_of_a_session_at_its_limit_runs_its_own() -> None:
    stage = Stage()

    async def read() -> str:
        return await stage.play("read")

    tools = tools_of(
        tool(effect="read", cache_seconds=60)(read), count, policies={"calls": {"per_session": 1}}
    )
    stage.let_go("read")
    poor, rich = ToolSession(), ToolSession()
    await run(tools, "count", session=poor)
    both = await asyncio.gather(
        *(tools.execute("read", session=session) for session in (poor, rich))
    )
    assert [result.status.value for result in both] == ["limited", "ok"]


@given(
    st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.sampled_from("ab")), max_size=80),
    *[st.none() | st.integers(1, 6)] * 3,
)
def test_limits_are_kept_and_no_call_is_refused_in_vain(
    steps: list[tuple[int, bool, str]],
    per_turn: int | None,
    per_minute: int | None,
    per_session: int | None,
) -> None:
    counts, now, turn = CallCounts(), 0, 0
    made: list[tuple[int, int, str]] = []
    for passes, speaks, name in steps:
        now, turn = now + passes, turn + speaks
        own = CallLimit(tool=name, per_turn=per_turn, per_minute=per_minute)
        both = [CallLimit(per_session=per_session, per_minute=4), own]
        refusal = counts.take(both, turn, float(now))
        mine = [(at, t) for at, t, n in made if n == name]
        full = (
            (per_session is not None and len(made) >= per_session)
            or sum(now - at < 60 for at, _, _ in made) >= 4
            or (per_turn is not None and sum(t == turn for _, t in mine) >= per_turn)
            or (per_minute is not None and sum(now - at < 60 for at, _ in mine) >= per_minute)
        )
        assert (refusal is not None) == full
        if refusal is None:
            made.append((now, turn, name))


# --- many calls in a minute ---------------------------------------------------------------------


async def test_a_session_that_calls_very_often_is_logged_once_a_minute_and_counted(caplog) -> None:
    tools = tools_of(count, policies={"calls": {"warn_per_minute": 5}})
    await run(tools, *["count"] * 60)
    busy = tools.monitor.metrics()["system"]["busy_minutes"]
    assert busy in (1, 2)  # the minute may turn while it runs
    said = [r for r in caplog.records if "calls a minute" in r.message]
    assert len(said) == busy
    assert {r.levelno for r in said} == {logging.WARNING}
    assert tools.monitor.health()["status"] == "healthy"


@pytest.mark.parametrize("most", ["off", 60])
async def test_ordinary_sessions_are_not(most: str | int, caplog) -> None:
    tools = tools_of(count, policies={"calls": {"warn_per_minute": most}})
    for _ in range(4):
        await run(tools, *["count"] * 30, session=ToolSession())
    assert tools.monitor.metrics()["system"]["busy_minutes"] == 0
    assert "a minute" not in caplog.text


REFUSED = {
    "status": "limited",
    "message": "1024 tool calls of this conversation run or wait already. Make no more calls until "
    "some of them have ended.",
    "retryable": True,
    "retry_hint": "Call again when other calls have ended.",
    "reason_code": "calls_at_once",
}


class Gate:
    """A tool whose calls wait until the gate opens, and those that have come to it."""

    def __init__(self, **options: Any) -> None:
        self.open = asyncio.Event()
        self.came: list[int] = []
        self.left: list[int] = []
        self.tool = tool(**options)(self.wait)

    async def wait(self, n: int) -> int:
        self.came.append(n)
        try:
            await self.open.wait()
        finally:
            self.left.append(n)
        return n


async def test_a_flood_of_calls_runs_only_so_far_and_each_of_them_is_answered_once() -> None:
    gate = Gate(effect="read")
    ids = [f"c{n}" for n in range(1_100)]
    async with Script(tools_of(gate.tool)) as stream:
        stream.say(*(call("wait", {"n": n}, id=each) for n, each in enumerate(ids)))
        await stream.until_answered(*ids[1_024:])
        assert gate.came == list(range(1_024))
        gate.open.set()
        await stream.until_answered(*ids)
        stream.say(call("wait", {"n": -1}, id="later"))
    answers = {each: found for each, found in stream.heard.by_id.items() if each is not None}
    assert all(len(found) == 1 for found in answers.values())
    assert {each for each, found in answers.items() if found == [REFUSED]} == {*ids[1_024:]}
    assert answers["later"][0]["status"] == "ok"


async def test_cancelled_calls_make_room_when_they_have_ended() -> None:
    reads, pays = Gate(effect="read"), Gate(effect="once", name="log")
    tools = tools_of(reads.tool, pays.tool, policies={"calls": {"at_once": 2}})
    async with Script(tools) as stream:
        stream.say(call("wait", {"n": 1}, id="read"), call("log", {"n": 2}, id="pay"))
        await stream.until(lambda _: reads.came == [1] and pays.came == [2])
        stream.say(cancellation("read"), cancellation("pay"))
        while reads.left != [1]:
            await asyncio.sleep(0)
        stream.say(call("wait", {"n": 3}, id="room"))
        stream.say(call("wait", {"n": 4}, id="none: the payment goes on"))
        await stream.until_answered("none: the payment goes on")
        reads.open.set()
        pays.open.set()
    bodies = stream.heard.by_id
    assert bodies["none: the payment goes on"][0]["reason_code"] == "calls_at_once"
    assert bodies["room"][0]["status"] == "ok"
    assert bodies.keys() == {"none: the payment goes on", "room"}


async def test_calls_at_once_are_counted_over_the_streams_of_a_session_and_for_each_apart() -> None:
    gate, session = Gate(effect="read"), ToolSession()
    tools = tools_of(gate.tool, policies={"calls": {"at_once": 1}})
    first = asyncio.create_task(tools.execute("wait", {"n": 1}, session=session))
    while not gate.came:
        await asyncio.sleep(0)
    refused = await tools.execute("wait", {"n": 2}, session=session)
    assert (refused.status.value, refused.reason_code) == ("limited", "calls_at_once")
    gate.open.set()
    assert (await tools.execute("wait", {"n": 3}, session=ToolSession())).ok
    assert (await first).ok
    assert (await tools.execute("wait", {"n": 4}, session=session)).ok


async def test_what_tools_and_programs_call_is_not_counted_and_the_limit_can_be_switched_off() -> (
    None
):
    gate, session = Gate(effect="read"), ToolSession()

    async def outer() -> list[str]:
        calls = (tools.execute("wait", {"n": n}, session=session) for n in range(10))
        return [each.status.value for each in await asyncio.gather(*calls)]

    tools = tools_of(gate.tool, tool(effect="read")(outer), policies={"calls": {"at_once": 1}})
    nested = asyncio.create_task(tools.execute("outer", session=session))
    programs = [begin(tools, "wait", n=n) for n in range(10, 20)]
    while len(gate.came) < 20:
        await asyncio.sleep(0)
    gate.open.set()
    assert (await nested).result == ["ok"] * 10
    assert await ended(*programs) == list(range(10, 20))

    gate = Gate(effect="read")
    tools = tools_of(gate.tool, policies={"calls": {"at_once": "off"}})
    many = [
        asyncio.create_task(tools.execute("wait", {"n": n}, session=session)) for n in range(300)
    ]
    while len(gate.came) < 300:
        await asyncio.sleep(0)
    gate.open.set()
    assert await ended(*many) == list(range(300))
