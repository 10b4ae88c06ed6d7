"""Reads run side by side, writes one after another, first come first served."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leonidas_tools import Tool, tool
from leonidas_tools.policies.lane import lane_key
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


# --- against a model --------------------------------------------------------------------------


@dataclass
class Model:
    """The lane as one would explain it: a queue, and those at its head that may be inside."""

    inside: dict[str, bool] = field(default_factory=dict)
    queue: list[tuple[str, bool]] = field(default_factory=list)

    def come(self, name: str, *, write: bool) -> None:
        self.queue.append((name, write))
        self._admit()

    def go(self, name: str) -> None:
        self.inside.pop(name, None)
        self.queue = [waiting for waiting in self.queue if waiting[0] != name]
        self._admit()

    def _admit(self) -> None:
        while self.queue:
            name, write = self.queue[0]
            if any(self.inside.values()) or (write and self.inside):
                return
            self.inside[name] = write
            self.queue.pop(0)


_OPS = st.lists(
    st.one_of(
        st.sampled_from(["read", "replace"]),
        st.tuples(st.sampled_from(["finish", "cancel", "both"]), st.integers(0, 20)),
    ),
    max_size=40,
)


@given(_OPS)
@settings(deadline=None)
def test_a_lane_admits_whom_its_model_admits(ops: list[Any]) -> None:
    asyncio.run(_compare(ops))


async def _compare(ops: list[Any]) -> None:
    steps, model = Steps(), Model()
    made = bench(steps)
    calls: dict[str, asyncio.Task[Any]] = {}
    for number, op in enumerate(ops):
        present = [name for name, call in calls.items() if not call.done()]
        if isinstance(op, str):
            name = f"{op}{number}"
            calls[name] = made.start(op, step=name)
            model.come(name, write=op == "replace")
        elif present:
            _leave(op, present, calls, steps, model)
        await quiet()
        assert set(model.inside) == _inside(steps)
    for name in list(calls):
        steps.finish(name)
    await asyncio.gather(*calls.values(), return_exceptions=True)
    assert _inside(steps) == set()


def _leave(
    op: tuple[str, int],
    present: list[str],
    calls: dict[str, asyncio.Task[Any]],
    steps: Steps,
    model: Model,
) -> None:
    how, which = op
    name = present[which % len(present)]
    if how == "cancel":
        calls[name].cancel()
        model.go(name)
    elif name in model.inside:
        steps.finish(name)
        model.go(name)
    if how == "both":  # another is cancelled in the same moment, as its turn may be coming
        other = present[(which + 1) % len(present)]
        if other != name:
            calls[other].cancel()
            model.go(other)


def _inside(steps: Steps) -> set[str]:
    begun = [entry[1:] for entry in steps.log if entry[0] == "+"]
    ended = {entry[1:] for entry in steps.log if entry[0] in "-!"}
    return {name for name in begun if name not in ended}


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
    _together(one, other, names=["one", "one", "one", "other", "one"])
    said = (
        "A call of 'one' has waited {} seconds for one of {!r}, which declares no effect "
        'and so runs alone in its lane. If {} nothing, declare effect="read" '
        "(in the settings: effect: read); then such calls run concurrently"
    )
    assert spared(caplog) == [
        said.format("1.0", "one", "'one' changes"),
        said.format("4.0", "other", "'other' and 'one' change"),
    ]


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
        "A call of 'second' has waited 1.0 seconds for one of 'first', which changes something in "
        "the same lane: that of their module or object, also of other users. If 'second' need not "
        'wait, declare lane="off" or a lane of its own (in the settings: lane: off)'
    )
    assert [r.getMessage() for r in caplog.records if "'second' has" in r.getMessage()] == (
        [said] * times
    )


def test_a_short_wait_is_not_spoken_of(caplog: pytest.LogCaptureFixture) -> None:
    async def blinks() -> None:
        await asyncio.sleep(0.2)

    _together(Tool(blinks), names=["blinks", "blinks"])
    assert spared(caplog) == []
