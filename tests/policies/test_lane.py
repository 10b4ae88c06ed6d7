"""Reads run side by side, writes one after another, first come first served."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from leonidas_tools import Tool, ToolSession, tool
from leonidas_tools.policies.lane import Lane, Turn, lane_key
from tests.policies.bench import Bench, Steps, quiet
from tests.policies.clock import in_no_time


def bench(steps: Steps, **more: Any) -> Bench:
    return Bench(
        steps.tool("read", effect="read", lane="shared"),
        steps.tool("write", effect="once", lane="shared"),
        steps.tool("replace", effect="idempotent", lane="shared"),
        steps.tool("elsewhere", effect="once", lane="another"),
        **more,
    )


async def test_reads_run_together() -> None:
    steps = Steps()
    made = bench(steps)
    calls = [made.start("read", step=step) for step in "abc"]
    await quiet()
    assert steps.log == ["+a", "+b", "+c"]
    steps.finish("c", "a", "b")
    assert [call.result for call in await asyncio.gather(*calls)] == ["a", "b", "c"]


async def test_a_write_is_alone_and_a_read_sees_the_write_before_it() -> None:
    steps = Steps()
    made = bench(steps)
    calls = [
        made.start("read", step="r1"),
        made.start("write", step="w1"),
        made.start("read", step="r2"),
        made.start("replace", step="w2"),
        made.start("read", step="r3"),
        made.start("read", step="r4"),
    ]
    await quiet()
    for step in ("r1", "w1", "r2", "w2", "r3", "r4"):
        steps.finish(step)
        await quiet()
    await asyncio.gather(*calls)
    assert steps.log == [
        "+r1", "-r1", "+w1", "-w1", "+r2", "-r2", "+w2", "-w2", "+r3", "+r4", "-r3", "-r4",
    ]  # fmt: skip


async def test_unrelated_lanes_do_not_wait_for_each_other() -> None:
    steps = Steps()
    made = bench(steps)
    held = made.start("write", step="w")
    steps.finish("e")
    assert (await made.run("elsewhere", step="e")).result == "e"
    assert not held.done()
    steps.finish("w")
    await held


async def test_a_lane_of_the_settings_replaces_the_tools_own() -> None:
    steps = Steps()
    made = bench(steps, tools={"elsewhere": {"lane": "shared"}})
    calls = [made.start("write", step="w"), made.start("elsewhere", step="e")]
    await quiet()
    assert steps.log == ["+w"]
    steps.finish("w", "e")
    await asyncio.gather(*calls)
    assert steps.log == ["+w", "-w", "+e", "-e"]


async def test_an_effect_of_the_settings_decides_who_is_alone() -> None:
    steps = Steps()
    made = bench(steps, tools={"write": {"effect": "read"}})
    calls = [made.start("write", step="a"), made.start("write", step="b")]
    await quiet()
    assert steps.log == ["+a", "+b"]
    steps.finish("a", "b")
    await asyncio.gather(*calls)


async def test_who_is_cancelled_while_waiting_lets_those_behind_pass() -> None:
    steps = Steps()
    made = bench(steps)
    reading, writing = made.start("read", step="r1"), made.start("write", step="w")
    behind = made.start("read", step="r2")
    await quiet()
    assert steps.log == ["+r1"]
    writing.cancel()
    await quiet()
    assert steps.log == ["+r1", "+r2"]
    steps.finish("r1", "r2")
    await asyncio.gather(reading, behind)
    assert made.ends[0] == ("write", "tool_cancel")


async def test_who_is_cancelled_as_the_turn_comes_gives_it_to_the_next() -> None:
    steps = Steps()
    made = bench(steps)
    first, second = made.start("write", step="a"), made.start("write", step="b")
    third = made.start("write", step="c")
    await quiet()
    steps.finish("a")
    while "-a" not in steps.log:
        await asyncio.sleep(0)
    second.cancel()  # whether its turn has come already or not
    steps.finish("b", "c")
    await asyncio.gather(first, third)
    assert "+c" in steps.log


async def test_a_side_effect_that_was_cancelled_holds_its_lane_until_it_ends() -> None:
    steps = Steps()
    made = bench(steps)
    charging, behind = made.start("write", step="charge"), made.start("read", step="balance")
    await quiet()
    charging.cancel()
    await quiet()
    assert (steps.log, charging.cancelled()) == (["+charge"], True)
    steps.finish("charge", "balance")
    assert (await behind).result == "balance"
    assert steps.log == ["+charge", "-charge", "+balance", "-balance"]


@in_no_time
async def test_a_cancelled_side_effect_that_hangs_frees_its_lane_when_its_time_is_up() -> None:
    steps = Steps()
    made = bench(steps, defaults={"timeout": "10s"})
    hanging, behind = made.start("write", step="hangs"), made.start("read", step="r")
    await quiet()
    hanging.cancel()
    steps.finish("r")
    assert (await behind).result == "r"
    assert steps.log == ["+hangs", "!hangs", "+r", "-r"]


async def test_a_tool_may_call_one_of_its_own_lane() -> None:
    steps = Steps()
    made: Bench

    @tool(lane="shared")
    async def outer() -> list[Any]:
        return [
            (await made.run("write", step="w")).result,
            (await made.run("read", step="r")).result,
            (await made.run("inner")).result,
        ]

    @tool(lane="shared")
    async def inner() -> Any:
        return (await made.run("write", step="deep")).result

    made = Bench(
        outer,
        inner,
        steps.tool("write", lane="shared"),
        steps.tool("read", effect="read", lane="shared"),
    )
    steps.finish("w", "r", "deep")
    async with asyncio.timeout(5):
        assert (await made.run("outer")).result == ["w", "r", "deep"]
        assert (await made.run("write", step="w")).result == "w"


async def test_what_a_tool_leaves_running_waits_for_the_lane_like_others() -> None:
    steps = Steps()
    left: list[asyncio.Task[Any]] = []

    @tool(lane="shared")
    async def leaves_a_task() -> None:
        async def later() -> None:
            await go_on.wait()
            await made.run("write", step="late")

        left.append(asyncio.create_task(later()))

    go_on = asyncio.Event()
    made = Bench(leaves_a_task, steps.tool("write", lane="shared"))
    await made.run("leaves_a_task")
    holding = made.start("write", step="holds")
    await quiet()
    go_on.set()
    await quiet()
    assert steps.log == ["+holds"]
    steps.finish("holds", "late")
    await asyncio.gather(holding, *left)
    assert steps.log == ["+holds", "-holds", "+late", "-late"]


class Account:
    def pay(self) -> None: ...

    def balance(self) -> None: ...

    def __call__(self) -> None: ...


def pay(amount: int) -> None: ...


def of_a_closure() -> Any:
    def inner() -> None: ...

    return inner


def test_a_function_belongs_to_the_lane_of_its_object_or_module() -> None:
    mine, yours = Account(), Account()
    assert lane_key(mine.pay) == lane_key(mine.balance) == lane_key(mine)
    assert lane_key(mine.pay) != lane_key(yours.pay)
    assert lane_key(mine.pay) != lane_key(pay)
    assert lane_key(functools.partial(functools.partial(pay, 1))) == lane_key(pay)
    assert lane_key(functools.partial(mine.pay)) == lane_key(mine.pay)
    assert lane_key(of_a_closure()) == lane_key(of_a_closure()) == lane_key(pay)
    assert lane_key(lambda: None) == lane_key(pay)
    assert lane_key(pay) != lane_key(functools.lru_cache)


async def test_tools_of_one_module_share_its_lane_by_default() -> None:
    steps = Steps()

    def writer(name: str) -> Any:
        async def write(step: str) -> str:
            return await steps.take(step)

        return Tool(write, name=name)

    made = Bench(writer("one"), writer("two"))
    calls = [made.start("one", step="a"), made.start("two", step="b")]
    await quiet()
    assert steps.log == ["+a"]
    steps.finish("a", "b")
    await asyncio.gather(*calls)
    assert steps.log == ["+a", "-a", "+b", "-b"]


# --- users ------------------------------------------------------------------------------------


async def test_no_user_waits_for_another_by_default() -> None:
    steps = Steps()
    made = Bench(steps.tool("write", effect="once"))
    phone, tablet = ToolSession(user="ana"), ToolSession(user="ana")
    held = made.start("write", step="ana", session=phone)
    for session in (ToolSession(user="bo"), ToolSession(), made.session):
        steps.finish(session.id)
        assert (await made.run("write", step=session.id, session=session)).ok
    behind = made.start("write", step="ana again", session=tablet)
    await quiet()
    assert (steps.log[-1], held.done()) == (f"-{made.session.id}", False)
    steps.finish("ana", "ana again")
    await asyncio.gather(held, behind)
    assert steps.log[-4:] == [f"-{made.session.id}", "-ana", "+ana again", "-ana again"]


async def test_a_named_lane_is_shared_by_all_users() -> None:
    steps = Steps()
    made = bench(steps)
    calls = [
        made.start(name, step=user, session=ToolSession(user=user))
        for name, user in (("write", "ana"), ("replace", "bo"), ("read", "cy"))
    ]
    await quiet()
    assert steps.log == ["+ana"]
    steps.finish("ana", "bo", "cy")
    await asyncio.gather(*calls)
    assert steps.log == ["+ana", "-ana", "+cy", "-cy", "+bo", "-bo"]


async def test_a_read_passes_a_write_that_waits_for_another_user() -> None:
    steps = Steps()
    made = bench(steps)
    ana, bo, cy = (ToolSession(user=name) for name in ("ana", "bo", "cy"))
    calls = [
        made.start("read", step="slow", session=ana),
        made.start("write", step="w", session=bo),
        made.start("read", step="sees w", session=bo),
        made.start("read", step="passes", session=cy),
    ]
    await quiet()
    assert steps.log == ["+slow", "+passes"]
    steps.finish("slow")
    await quiet()
    calls.append(made.start("read", step="late", session=cy))  # now the write is the oldest
    steps.finish("passes")
    await quiet()
    assert steps.log == ["+slow", "+passes", "-slow", "-passes", "+w"]
    steps.finish("w", "sees w", "late")
    await asyncio.gather(*calls)


async def test_the_events_of_a_waiting_call_name_the_one_it_waits_for() -> None:
    steps = Steps()
    made = bench(steps)
    calls = [made.start("write", step="a"), made.start("read", step="b")]
    await quiet()
    assert made.told("tool_wait") == [{"waits_for": "write"}]
    steps.finish("a", "b")
    await asyncio.gather(*calls)
    assert made.told("tool_wait") == [{"waits_for": "write"}, {"waits_for": None}]


class LaneRules(RuleBasedStateMachine):
    """Calls of three owners that come, end and are cancelled in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.lane = Lane()
        self.present: dict[str, Turn] = {}  # in the order of arrival
        self.inside: set[str] = set()
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.ends: dict[str, asyncio.Event] = {}
        self.before: tuple[str, set[str]] = ("", set())
        self.runner = asyncio.Runner()

    async def _call(self, name: str, turn: Turn) -> None:
        try:
            if not self.lane.enter_now(turn):
                await self.lane.enter(turn)
            self.inside.add(name)
            try:
                await self.ends[name].wait()
            finally:
                self.inside.discard(name)
                turn.leave()
        finally:
            del self.present[name]

    async def _start(self, name: str, turn: Turn) -> None:
        self.tasks[name] = asyncio.create_task(self._call(name, turn))
        await quiet()

    async def _settle(self, ended: Sequence[str], cancelled: Sequence[str]) -> None:
        for name in ended:
            self.ends[name].set()
        for name in cancelled:
            self.tasks[name].cancel()
        await quiet()

    @rule(owner=st.sampled_from("abc"), write=st.booleans())
    def come(self, owner: str, write: bool) -> None:
        turn, name = Turn(self.lane, write=write, owner=owner), f"{owner}{len(self.tasks)}"
        self.present[name], self.ends[name] = turn, asyncio.Event()
        self.runner.run(self._start(name, turn))

    @precondition(lambda self: self.present)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        ends = data.draw(st.lists(st.sampled_from(sorted(self.inside)), max_size=2))
        some = st.lists(st.sampled_from(list(self.present)), max_size=2)
        self.runner.run(self._settle(ends, data.draw(some)))

    @invariant()
    def no_write_has_company(self) -> None:
        assert len(self.inside) < 2 or not any(self.present[name].write for name in self.inside)

    def _own_before(self, name: str) -> list[Turn]:
        """The calls of the same owner that came before this one and are still there."""
        earlier = takewhile(lambda one: one != name, self.present)
        return [self.present[each] for each in earlier if each[0] == name[0]]

    @invariant()
    def an_owner_comes_first_served(self) -> None:
        for name in self.inside:
            own = self._own_before(name)
            assert not own if self.present[name].write else not any(one.write for one in own)

    @invariant()
    def a_call_waits_only_if_it_must(self) -> None:
        writes = any(self.present[name].write for name in self.inside)
        oldest = next(iter(self.present), None)
        for name in self.present.keys() - self.inside:
            is_after_own = any(one.write for one in self._own_before(name))
            if self.present[name].write:
                assert self.inside
            else:
                assert writes or is_after_own or oldest not in self.inside

    @invariant()
    def the_oldest_is_not_overtaken(self) -> None:
        oldest, inside = self.before
        if oldest in self.present and oldest not in self.inside:
            assert self.inside <= inside
        first = next(iter(self.present), "")
        self.before = ("" if first in self.inside else first, set(self.inside))

    def teardown(self) -> None:
        self.runner.run(self._settle(list(self.tasks), []))
        assert not self.present
        assert not self.lane.holder
        self.runner.close()


