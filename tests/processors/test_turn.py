"""The calls of one turn: reads side by side, writes in order, results as the calls were given."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from leonidas_tools import AdvancedToolProcessor, Tool, ToolError
from leonidas_tools.calls.events import EventKind
from tests.policies.clock import in_no_time
from tests.policies.runs import Told, settled, tools_of


class Work:
    """Tools that take their time, and what they did."""

    def __init__(self) -> None:
        self.log: list[tuple[str, int]] = []
        self.running: set[int] = set()
        self.most = 0
        self.beside_writes: list[int] = []
        self.read_lane = Tool(self.read, name="read", effect="read", lane="a")
        self.other_read = Tool(self.read, name="other_read", effect="read", lane="b")
        self.write_lane = Tool(self.write, name="write", effect="once", lane="a")
        self.other_write = Tool(self.write, name="other_write", effect="idempotent", lane="b")
        self.tools = tools_of(self.read_lane, self.other_read, self.write_lane, self.other_write)

    async def read(self, n: int, seconds: float, fails: bool = False) -> int:
        return await self._work("read", n, seconds, fails=fails)

    async def write(self, n: int, seconds: float, fails: bool = False) -> int:
        if self.running:
            self.beside_writes.append(n)
        return await self._work("write", n, seconds, fails=fails)

    async def _work(self, kind: str, n: int, seconds: float, *, fails: bool) -> int:
        self.running.add(n)
        self.most = max(self.most, len(self.running))
        self.log.append((kind, n))
        try:
            await asyncio.sleep(seconds)
        finally:
            self.running.discard(n)
        self.log.append(("ended", n))
        if fails:
            raise ToolError("No.")
        return n


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["read", "other_read", "write", "other_write"]),
        st.sampled_from([0.0, 0.1, 1.0]),
        st.booleans(),
    ),
    max_size=12,
)


@settings(deadline=None)
@given(calls=CALLS, concurrency=st.integers(1, 4))
def test_order_and_bounds_hold_for_any_calls(
    calls: list[tuple[str, float, bool]], concurrency: int
) -> None:
    @in_no_time
    async def play() -> None:
        work = Work()
        asked = [
            (name, {"n": n, "seconds": seconds, "fails": fails})
            for n, (name, seconds, fails) in enumerate(calls)
        ]
        results = await work.tools.execute_turn(asked, concurrency=concurrency)
        expected = [("failed", None) if fails else ("ok", n) for n, (_, _, fails) in _numbered()]
        assert [(result.status, result.result) for result in results] == expected
        assert work.most <= concurrency
        assert work.beside_writes == []
        begun = [n for kind, n in work.log if kind != "ended"]
        for place, n in enumerate(begun):
            if calls[n][0].endswith("write"):
                assert sorted(begun[:place]) == list(range(n)), "all before it, and none after it"

    def _numbered() -> Any:
        return enumerate(calls)

    play()


@in_no_time
async def test_reads_run_side_by_side_also_those_of_one_lane() -> None:
    work = Work()
    asked = [("read", {"n": n, "seconds": 1}) for n in range(5)]
    results = await work.tools.execute_turn(asked)
    assert [result.result for result in results] == [0, 1, 2, 3, 4]
    assert work.most == 5


@in_no_time
async def test_a_bad_call_has_its_own_answer_and_stops_no_other() -> None:
    work = Work()
    results = await work.tools.execute_turn(
        [
            ("nothing", {}),
            ("read", '{"n": '),
            ("read", {"n": "many"}),
            {"arguments": {}},
            {"name": "read", "arguments": {"n": 1, "seconds": 0}, "autonomous": True},
            types.FunctionCall(name="write", args={"n": 2, "seconds": 0}, id="x"),
        ]
    )
    assert [result.status for result in results] == [
        "not_found",
        "invalid_argument",
        "invalid_argument",
        "not_found",
        "ok",
        "ok",
    ]


async def test_what_is_no_call_is_refused_before_anything_runs() -> None:
    work = Work()
    with pytest.raises(TypeError, match="is not a call"):
        await work.tools.execute_turn([("write", {"n": 1, "seconds": 0}), None])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="concurrency"):
        await work.tools.execute_turn([], concurrency=0)
    assert work.log == []


async def test_cancelling_a_turn_cancels_its_calls() -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    tools = tools_of(Tool(hangs, effect="read"))
    told = Told(tools)
    turn = asyncio.create_task(tools.execute_turn([("hangs", {}), ("hangs", None)]))
    await settled()
    turn.cancel()
    await asyncio.wait([turn])
    await settled()
    assert turn.cancelled()
    assert len(told.of(EventKind.CANCEL)) == 2


async def test_a_call_of_a_turn_is_held_to_the_rules() -> None:
    async def pay() -> str:
        return "paid"

    tools = AdvancedToolProcessor([Tool(pay, requires_approval=True)])
    (result,) = await tools.execute_turn([{"name": "pay", "autonomous": True}])
    assert result.status == "pending_approval"
