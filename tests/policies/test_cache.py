"""A read that was made a moment ago is not made again; identical calls under way share one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from genai_processors import processor
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools import (
    AdvancedToolProcessor,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    ToolSession,
    tool,
    tool_request,
)
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.calls.call import Media, Run
from leonidas_tools.calls.events import EventKind
from leonidas_tools.errors import RetryableError, ToolError
from leonidas_tools.policies.cache import CacheEntry, ResultCache
from leonidas_tools.policies.hooks import After
from leonidas_tools.rules.rule import Decide, Rule, Tier
from tests.policies.clock import in_no_time
from tests.policies.runs import Stage, Told, begin, ended, settled, tools_of


class Counted:
    """A read that says how often it has run."""

    def __init__(self, **options: Any) -> None:
        self.runs = 0
        self.fails: BaseException | None = None

        async def read(place: str = "here") -> dict[str, Any]:
            self.runs += 1
            if self.fails is not None:
                raise self.fails
            return {"place": place, "run": self.runs}

        self.tool = Tool(read, **{"effect": "read", "cache_seconds": 60, **options})


def stats(tools: AdvancedToolProcessor) -> dict[str, int]:
    counted = tools.executor.cache.stats
    return {name: counted[name] for name in ("entries", "hits", "misses", "shared", "stale")}


@in_no_time
async def test_a_second_call_within_the_time_is_answered_as_the_first() -> None:
    read = Counted()
    tools = tools_of(read.tool)
    first = await tools.execute("read", {"place": "a"})
    await asyncio.sleep(59)
    second = await tools.execute("read", {"place": "a"})
    assert first.to_response() == second.to_response()
    assert (first.cached, second.cached, read.runs) == (False, True, 1)
    await asyncio.sleep(2)
    assert (await tools.execute("read", {"place": "a"})).result == {"place": "a", "run": 2}
    assert stats(tools) == {"entries": 1, "hits": 1, "misses": 2, "shared": 0, "stale": 0}


async def test_a_hit_is_reported_like_any_call_and_marked() -> None:
    tools = tools_of(Counted().tool)
    told = Told(tools)
    await tools.execute("read")
    await tools.execute("read")
    assert told.kinds() == ["tool_start", "tool_complete"] * 2
    ends = [event.to_json() for event in told.of(EventKind.COMPLETE)]
    assert ["cached" in end for end in ends] == [False, True]
    assert [record["status"] for record in tools.monitor.history()] == ["ok", "ok"]


async def test_defaults_and_spellings_of_the_same_arguments_are_the_same_call() -> None:
    read = Counted()
    tools = tools_of(read.tool)
    for arguments in ({}, {"place": "here"}, {"place": None}):
        await tools.execute("read", arguments)
    assert read.runs == 1


async def test_other_arguments_users_and_tools_are_other_calls() -> None:
    one, other = Counted(name="one"), Counted(name="other")
    tools = tools_of(one.tool, other.tool)
    ana, bo = ToolSession(user="ana"), ToolSession(user="bo")
    for name, place, session in itertools.product(["one", "other"], "ab", [ana, bo]):
        await tools.execute(name, {"place": place}, session=session)
    assert (one.runs, other.runs) == (4, 4)
    again = await tools.execute("one", {"place": "a"}, session=ToolSession(user="ana"))
    assert again.cached


@pytest.mark.parametrize("change", [{"version": "2"}, {"description": "Reads otherwise."}])
async def test_another_version_of_a_tool_is_another_tool(change: dict[str, str]) -> None:
    read = Counted(version="1")
    tools = tools_of(read.tool)
    await tools.execute("read")
    tools.registry.replace(read.tool.with_options(**change))
    assert not (await tools.execute("read")).cached


async def test_what_replaces_a_function_does_not_answer_as_the_one_before() -> None:
    tools = tools_of(Counted().tool)
    await tools.execute("read")
    tools.registry.replace(Counted().tool)
    assert not (await tools.execute("read")).cached


async def test_settings_that_reach_the_tool_make_another_call(tmp_path) -> None:
    file = tmp_path / "tools.yaml"
    file.write_text("tools: {read: {custom_parameters: {where: a}}}")
    read = Counted()
    tools = AdvancedToolProcessor([read.tool], file, builtin_tools=False)
    async with tools:
        for where in ("a", "b", "b"):
            tools.settings.update({"tools.read.custom_parameters.where": where})
            await settled()
            await tools.execute("read")
    assert read.runs == 2


@pytest.mark.parametrize("effect", ["idempotent", "once"])
async def test_what_changes_something_is_never_cached(effect: str) -> None:
    read = Counted(effect=effect)
    tools = tools_of(read.tool)
    await tools.execute("read")
    await tools.execute("read")
    assert read.runs == 2


@pytest.mark.parametrize(
    "outcome",
    [
        ValueError(),
        ToolError("No."),
        ToolResult.not_found("No."),
        ToolResult(result=1, media=[Media(mime_type="image/png", data=b"png")]),
    ],
)
async def test_neither_failures_nor_pictures_are_kept(outcome: Any) -> None:
    runs = itertools.count()

    def look() -> Any:
        next(runs)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    tools = tools_of(tool(effect="read", cache_seconds=60, retry_attempts=0)(look))
    for _ in range(3):
        assert not (await tools.execute("look")).cached
    assert next(runs) == 3


async def test_finding_nothing_is_a_result() -> None:
    def look() -> ToolResult:
        return ToolResult.no_results("Nothing there.")

    tools = tools_of(tool(effect="read", cache_seconds=60)(look))
    results = [await tools.execute("look") for _ in range(2)]
    assert [r.cached for r in results] == [False, True]
    assert results[0].to_response() == results[1].to_response()


async def test_what_is_done_to_a_result_is_not_done_to_the_next() -> None:
    tools = tools_of(Counted().tool)
    for _ in range(3):
        result = await tools.execute("read", {"place": "a"})
        assert result.result == {"place": "a", "run": 1}
        result.result["run"] = "broken"


async def test_a_result_says_the_second_time_all_that_it_said_the_first() -> None:
    said = [
        ToolResult(result={"rows": [1]}, retryable=True),
        ToolResult(result=1, message="Yesterday's."),
        ToolResult(result=1, speech="One."),
        ToolResult(result=1, retry_hint="Ask for a day.", valid_options=["monday"]),
        ToolResult(result=1, reason_code="partial"),
        ToolResult(),
    ]

    def look(number: int) -> ToolResult:
        return said[number]

    tools = tools_of(tool(effect="read", cache_seconds=60)(look))
    for number in range(len(said)):
        first, second = [await tools.execute("look", {"number": number}) for _ in range(2)]
        assert second == replace(first, cached=True)


@in_no_time
async def test_an_old_result_stands_in_when_the_tool_fails_and_says_so() -> None:
    read = Counted(retry_attempts=0)
    tools = tools_of(read.tool, tools={"read": {"stale_if_error": "5m"}})
    await tools.execute("read")
    await asyncio.sleep(61)
    read.fails = RuntimeError()
    stale = await tools.execute("read")
    assert stale.to_response() == {
        "status": "ok",
        "result": {"place": "here", "run": 1},
        "message": "The tool 'read' is failing; this is its result from 61 seconds ago.",
        "retryable": False,
    }
    assert stale.cached
    await asyncio.sleep(300)
    assert (await tools.execute("read")).status == "failed"
    assert stats(tools)["stale"] == 1


@in_no_time
async def test_the_models_mistakes_bring_no_old_result() -> None:
    read = Counted(stale_if_error_seconds=300)
    tools = tools_of(read.tool)
    await tools.execute("read")
    await asyncio.sleep(61)
    read.fails = ToolError("No such place.", status="not_found")
    assert (await tools.execute("read")).status == "not_found"


@in_no_time
async def test_what_was_forgotten_while_the_tool_ran_does_not_stand_in_for_it() -> None:
    async def read() -> str:
        if stats(tools)["entries"]:
            tools.executor.cache.invalidate("read")
            raise RuntimeError
        return "seen"

    kept = {"cache_seconds": 60, "stale_if_error_seconds": 300, "retry_attempts": 0}
    tools = tools_of(Tool(read, effect="read", **kept))
    assert (await tools.execute("read")).ok
    await asyncio.sleep(61)
    assert (await tools.execute("read")).status == "failed"


async def test_a_long_result_is_used_again_only_where_its_handle_can_be_read() -> None:
    async def read() -> list[str]:
        return [f"line {number}" for number in range(1000)]

    spills = {"overflow": "spill", "max_result_tokens": 50}
    tools = AdvancedToolProcessor([Tool(read, effect="read", cache_seconds=60, **spills)])
    one, other = ToolSession("one", user="ana"), ToolSession("other", user="ana")
    calls = [await tools.execute("read", session=session) for session in (one, one, other)]
    assert [call.cached for call in calls] == [False, True, False]
    handle = calls[2].result["handle"]
    assert (await tools.execute("read_result", {"handle": handle}, session=other)).ok


# --- one call for several ---------------------------------------------------------------------


class Shared:
    """A read on a stage, and calls of it."""

    def __init__(self, *others: Any, **settings: Any) -> None:
        self.stage = Stage()
        self.came = 0

        async def read(ctx: ToolContext, place: str = "here") -> str:
            self.came += 1
            seen = await self.stage.play(f"{place}{self.came}")
            ctx.progress("seen", fraction=0.5)
            return seen

        self.tools = tools_of(tool(effect="read", cache_seconds=60)(read), *others, **settings)


async def test_identical_running_calls_share_one_run() -> None:
    shared = Shared()
    told = Told(shared.tools)
    calls = [begin(shared.tools, "read") for _ in range(50)]
    await shared.stage.until_on("here1")
    shared.stage.let_go("here1")
    assert await ended(*calls) == ["here1"] * 50
    assert shared.came == 1
    assert stats(shared.tools) == {"entries": 1, "hits": 0, "misses": 1, "shared": 49, "stale": 0}
    assert len(told.of(EventKind.COMPLETE)) == 50
    assert [call.result().cached for call in calls] == [False] + [True] * 49


async def test_events_before_the_end_are_reported_for_each_call() -> None:
    shared = Shared()
    told = Told(shared.tools)
    calls = [begin(shared.tools, "read") for _ in range(3)]
    await shared.stage.until_on("here1")
    shared.stage.let_go("here1")
    await ended(*calls)
    progress = told.of(EventKind.PROGRESS)
    assert {event.call.trace_id for event in progress} == {"direct-1", "direct-2", "direct-3"}
    assert len(told.of(EventKind.START)) == 3


@pytest.mark.parametrize(("leaves", "made"), [(0, "here2"), (1, "here1"), (2, "here1")])
async def test_one_that_leaves_takes_no_other_along(leaves: int, made: str) -> None:
    """Where it is the one that made the call, the next makes it anew."""
    shared = Shared()
    calls = [begin(shared.tools, "read") for _ in range(3)]
    await shared.stage.until_on("here1")
    calls.pop(leaves).cancel()
    await settled()
    assert shared.stage.on == {made}
    shared.stage.let_go(made)
    assert await ended(*calls) == [made] * 2
    assert shared.stage.came == ["here1", "here2"][: shared.came]
    assert (await shared.tools.execute("read")).cached


async def test_the_last_to_leave_stops_the_call() -> None:
    shared = Shared()
    calls = [begin(shared.tools, "read") for _ in range(3)]
    await shared.stage.until_on("here1")
    for call in calls:
        call.cancel()
    await shared.stage.until(lambda: not shared.stage.on)
    again = begin(shared.tools, "read")
    await shared.stage.until_on("here2")
    shared.stage.let_go("here2")
    assert await ended(again) == ["here2"]


async def test_a_call_made_by_a_tool_waits_for_no_other() -> None:
    """The write holds the lane that the read under way waits for: to share it is to wait."""
    shared, holding, go_on = Shared(), asyncio.Event(), asyncio.Event()

    async def write() -> Any:
        holding.set()
        await go_on.wait()
        return (await shared.tools.execute("read")).result

    shared.tools.registry.register(Tool(write, lane="shared"))
    shared.tools.registry.replace(shared.tools.registry["read"].with_options(lane="shared"))
    shared.stage.let_go("here1", "here2")
    writing = begin(shared.tools, "write")
    async with asyncio.timeout(10):
        await holding.wait()
    stranger = begin(shared.tools, "read")
    await settled()
    go_on.set()
    assert await ended(writing, stranger) == ["here1", "here2"]


async def test_tools_that_stand_in_for_each_other_do_not_wait_for_each_other() -> None:
    stage = Stage()

    def failing(name: str, fallback: str) -> Tool[..., Any]:
        async def read() -> None:
            await stage.play(name)
            raise RetryableError("It is down.")

        options = {"effect": "read", "cache_seconds": 60, "retry_attempts": 0}
        return Tool(read, name=name, fallback_tools=[fallback], **options)

    tools = tools_of(failing("left", "right"), failing("right", "left"))
    calls = [begin(tools, "left"), begin(tools, "right")]
    await stage.until_on("left", "right")
    stage.let_go("left", "right")
    assert await ended(*calls) == [None, None]
    assert sorted(stage.came) == ["left", "left", "right", "right"]


async def test_a_policy_that_makes_a_call_twice_at_once_waits_for_no_call_of_its_own() -> None:
    async def twice(call: ToolCall, run: Run) -> ToolResult:
        one, _ = await asyncio.gather(run(call), run(call))
        return one

    runs = itertools.count()

    async def read() -> str:
        if next(runs) < 2:
            raise RetryableError("Not yet.")
        return "read"

    tool = Tool(read, effect="read", cache_seconds=60)
    tools = AdvancedToolProcessor(tools=[tool], policies=[twice], builtin_tools=False)
    Told(tools)
    assert await ended(begin(tools, "read")) == ["read"]


async def test_what_one_does_to_a_result_is_not_done_to_that_of_who_waited() -> None:
    stage = Stage()

    async def read() -> ToolResult:
        return ToolResult(result=[await stage.play("read")], valid_options=["read"])

    def add(_: ToolCall, result: ToolResult) -> None:
        assert isinstance(result.valid_options, list)
        assert result.valid_options == result.result
        result.valid_options.append("seen")
        result.result.append("seen")

    tool = Tool(read, effect="read", cache_seconds=60)
    tools = AdvancedToolProcessor(tools=[tool], policies=[After(add)], builtin_tools=False)
    calls = [begin(tools, "read") for _ in range(3)]
    await stage.until_on("read")
    stage.let_go("read")
    assert await ended(*calls) == [["read", "seen"]] * 3
    assert await ended(begin(tools, "read")) == [["read", "seen"]]


async def test_no_call_waits_for_an_abandoned_one() -> None:
    goes_on = asyncio.Event()
    runs = itertools.count()

    async def read() -> str:
        while next(runs) == 0:
            while not goes_on.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await goes_on.wait()
        return "read"

    options = {"effect": "read", "cache_seconds": 60, "retry_attempts": 0, "timeout_seconds": 0.1}
    tools = tools_of(Tool(read, **options))
    try:
        async with asyncio.timeout(30):
            left_behind = await asyncio.gather(begin(tools, "read"), begin(tools, "read"))
            assert [result.status for result in left_behind] == ["timeout", "timeout"]
            assert (await tools.execute("read")).result == "read"
    finally:
        goes_on.set()
        await settled()


async def test_what_a_session_may_not_run_it_does_not_get_from_another_either() -> None:
    read = Counted()
    tools, other = tools_of(read.tool), ToolSession()
    await tools.execute("read")
    rule = Rule(name="not here", tools=("read",), decide=Decide.DENY, tier=Tier.SESSION)
    other.get(SessionPolicy).rules.append(rule)
    assert (await tools.execute("read", session=other)).status == "denied"
    assert (await tools.execute("read")).cached


async def test_a_failure_is_shared_but_not_kept() -> None:
    entered, failing = asyncio.Event(), asyncio.Event()
    runs = itertools.count()

    async def read() -> None:
        next(runs)
        entered.set()
        await failing.wait()
        raise ToolError("Down.")

    tools = tools_of(tool(effect="read", cache_seconds=60)(read))
    calls = [begin(tools, "read") for _ in range(3)]
    async with asyncio.timeout(10):
        await entered.wait()
    failing.set()
    await ended(*calls)
    assert [call.result().status for call in calls] == ["failed"] * 3
    assert [call.result().cached for call in calls] == [False] * 3
    assert (await tools.execute("read")).status == "failed"
    assert next(runs) == 2


async def test_retries_are_shared_too() -> None:
    runs = itertools.count(1)

    async def read() -> int:
        await asyncio.sleep(0)
        if (run := next(runs)) < 3:
            raise RetryableError("Busy.")
        return run

    tools = tools_of(
        tool(effect="read", cache_seconds=60)(read), tools={"read": {"retry_delay": "1ms"}}
    )
    told = Told(tools)
    assert await ended(*(begin(tools, "read") for _ in range(4))) == [3] * 4
    assert len(told.of(EventKind.RETRY)) == 2 * 4


async def test_time_runs_out_for_all_who_wait() -> None:
    shared = Shared(tools={"read": {"timeout": "10ms", "retry_attempts": 0}})
    calls = [begin(shared.tools, "read") for _ in range(3)]
    await ended(*calls)
    assert [call.result().status for call in calls] == ["timeout"] * 3


# --- forgetting -------------------------------------------------------------------------------


async def filled() -> tuple[AdvancedToolProcessor, Counted, Counted]:
    one, other = Counted(name="one"), Counted(name="other")
    tools = tools_of(one.tool, other.tool)
    for name, place in itertools.product(["one", "other"], "ab"):
        await tools.execute(name, {"place": place})
    return tools, one, other


@pytest.mark.parametrize(
    ("which", "count", "runs"),
    [
        ({}, 4, (4, 4)),
        ({"tool": "one"}, 2, (4, 2)),
        ({"tool": "one", "arguments": {"place": "a"}}, 1, (3, 2)),
        ({"arguments": {"place": "a"}}, 2, (3, 3)),
        ({"tool": "nobody"}, 0, (2, 2)),
    ],
)
async def test_results_are_forgotten_by_tool_by_call_or_all(
    which: dict[str, Any], count: int, runs: tuple[int, int]
) -> None:
    tools, one, other = await filled()
    assert tools.executor.cache.invalidate(**which) == count
    for name, place in itertools.product(["one", "other"], "ab"):
        await tools.execute(name, {"place": place})
    assert (one.runs, other.runs) == runs


async def test_a_request_part_forgets_too() -> None:
    tools, *_ = await filled()
    async with processor.context():
        request = tool_request("invalidate_cache", tool="one")
        answers = [json.loads(part.text) async for part in tools([request])]
    assert [answer["result"] for answer in answers] == [{"invalidated": 2}]


async def test_what_was_forgotten_meanwhile_is_not_kept_nor_shared_any_more() -> None:
    shared = Shared()
    before = begin(shared.tools, "read")
    await shared.stage.until_on("here1")
    shared.tools.executor.cache.invalidate("read")
    after = begin(shared.tools, "read")
    await shared.stage.until_on("here2")
    shared.stage.let_go("here1", "here2")
    assert await ended(before, after) == ["here1", "here2"]
    assert (await shared.tools.execute("read")).result == "here2"


# --- bounds -----------------------------------------------------------------------------------


def entry(size: int) -> CacheEntry:
    return CacheEntry.of(ToolResult(), {}, size, at=0)


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 60), st.booleans()), max_size=60),
    st.integers(1, 8),
    st.integers(1, 100),
)
def test_it_never_holds_more_than_it_may(
    steps: list[tuple[int, int, bool]], entries: int, most_bytes: int
) -> None:
    cache = ResultCache(max_entries=entries, max_bytes=most_bytes)
    used: list[int] = []
    for number, size, reads in steps:
        key = ("tool", None, str(number))
        if reads:
            if cache.find(key) is not None:
                used.remove(number)
                used.append(number)
        else:
            cache.keep(key, entry(size))
            used = [n for n in used if n != number] + [number]
        used = [n for n in used if ("tool", None, str(n)) in cache._entries]
        held = cache.stats
        assert held["entries"] <= entries
        assert held["bytes"] <= most_bytes
        assert held["entries"] == len(used)
    while used:  # those longest unused go first
        gone, _ = cache._entries.popitem(last=False)
        assert gone == ("tool", None, str(used.pop(0)))


async def test_its_size_can_be_changed_while_it_is_used() -> None:
    tools, *_ = await filled()
    tools.executor.cache.resize(max_entries=3, max_bytes=10_000)
    assert stats(tools)["entries"] == 3
    tools.executor.cache.resize(max_entries=3, max_bytes=1)
    assert stats(tools)["entries"] == 0


async def test_what_is_longer_than_all_may_be_is_not_kept() -> None:
    read = Counted()
    tools = tools_of(read.tool, policies={"cache": {"max_bytes": 10}})
    for _ in range(2):
        await tools.execute("read")
    assert read.runs == 2