TestLaneRules = LaneRules.TestCase
TestLaneRules.settings = settings(deadline=None, stateful_step_count=30)


# --- a wait that a declared effect would spare -------------------------------------------------


async def rests() -> None:
    await asyncio.sleep(1)


def spared(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if "which declares no effect" in r.getMessage()]


@in_no_time
async def _together(*tools: Tool[..., Any], names: Sequence[str], **more: Any) -> None:
    made = Bench(*tools, **more)
    await asyncio.gather(*(made.run(name) for name in names))


def test_a_long_wait_for_a_tool_without_an_effect_names_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one, other = Tool(rests, name="one"), Tool(rests, name="other")
    _together(one, other, names=["one", "one", "one"])
    caplog.clear()
    _together(one, other, names=["other", "one", "one"])
    said = (
        "A call of 'one' has waited {} seconds for one of {!r}, which declares no effect "
        'and so runs alone in its lane. If {} nothing, declare effect="read" '
        "(in the settings: effect: read); then such calls run concurrently"
    )
    assert spared(caplog) == [said.format("1.0", "other", "'other' and 'one' change")]


@pytest.mark.parametrize(
    ("first", "second", "settings"),
    [
        ({"effect": "once"}, {}, {}),
        ({}, {"effect": "once"}, {}),
        ({}, {}, {"tools": {"first": {"effect": "once"}}}),
        ({}, {"lane": "another"}, {}),
        ({"effect": "read"}, {"effect": "read"}, {}),
    ],
)
def test_a_wait_that_is_meant_is_not_spoken_of(
    first: dict[str, Any],
    second: dict[str, Any],
    settings: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    tools = [Tool(rests, name="first", **first), Tool(rests, name="second", **second)]
    _together(*tools, names=["first", "second"], **settings)
    assert spared(caplog) == []


def test_a_read_that_waits_behind_it_names_it_too(caplog: pytest.LogCaptureFixture) -> None:
    tools = [Tool(rests, name="silent"), Tool(rests, name="reads", effect="read")]
    _together(*tools, names=["silent", "reads"])
    assert len(spared(caplog)) == 1


async def pays() -> None:
    await asyncio.sleep(1)


@pytest.mark.parametrize(
    ("second", "settings", "times"),
    [
        ({"effect": "read"}, {}, 1),
        ({"effect": "once"}, {}, 1),
        ({"effect": "read", "lane": "shared"}, {}, 0),  # named: it is meant to wait
        ({"effect": "read"}, {"tools": {"second": {"lane": "shared"}}}, 0),
        ({"effect": "read"}, {"tools": {"second": {"lane": "off"}}}, 0),
    ],
)
def test_a_wait_that_is_heard_in_a_lane_that_nobody_has_named_is_spoken_of_once(
    second: dict[str, Any],
    settings: dict[str, Any],
    times: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first: dict[str, Any] = {"effect": "once", "lane": second.get("lane")}
    if "tools" in settings:
        settings["tools"]["first"] = {"lane": "shared"}
    tools = [Tool(pays, name="first", **first), Tool(pays, name="second", **second)]
    _together(*tools, names=["first", "second", "first", "second"], **settings)
    said = (
        "A call of 'second' has waited 1.0 seconds for one of 'first', which holds the lane of "
        "their module, object or server for this user. If other calls need not wait for 'first', "
        'declare lane="off" for it (in the settings: lane: off)'
    )
    assert [r.getMessage() for r in caplog.records if "'second' has" in r.getMessage()] == (
        [said] * times
    )


def test_a_short_wait_is_not_spoken_of(caplog: pytest.LogCaptureFixture) -> None:
    async def blinks() -> None:
        await asyncio.sleep(0.2)

    _together(Tool(blinks), names=["blinks", "blinks"])
    assert spared(caplog) == []
