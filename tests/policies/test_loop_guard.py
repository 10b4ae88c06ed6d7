"""A model that goes round in circles is told so the third time, and refused the fifth."""

from __future__ import annotations

import asyncio
import itertools
import logging
from time import perf_counter
from typing import Any

import pytest
from genai_processors import content_api, processor
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools import AdvancedToolProcessor, Tool, ToolSession, tool
from leonidas_tools.calls.call import ToolCall, ToolResult
from leonidas_tools.calls.turns import Turns
from leonidas_tools.policies.loop_guard import LoopGuard, LoopHistory, LoopLimits
from tests.policies.runs import Told, tools_of


class Kitchen:
    """Tools, and the one session that calls them."""

    def __init__(self, tools: AdvancedToolProcessor) -> None:
        self.tools = tools
        self.session = ToolSession("kitchen")

    async def execute(
        self, name: str, arguments: Any = None, *, session: ToolSession | None = None
    ) -> ToolResult:
        return await self.tools.execute(name, arguments, session=session or self.session)


def kitchen_of(*tools: Any, **settings: Any) -> Kitchen:
    return Kitchen(tools_of(*tools, **settings))


def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


async def statuses(tools: Kitchen, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    return [(await tools.execute(name, arguments)).status.value for name, arguments in calls]


async def test_the_third_repeat_is_warned_about_and_the_fifth_refused(caplog) -> None:
    tools = kitchen_of(look)
    results = [await tools.execute("look", {"place": "box"}) for _ in range(6)]
    assert [r.status.value for r in results] == ["ok"] * 4 + ["loop"] * 2
    assert [r.message for r in results[:2]] == [None, None]
    assert results[2].message is not None
    assert "3 times in a row" in results[2].message
    assert results[2].result == "nothing in box"
    assert results[4].to_response() == {
        "status": "loop",
        "message": "'look' was not run: the same calls have returned the same results 4 "
        "times in a row. Use the results you have, try something else, or "
        "ask the user.",
        "retryable": False,
        "reason_code": "loop",
    }
    assert [r.levelno for r in caplog.records] == [logging.WARNING] * 4
    assert "box" not in caplog.text


@pytest.mark.parametrize(
    ("name", "arguments", "status"),
    [
        ("look", {"place": "box"}, "ok"),
        ("lok", {"place": "box"}, "not_found"),
        ("look", {"wrong": 1}, "invalid_argument"),
        ("look", "{broken", "invalid_argument"),
        ("off", {}, "disabled"),
    ],
)
async def test_a_program_that_calls_without_a_session_may_poll(
    name: str, arguments: Any, status: str, caplog
) -> None:
    tools = tools_of(look, Tool(look, name="off", status="disabled"))
    results = [await tools.execute(name, arguments) for _ in range(20)]
    assert {(result.status.value, result.message) for result in results} == {
        (status, results[0].message)
    }
    assert not caplog.records


async def test_a_stream_without_a_session_of_its_own_is_guarded() -> None:
    tools = tools_of(look)
    answered = [asyncio.Event() for _ in range(5)]

    async def calls():
        for n in range(5):
            part = content_api.ProcessorPart.from_function_call(name="look", args={"place": "x"})
            part.function_call.id = str(n)
            yield part
            await answered[n].wait()

    told = []
    async with processor.context():
        async for part in tools(calls()):
            if part.function_response is not None:
                told.append(part.function_response.response["status"])
                answered[int(part.function_response.id)].set()
    assert told == ["ok"] * 4 + ["loop"]


async def test_a_refused_call_is_reported_like_any_other() -> None:
    tools = kitchen_of(look)
    told = Told(tools.tools)
    for _ in range(5):
        await tools.execute("look", {"place": "box"})
    assert told.kinds() == ["tool_start", "tool_complete"] * 4 + ["tool_start", "tool_error"]


async def test_another_call_in_between_is_allowed_and_begins_a_new_count() -> None:
    tools = kitchen_of(look)
    box, bag = ("look", {"place": "box"}), ("look", {"place": "bag"})
    assert await statuses(tools, *[box] * 5, bag, *[box] * 4) == ["ok"] * 4 + ["loop"] + ["ok"] * 5


async def test_the_order_of_arguments_does_not_matter() -> None:
    def find(what: str, where: str) -> str:
        return "no"

    tools = kitchen_of(find)
    one, other = {"what": "a", "where": "b"}, {"where": "b", "what": "a"}
    calls = [("find", one if n % 2 else other) for n in range(5)]
    assert (await statuses(tools, *calls))[-1] == "loop"


@pytest.mark.parametrize("length", [2, 3, 4, 5])
async def test_a_cycle_of_calls_is_a_loop(length: int) -> None:
    tools = kitchen_of(look)
    cycle = [("look", {"place": f"box {n}"}) for n in range(length)]
    got = await statuses(tools, *cycle * 6)
    assert got == ["ok"] * (5 * length - 1) + ["loop"] * (length + 1)


async def test_a_longer_cycle_is_none() -> None:
    tools = kitchen_of(look)
    cycle = [("look", {"place": f"box {n}"}) for n in range(6)]
    assert set(await statuses(tools, *cycle * 10)) == {"ok"}


async def test_changing_results_are_no_loop() -> None:
    numbers = itertools.count()

    def measure() -> int:
        return next(numbers)

    tools = kitchen_of(measure)
    assert await statuses(tools, *[("measure", {})] * 20) == ["ok"] * 20


async def test_a_tool_for_polling_is_never_warned_about() -> None:
    @tool(polling=True)
    def is_done() -> bool:
        return False

    tools = kitchen_of(is_done)
    results = [await tools.execute("is_done") for _ in range(20)]
    assert {(r.status.value, r.message) for r in results} == {("ok", None)}


async def test_the_settings_can_say_that_a_tool_is_for_polling() -> None:
    tools = kitchen_of(look, tools={"look": {"polling": True}})
    assert set(await statuses(tools, *[("look", {"place": "box"})] * 9)) == {"ok"}


async def test_unknown_tools_count_too() -> None:
    tools = kitchen_of(look)
    results = [await tools.execute("lok", {"place": "box"}) for _ in range(5)]
    assert [r.status.value for r in results] == ["not_found"] * 4 + ["loop"]
    assert results[2].message is not None
    assert results[2].message.endswith("try something else, or ask the user.")
    assert results[2].valid_options == ["look"]


@pytest.mark.parametrize(
    ("arguments", "settings", "status"),
    [
        ({"wrong": 1}, {}, "invalid_argument"),
        ("{broken", {}, "invalid_argument"),
        ({"place": "box"}, {"enabled": False}, "disabled"),
    ],
)
async def test_refusals_count_too(arguments: Any, settings: dict[str, Any], status: str) -> None:
    tools = kitchen_of(look, tools={"look": settings})
    got = [(await tools.execute("look", arguments)).status.value for _ in range(5)]
    assert got == [status] * 4 + ["loop"]


async def test_a_tool_that_is_switched_off_loops_in_a_stream_as_well() -> None:
    tools = kitchen_of(look, tools={"look": {"enabled": False}})

    async def calls():
        for n in range(5):
            part = content_api.ProcessorPart.from_function_call(name="look", args={"place": "x"})
            part.function_call.id = str(n)
            yield part

    async with processor.context():
        parts = [part async for part in tools.tools(calls()) if part.function_response is not None]
    got = [part.function_response.response["status"] for part in parts]
    assert got == ["disabled"] * 4 + ["loop"]


async def at_once(place: str) -> str:
    return f"nothing in {place}"


@pytest.mark.parametrize("function", [look, at_once])
async def test_calls_at_the_same_time_are_no_loop(function: Any) -> None:
    tools = kitchen_of(Tool(function, name="look"))
    results = await asyncio.gather(*(tools.execute("look", {"place": "box"}) for _ in range(100)))
    assert {(r.status.value, r.message) for r in results} == {("ok", None)}


async def test_pairs_of_calls_at_the_same_time_are_a_loop_when_they_come_again_and_again() -> None:
    tools = kitchen_of(look)
    got = []
    for _ in range(6):
        pair = [tools.execute("look", {"place": place}) for place in ("box", "bag")]
        got.append([result.status.value for result in await asyncio.gather(*pair)])
    assert got == [["ok", "ok"]] * 4 + [["ok", "loop"], ["loop", "loop"]]


async def test_the_count_restarts_when_the_user_speaks() -> None:
    tools, session = kitchen_of(look), ToolSession()
    got = []
    for _ in range(3):
        session.get(Turns).next()
        for _ in range(4):
            got.append((await tools.execute("look", {"place": "box"}, session=session)).status)
    assert got == ["ok"] * 12


async def test_sessions_do_not_loop_together() -> None:
    tools = kitchen_of(look)
    for session in [ToolSession() for _ in range(10)]:
        result = await tools.execute("look", {"place": "box"}, session=session)
        assert (result.status.value, result.message) == ("ok", None)


async def test_a_session_can_have_limits_of_its_own() -> None:
    tools, session = kitchen_of(look), ToolSession()
    history = session.get(LoopHistory)
    history.limits = LoopLimits(warn_at=0, refuse_at=2)
    got = [await tools.execute("look", {"place": "box"}, session=session) for _ in range(2)]
    assert [r.status.value for r in got] == ["ok", "loop"]
    history.forget()
    assert (await tools.execute("look", {"place": "box"}, session=session)).ok


@pytest.mark.parametrize("in_session", [True, False])
async def test_nothing_watches_where_it_is_switched_off(in_session: bool) -> None:
    off = {"warn_at": 0, "refuse_at": 0}
    tools = kitchen_of(look) if in_session else kitchen_of(look, policies={"loop": off})
    if in_session:
        tools.session.get(LoopHistory).limits = LoopLimits(**off)
    results = [await tools.execute("look", {"place": "box"}) for _ in range(50)]
    assert {(r.status.value, r.message) for r in results} == {("ok", None)}
    assert {(await tools.execute("lok")).status.value for _ in range(9)} == {"not_found"}


async def test_a_call_that_was_cancelled_is_no_repeat() -> None:
    entered = asyncio.Event()

    async def wait() -> None:
        entered.set()
        await asyncio.Event().wait()

    tools = kitchen_of(tool(effect="read")(wait))
    for _ in range(8):
        entered.clear()
        call = asyncio.create_task(tools.execute("wait"))
        async with asyncio.timeout(10):
            await entered.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert await statuses(tools, ("wait", {"no": 1})) == ["invalid_argument"]


async def test_what_cannot_be_compared_is_no_repeat() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError

        __hash__ = None  # type: ignore[assignment]  # nothing needs one

    tools = kitchen_of(look)
    odd = [("look", {"place": Odd()}) for _ in range(9)]
    assert await statuses(tools, *odd) == ["invalid_argument"] * 9


def by_the_book(calls: list[int], results: list[int], limits: LoopLimits) -> list[int]:
    """How often each call repeats what was before it, by comparing everything with everything."""
    ran: list[tuple[int, int]] = []
    repeats = []
    for what, result in zip(calls, results, strict=True):
        found = [1]
        for period in range(1, limits.longest_cycle + 1):
            if len(ran) < period or ran[-period][0] != what:
                continue
            as_before = [*ran, ran[-period]]
            times = 1
            while as_before[-period:] == as_before[-period * (times + 1) : -period * times]:
                times += 1
            found.append(times)
        repeats.append(min(max(found), limits.refuse_at))
        ran.append((what, result))
    return repeats


@given(
    st.lists(st.integers(0, 2), max_size=40),
    st.sampled_from([LoopLimits(), LoopLimits(warn_at=2, refuse_at=3, longest_cycle=2)]),
)
def test_repeats_are_found_as_by_comparing_everything(calls: list[int], limits: LoopLimits) -> None:
    session, history = ToolSession("s"), LoopHistory()
    got = []
    for what in calls:
        call = ToolCall(name=str(what), session=session)
        step = history.begin(call, limits, perf_counter())
        step.end(ToolResult(result=what))
        got.append(min(step.repeats, limits.refuse_at))
    assert got == by_the_book(calls, calls, limits)


@given(st.lists(st.integers(0, 1), max_size=40), st.lists(st.integers(0, 1), max_size=40))
def test_no_call_is_refused_that_would_not_have_been_the_fifth_of_its_kind(
    calls: list[int], results: list[int]
) -> None:
    session, guard = ToolSession("s"), LoopGuard(limits=LoopLimits())
    told = []
    for what, result in zip(calls, results, strict=False):
        call = ToolCall(name=str(what), session=session)
        told.append(guard.judge(call, ToolResult(result=result)).status.value)
    for index, status in enumerate(told):
        if status == "loop":
            made = calls[: index + 1]
            assert any(made[-5 * p :] == made[-p:] * 5 for p in range(1, 6))
