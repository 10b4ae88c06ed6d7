"""The fault table: whatever a call or a tool does, one answer comes, and nothing else suffers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

import pytest
from genai_processors import processor
from genai_processors.content_api import ProcessorPart

from leonidas_tools import (
    AdvancedToolProcessor,
    RetryableError,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    ToolSession,
    tool,
)
from leonidas_tools.calls.call import Media
from tests.promises.faults import tools as faults
from tests.promises.faults.play import (
    Heard,
    Script,
    audio,
    call,
    cancellation,
    play,
    tool_threads,
)
from tests.tasks import other_tasks

FAILED = {"status": "failed", "message": "The tool 'faulty' failed.", "retryable": False}
HEALTHY = {"status": "ok", "result": {"n": 1}, "retryable": False}
LATE = {
    "status": "timeout",
    "message": "The tool 'faulty' did not finish within 0.05 seconds.",
    "retryable": True,
    "reason_code": "attempt_timeout",
}


@tool(effect="read", lane="healthy")
async def healthy(n: int) -> dict[str, int]:
    return {"n": n}


@tool(name="faulty", lane="faulty")
async def adds(a: int, text: str = "") -> int:
    return a + len(text)


def advanced(*tools: Any, **options: Any) -> AdvancedToolProcessor:
    return AdvancedToolProcessor(
        tools=[*tools, healthy], config=options or None, builtin_tools=False
    )


async def through_stream(tools: AdvancedToolProcessor, args: Any = None) -> dict[str, Any]:
    """The answer to one faulty call, after checking that all around it is unharmed."""
    heard = await play(
        tools,
        [
            audio(1),
            call("healthy", {"n": 1}, id="before"),
            audio(2),
            call("faulty", args, id="faulty"),
            audio(3),
            call("healthy", {"n": 1}, id="after"),
            audio(4),
        ],
    )
    assert heard.frames == [1, 2, 3, 4]
    assert sorted((i or "", name) for i, name, _ in heard.answers) == [
        ("after", "healthy"),
        ("before", "healthy"),
        ("faulty", "faulty"),
    ]
    assert heard.by_id["before"] == heard.by_id["after"] == [HEALTHY]
    assert {e["event"] for e in heard.events} >= {"tool_start", "tool_complete"}
    assert tools.monitor.ledger.to_json()["in_flight"] == 0
    assert tools.monitor.ledger.protocol_errors == 0
    return heard.by_id["faulty"][0]


async def both_ways(tools: AdvancedToolProcessor, args: Any = None) -> dict[str, Any]:
    """The answer to a faulty call, which must be the same in a stream and alone."""
    async with tools, asyncio.timeout(20):
        streamed = await through_stream(tools, args)
        direct = await tools.execute("faulty", args)
    assert direct.to_response() == streamed
    return streamed


# --- arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "answer"),
    [
        pytest.param(
            None,
            {
                "status": "invalid_argument",
                "message": "'a' is missing.",
                "retryable": False,
                "retry_hint": "Call again with 'a'.",
                "reason_code": "missing_argument",
                "valid_options": ["a", "text"],
            },
            id="null",
        ),
        pytest.param(
            {"a": [1]},
            {
                "status": "invalid_argument",
                "message": "'a' must be an integer, not [1].",
                "retryable": False,
                "reason_code": "wrong_type",
            },
            id="wrong type",
        ),
        pytest.param(
            {"a": 1, "b": 2},
            {
                "status": "invalid_argument",
                "message": "'b' is not a parameter.",
                "retryable": False,
                "retry_hint": "Call again without 'b'.",
                "reason_code": "unknown_argument",
                "valid_options": ["text", "a"],
            },
            id="extra",
        ),
        pytest.param(
            {"a": "7"}, {"status": "ok", "result": 7, "retryable": False}, id="safe coercion"
        ),
        pytest.param(
            {"a": 1, "text": "x" * 1_000_000},
            {"status": "ok", "result": 1_000_001, "retryable": False},
            id="1 MB where a text is wanted",
        ),
    ],
)
async def test_arguments_that_do_not_fit_are_answered_with_what_is_wrong(
    args: Any, answer: dict[str, Any]
) -> None:
    assert await both_ways(advanced(adds), args) == answer


async def test_oversized_arguments_that_do_not_fit_get_a_short_answer() -> None:
    answer = await both_ways(advanced(adds), {"a": "x" * 1_000_000})
    assert (answer["status"], answer["reason_code"]) == ("invalid_argument", "wrong_type")
    assert len(str(answer)) < 500


async def test_a_part_without_arguments_at_all_is_answered() -> None:
    bare = call("faulty", id="1")
    bare.part.function_call.args = None  # type: ignore[union-attr]  # it is one
    heard = await play(advanced(adds), [bare])
    assert [body["reason_code"] for body in heard.by_id["1"]] == ["missing_argument"]


async def test_an_unknown_tool_is_answered_with_the_closest_names() -> None:
    tools = advanced(adds)
    heard = await play(tools, [audio(1), call("helthy", id="1"), audio(2)])
    answer = {
        "status": "not_found",
        "message": "There is no tool 'helthy'. "
        "Call one of the valid options instead, such as 'healthy'.",
        "retryable": False,
        "reason_code": "unknown_tool",
        "valid_options": ["healthy"],
    }
    assert (heard.answers, heard.frames) == ([("1", "helthy", answer)], [1, 2])
    assert (await tools.execute("helthy")).to_response() == answer


async def test_a_call_without_a_name_is_answered() -> None:
    heard = await play(advanced(), [call("", id="1")])
    assert [(i, body["reason_code"]) for i, _, body in heard.answers] == [("1", "unknown_tool")]


async def test_arguments_that_are_no_json_are_answered() -> None:
    tools = advanced(adds)
    assert (await tools.execute("faulty", "{'a': 1}")).reason_code == "invalid_json"
    assert (await tools.execute("faulty", "[1]")).reason_code == "wrong_type"
    assert (await tools.execute("faulty", '{"a": 1, "a": 2}')).reason_code == "invalid_json"
    assert tools.monitor.ledger.to_json()["in_flight"] == 0


# --- ids -------------------------------------------------------------------------------------


async def test_two_calls_in_one_message_are_answered_each_with_its_own_id() -> None:
    heard = await play(advanced(), [call("healthy", {"n": n}, id=f"c{n}") for n in range(20)])
    assert heard.by_id == {
        f"c{n}": [{"status": "ok", "result": {"n": n}, "retryable": False}] for n in range(20)
    }


async def test_calls_without_an_id_are_each_answered_without_one() -> None:
    heard = await play(advanced(), [call("healthy", {"n": 1}), call("healthy", {"n": 1})])
    assert heard.answers == [(None, "healthy", HEALTHY)] * 2


async def test_an_id_in_the_call_itself_counts_as_one_in_the_metadata() -> None:
    part = call("healthy", {"n": 1})
    part.part.function_call.id = "own"  # type: ignore[union-attr]  # it is one
    heard = await play(advanced(), [part, call("healthy", {"n": 1}, id="own")])
    assert heard.answers == [("own", "healthy", HEALTHY)]


async def test_a_repeated_id_runs_once_whenever_it_comes() -> None:
    ran: list[int] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def charge(amount: int) -> int:
        ran.append(amount)
        begun.set()
        await go_on.wait()
        return amount

    async with Script(advanced(charge)) as script:
        script.say(call("charge", {"amount": 5}, id="1"), call("charge", {"amount": 5}, id="1"))
        await begun.wait()
        script.say(call("charge", {"amount": 5}, id="1"), audio(1))
        await script.until_frame(1)
        go_on.set()
        await script.until_answered("1")
        script.say(call("charge", {"amount": 5}, id="1"), call("missing", id="1"), audio(2))
    assert ran == [5]
    assert script.heard.by_id == {"1": [{"status": "ok", "result": 5, "retryable": False}]}
    assert script.heard.frames == [1, 2]


# --- what a tool raises ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["async", "sync", "async_generator", "generator"])
@pytest.mark.parametrize("name", faults.RAISED)
async def test_anything_a_tool_raises_is_one_failed_answer(name: str, kind: str) -> None:
    assert await both_ways(advanced(faults.raising(name, kind))) == FAILED


@pytest.mark.parametrize("name", faults.RAISED)
async def test_anything_a_read_raises_is_one_failed_answer(name: str) -> None:
    assert await both_ways(advanced(faults.raising(name, "async", effect="read"))) == FAILED


async def test_sys_exit_in_a_tool_is_one_failed_answer() -> None:
    assert await both_ways(advanced(faults.exits)) == FAILED


async def test_a_tool_that_cancels_its_own_task_and_returns_has_its_result() -> None:
    answer = await both_ways(advanced(faults.cancels_itself))
    assert answer == {"status": "ok", "result": 7, "retryable": False}


async def test_a_tool_that_cancels_its_own_task_and_waits_has_failed() -> None:
    assert await both_ways(advanced(faults.cancels_itself_and_waits)) == FAILED


async def test_a_tool_that_cancels_its_own_task_and_fails_is_tried_again() -> None:
    answer = await both_ways(advanced(faults.cancels_itself_and_fails))
    assert answer == {**FAILED, "message": "The tool 'faulty' failed. It was tried 2 times."}


@pytest.mark.parametrize(
    ("faulty", "answer"),
    [
        (
            faults.raises_tool_error,
            {
                "status": "unavailable",
                "message": "The shop is closed.",
                "retryable": True,
                "retry_hint": "Try after 9.",
                "reason_code": "closed",
                "valid_options": ["9", "10"],
            },
        ),
        (
            faults.raises_retryable_error,
            {"status": "failed", "message": "The line was busy.", "retryable": True},
        ),
        (
            faults.answers_itself,
            {
                "status": "no_results",
                "message": "No flights on that day.",
                "retryable": False,
                "retry_hint": "Try Friday.",
            },
        ),
    ],
)
async def test_a_tool_may_choose_what_the_model_reads(
    faulty: Tool[..., Any], answer: dict[str, Any]
) -> None:
    assert await both_ways(advanced(faulty)) == answer


# --- what a tool returns ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize("name", faults.RETURNED)
async def test_anything_a_tool_returns_becomes_plain_json(name: str, kind: str) -> None:
    make, shown = faults.RETURNED[name]
    answer = await both_ways(advanced(faults.returning(make, kind)))
    assert answer["status"] == "ok"
    if shown is not None:
        assert answer == {"status": "ok", "result": shown, "retryable": False}


def _cycle() -> list[Any]:
    cycle: list[Any] = [1]
    cycle.append(cycle)
    return cycle


def _deep() -> list[Any]:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    return deep


async def _coroutine() -> None:
    """Never awaited by the tool that returns it."""


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(_cycle, id="a cycle"),
        pytest.param(_deep, id="10,000 levels"),
        pytest.param(faults.Unshowable, id="an object that has no text"),
        pytest.param(lambda: {1: {2: faults.Unshowable()}}, id="one deep inside"),
        pytest.param(_coroutine, id="a coroutine"),
    ],
)
async def test_a_result_that_cannot_be_shown_says_so(make: Any) -> None:
    answer = await both_ways(advanced(faults.returning(make)))
    assert {**answer, "message": ""} == {
        "status": "failed",
        "message": "",
        "retryable": False,
        "reason_code": "unserialisable_result",
    }
    assert answer["message"].startswith("The tool 'faulty' ran, but its result cannot be shown: ")
    assert "hunter2" not in answer["message"]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: "x" * 10_000_000, id="text"),
        pytest.param(lambda: "\N{GRINNING FACE}" * 3_000_000, id="faces"),
        pytest.param(lambda: "\x00" * 10_000_000, id="control characters"),
        pytest.param(lambda: [{"row": n, "text": "y" * 90} for n in range(100_000)], id="rows"),
        pytest.param(lambda: {str(n): "z" * 90 for n in range(100_000)}, id="a wide object"),
        pytest.param(lambda: {"k" * 10_000_000: 1}, id="a long key"),
        pytest.param(lambda: b"b" * 10_000_000, id="bytes"),
        pytest.param(itertools.count, id="an iterator that never ends"),
        pytest.param(lambda: (n for n in itertools.count()), id="a generator that never ends"),
        pytest.param(lambda: list(range(3_000_000)), id="numbers"),
        pytest.param(lambda: [10**2000] * 1000, id="long numbers"),
    ],
)
async def test_a_result_of_any_size_is_cut_to_what_is_allowed(make: Any) -> None:
    tools = advanced(faults.returning(make), policies={"max_result_bytes": 50_000})
    answer = await through_stream(tools)
    assert answer["status"] == "ok"
    assert answer["message"] == "The result was truncated: it is longer than 50000 bytes."
    assert len(json.dumps(answer)) < 7 * 50_000, "control characters are escaped by six"


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda r, e: r(status="no_results"), id="a status that is a text"),
        pytest.param(lambda r, e: r(status="no such"), id="a status there is not"),
        pytest.param(lambda r, e: r(message={7}), id="a message that is none"),
        pytest.param(lambda r, e: r(message="x" * 10_000_000), id="a message without end"),
        pytest.param(lambda r, e: r(valid_options=[{7}]), id="options that are not plain"),
        pytest.param(lambda r, e: r(retryable={7}), id="a flag that is none"),
        pytest.param(lambda r, e: r(reason_code={7}), id="a code that is none"),
        pytest.param(lambda r, e: r(retry_hint=b"7"), id="a hint that is none"),
        pytest.param(lambda r, e: r(media=[b"png"]), id="media that are none"),
        pytest.param(lambda r, e: e(message={7}), id="an error's message that is none"),
        pytest.param(lambda r, e: e("no", valid_options=[{7}]), id="an error's options"),
        pytest.param(lambda r, e: e("no", status="no such"), id="an error's status"),
    ],
)
async def test_a_result_of_a_tools_own_making_never_harms_the_stream(make: Any) -> None:
    @tool(name="faulty", lane="faulty", retry_attempts=0)
    async def faulty() -> Any:
        made = make(ToolResult, ToolError)
        if isinstance(made, Exception):
            raise made
        return made

    answer = await through_stream(advanced(faulty))
    assert len(str(answer)) < 150_000
    assert isinstance(answer.get("message", ""), str)


async def test_pictures_that_no_message_holds_are_left_out_and_that_is_said() -> None:
    small = Media(mime_type="image/png", data=b"p" * 1000)
    large = Media(mime_type="image/png", data=b"P" * 2_000_000)

    @tool(name="faulty", lane="faulty")
    async def faulty() -> ToolResult:
        return ToolResult(result="two pictures", media=[large, small])

    tools = advanced(faulty)
    assert await both_ways(tools) == {
        "status": "ok",
        "result": "two pictures",
        "message": "An image or audio clip was left out.",
        "retryable": False,
    }
    assert (await tools.execute("faulty")).media == (small,)


# --- time ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "faulty",
    [
        pytest.param(faults.never_returns, id="never returns"),
        pytest.param(faults.never_ends, id="async generator"),
        pytest.param(faults.never_ends_nor_waits, id="async generator that never waits"),
        pytest.param(faults.never_ends_in_a_thread, id="generator"),
    ],
)
async def test_a_tool_that_does_not_end_is_timed_out(faulty: Tool[..., Any]) -> None:
    assert await both_ways(advanced(faulty)) == LATE


async def test_a_tool_that_may_have_taken_effect_says_so_when_it_is_timed_out() -> None:
    assert await both_ways(advanced(faults.never_returns_once)) == {
        "status": "unknown_outcome",
        "message": "The tool 'faulty' did not finish within 0.05 seconds. It is not "
        "known whether it took effect: do not call it again before you have "
        "checked.",
        "retryable": False,
        "reason_code": "attempt_timeout",
    }


async def test_a_tool_that_blocks_its_thread_is_timed_out() -> None:
    with faults.Gate() as gate:
        assert await both_ways(advanced(gate.blocks_its_thread())) == LATE


async def test_a_tool_that_ignores_cancellation_is_answered_for() -> None:
    gate = faults.Gate()
    async with Script(advanced(gate.ignores_cancellation())) as script:
        with gate:
            script.say(call("faulty", id="1"), call("healthy", {"n": 1}, id="2"), audio(1))
            await script.until_answered("1", "2")
    assert script.heard.by_id == {"1": [LATE], "2": [HEALTHY]}


async def test_a_tool_that_ignores_cancellation_does_not_keep_its_lane() -> None:
    gate = faults.Gate()
    tools = advanced(gate.ignores_cancellation(), Tool(adds.function, name="other", lane="faulty"))
    async with Script(tools) as script:
        with gate:
            script.say(call("faulty", id="1"), call("other", {"a": 1}, id="2"))
            await script.until_answered("1", "2")
    assert script.heard.by_id["2"] == [{"status": "ok", "result": 1, "retryable": False}]


async def test_a_tool_that_ignores_cancellation_does_not_keep_its_place() -> None:
    gate = faults.Gate()
    tools = advanced(gate.ignores_cancellation(), policies={"concurrency": 1})
    async with Script(tools) as script:
        with gate:
            script.say(call("faulty", id="1"), call("healthy", {"n": 1}, id="2"))
            await script.until_answered("1", "2")
    assert script.heard.by_id["2"] == [HEALTHY]


# --- progress --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({"value": {7}}, id="a set"),
        pytest.param({"value": {(1, 2): 3}}, id="keys that are no text"),
        pytest.param({"value": _cycle()}, id="a cycle"),
        pytest.param({"value": faults.Unshowable()}, id="an object that has no text"),
        pytest.param({"value": float("nan")}, id="not a number"),
    ],
)
async def test_progress_that_is_not_plain_breaks_nothing(data: dict[str, Any]) -> None:
    @tool(name="faulty", lane="faulty")
    async def faulty(ctx: ToolContext) -> int:
        ctx.progress("half", fraction=0.5, **data)
        return 7

    answer = await both_ways(advanced(faulty))
    assert answer == {"status": "ok", "result": 7, "retryable": False}


async def test_a_yielded_value_that_is_not_plain_breaks_nothing() -> None:
    @tool(name="faulty", lane="faulty")
    async def faulty() -> AsyncIterator[Any]:
        yield _cycle()
        yield 7

    answer = await both_ways(advanced(faulty))
    assert answer == {"status": "ok", "result": 7, "retryable": False}


async def test_no_event_follows_the_end_of_a_call() -> None:
    told: list[ToolContext] = []

    @tool(name="faulty", lane="faulty")
    async def faulty(ctx: ToolContext) -> int:
        told.append(ctx)
        return 7

    async with Script(advanced(faulty)) as script:
        script.say(call("faulty", id="1"))
        await script.until_answered("1")
        told[0].progress("too late")
        script.say(audio(1))
    assert [e["event"] for e in script.heard.events] == ["tool_start", "tool_complete"]


# --- cancellation ----------------------------------------------------------------------------


async def test_a_cancellation_of_an_unknown_id_passes_and_changes_nothing() -> None:
    part = cancellation("nobody")
    heard = await play(advanced(), [part, call("healthy", {"n": 1}, id="1"), audio(1)])
    assert heard.by_id == {"1": [HEALTHY]}
    assert [p.tool_cancellation for p in heard.passed] == ["nobody", None]


@pytest.mark.parametrize("effect", ["read", "idempotent", "once"])
async def test_a_call_cancelled_before_its_first_step_does_not_run(effect: str) -> None:
    ran: list[int] = []

    async def faulty() -> None:
        ran.append(1)

    tools = advanced(Tool(faulty, effect=effect))
    heard = await play(tools, [audio(1), call("faulty", id="1"), cancellation("1"), audio(2)])
    assert (ran, heard.answers, heard.frames) == ([], [], [1, 2])
    assert tools.monitor.ledger.to_json() == {
        "seen": 1, "started": 1, "ended": 1, "cancelled": 1, "in_flight": 0, "protocol_errors": 0,
    }  # fmt: skip


async def test_a_call_that_comes_after_its_cancellation_is_not_run() -> None:
    ran: list[int] = []

    async def faulty() -> None:
        ran.append(1)

    heard = await play(advanced(faulty), [cancellation("1"), call("faulty", id="1"), audio(1)])
    assert (ran, heard.answers, heard.frames) == ([], [], [1])


async def test_a_call_cancelled_while_it_waits_for_its_lane_does_not_run() -> None:
    ran: list[str] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def faulty(name: str) -> None:
        ran.append(name)
        begun.set()
        await go_on.wait()

    async with Script(advanced(faulty)) as script:
        script.say(call("faulty", {"name": "a"}, id="a"), call("faulty", {"name": "b"}, id="b"))
        script.say(call("faulty", {"name": "c"}, id="c"))
        await begun.wait()
        script.say(cancellation("b"), audio(1))
        await script.until_frame(1)
        go_on.set()
        await script.until_answered("a", "c")
    assert ran == ["a", "c"]
    assert script.heard.by_id.keys() == {"a", "c"}


async def test_a_call_cancelled_as_its_turn_comes_does_not_stop_the_lane() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    async def faulty(name: str) -> None:
        ran.append(name)
        begun.set()
        await go_on.wait()

    tools = advanced(faulty)
    async with asyncio.timeout(20):
        first = asyncio.create_task(tools.execute("faulty", {"name": "a"}))
        await begun.wait()
        second = asyncio.create_task(tools.execute("faulty", {"name": "b"}))
        third = asyncio.create_task(tools.execute("faulty", {"name": "c"}))
        while len(other_tasks()) < 6:
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)
        go_on.set()
        second.cancel()
        results = await asyncio.gather(first, second, third, return_exceptions=True)
    assert isinstance(results[1], asyncio.CancelledError)
    assert "c" in ran


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_cancellation_reaches_the_tool_and_no_answer_is_sent(effect: str) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def faulty() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    tools = advanced(Tool(faulty, effect=effect))
    async with Script(tools) as script:
        script.say(call("faulty", id="1"))
        await begun.wait()
        script.say(cancellation("1"), audio(1))
        async with asyncio.timeout(20):
            await stopped.wait()
    assert (script.heard.answers, script.heard.frames) == ([], [1])
    assert [e["event"] for e in script.heard.events] == ["tool_start", "tool_cancel"]
    assert tools.monitor.metrics("faulty")["cancellations"] == 1


async def test_a_started_side_effect_is_finished_after_a_cancellation_without_an_answer() -> None:
    begun, go_on, finished = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def charge() -> str:
        begun.set()
        await go_on.wait()
        finished.set()
        return "charged"

    async with Script(advanced(charge)) as script:
        script.say(call("charge", id="1"))
        await begun.wait()
        script.say(cancellation("1"), audio(1))
        await script.until_frame(1)
        go_on.set()
    assert finished.is_set()
    assert script.heard.answers == []
    assert [e["event"] for e in script.heard.events] == ["tool_start", "tool_cancel"]


async def test_a_cancellation_after_the_answer_changes_nothing() -> None:
    async with Script(advanced()) as script:
        script.say(call("healthy", {"n": 1}, id="1"))
        await script.until_answered("1")
        script.say(cancellation("1"), audio(1))
    assert script.heard.by_id == {"1": [HEALTHY]}
    assert script.heard.frames == [1]


async def test_a_cancelled_call_is_not_tried_again() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    ran: list[int] = []

    async def charge() -> None:
        ran.append(1)
        begun.set()
        await go_on.wait()
        raise RetryableError("The line was busy.")

    async with Script(advanced(charge)) as script:
        script.say(call("charge", id="1"))
        await begun.wait()
        script.say(cancellation("1"), audio(1))
        await script.until_frame(1)
        go_on.set()
    assert (ran, script.heard.answers) == ([1], [])


# --- the two ends of the stream --------------------------------------------------------------


async def test_answers_still_come_after_the_input_has_ended() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        begun.set()
        await go_on.wait()
        return "done"

    async def ending() -> AsyncIterable[ProcessorPart]:
        yield call("slow", id="1")
        await begun.wait()
        asyncio.get_running_loop().call_soon(go_on.set)

    heard = await play(advanced(slow), ending())
    assert heard.by_id == {"1": [{"status": "ok", "result": "done", "retryable": False}]}


async def test_an_input_that_fails_is_raised_and_nothing_leaks() -> None:
    stopped = asyncio.Event()
    begun = asyncio.Event()

    @tool(effect="read")
    async def slow() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def failing() -> AsyncIterable[ProcessorPart]:
        yield audio(1)
        yield call("slow", id="1")
        await begun.wait()
        raise OSError("the line is dead")

    heard = Heard()

    async def listen() -> None:
        async with asyncio.timeout(20), processor.context():
            async for part in advanced(slow)(failing()):
                heard.take(part)

    with pytest.raises(OSError, match="the line is dead"):
        await listen()
    assert (heard.frames, heard.answers, stopped.is_set()) == ([1], [], True)
    assert other_tasks() == set()


@pytest.mark.parametrize("leaving", ["break", "aclose", "cancel", "raise"])
async def test_nothing_leaks_when_the_reader_leaves(leaving: str) -> None:
    stopped, begun = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def slow() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def endless() -> AsyncIterable[ProcessorPart]:
        yield call("slow", id="1")
        await begun.wait()
        yield audio(1)
        await asyncio.Event().wait()

    tools = advanced(slow)

    async def reading() -> None:
        async with processor.context():
            if leaving == "aclose":
                async with contextlib.aclosing(aiter(tools(endless()))) as parts:  # type: ignore[type-var]  # a generator
                    await begun.wait() if await anext(parts) else None
                return
            async for part in tools(endless()):
                if "frame" not in part.metadata:
                    continue
                if leaving == "break":
                    break
                if leaving == "raise":
                    raise LookupError
                asyncio.current_task().cancel()  # type: ignore[union-attr]  # there is one

    async with asyncio.timeout(20):
        task = asyncio.create_task(reading())
        with contextlib.suppress(LookupError, asyncio.CancelledError):
            await task
        await stopped.wait()
        assert (leaving == "cancel") == task.cancelled()
        del task
        while other_tasks():
            await asyncio.sleep(0)
    assert tools.monitor.ledger.in_flight == 0


async def test_a_reader_that_is_cancelled_leaves_no_task_and_no_thread() -> None:
    inside = threading.Event()
    go_on = threading.Event()
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    @tool(effect="read")
    def blocked() -> None:
        inside.set()
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(30)

    before = set(threading.enumerate())
    async with Script(advanced(blocked)) as script:
        script.say(call("blocked", id="1"), audio(1))
        await begun.wait()
        await script.leave()
        assert other_tasks() == set()
        go_on.set()
    for thread in set(tool_threads()) - before:
        thread.join(5)
        assert not thread.is_alive()


async def test_parts_of_other_substreams_pass_and_their_calls_are_answered_in_the_default_one() -> (
    None
):
    note = ProcessorPart("seen", substream_name="camera", metadata={"frame": 7})
    heard = await play(
        advanced(), [note, call("healthy", {"n": 1}, id="1", substream_name="camera")]
    )
    assert heard.passed == [note]
    assert heard.answers == [("1", "healthy", HEALTHY)]


async def test_an_answer_that_is_no_cancellation_passes() -> None:
    response = ProcessorPart.from_function_response(
        name="elsewhere", response={"result": 1}, role="user"
    )
    heard = await play(advanced(), [response, audio(1)])
    assert heard.parts[0] is response


def test_one_processor_serves_event_loops_one_after_the_other() -> None:
    async def slow(n: int) -> int:
        await asyncio.sleep(0)
        return n

    def in_thread(n: int) -> int:
        return n

    tools = advanced(slow, in_thread)

    async def many() -> None:
        parts = [call("slow", {"n": n}, id=f"s{n}") for n in range(10)]
        parts += [call("in_thread", {"n": n}, id=f"t{n}") for n in range(10)]
        async with asyncio.TaskGroup() as group:
            plays = [group.create_task(play(tools, list(parts))) for _ in range(5)]
        assert all(len(p.result().answers) == 20 for p in plays)

    async def one() -> Any:
        async with tools:
            return await tools.execute("in_thread", {"n": 1})

    for _ in range(3):
        asyncio.run(many())
        assert asyncio.run(one()).result == 1


async def test_a_session_that_is_named_is_the_one_its_calls_see() -> None:
    seen: list[str] = []

    async def whose(ctx: ToolContext) -> None:
        seen.append(ctx.session.id)

    tools = advanced(whose)
    async with processor.context():
        async for _ in tools.in_session(ToolSession("kitchen"))([call("whose", id="1")]):
            pass
        async for _ in tools([call("whose", id="1")]):
            pass
    assert seen[0] == "kitchen"
    assert seen[1] != "kitchen"


async def test_two_processors_in_one_task_count_only_their_own_calls() -> None:
    one, two = advanced(), advanced()
    async with processor.context():
        async for _ in one([call("healthy", {"n": 1}, id="1")]):
            pass
        async for _ in two([call("healthy", {"n": 1}, id="1")]):
            pass
    assert one.monitor.ledger.seen == two.monitor.ledger.seen == 1


LONG_IDS = ["x" * 200_000, "x" * 200_000 + "y", "é" * 300]


async def test_a_call_of_a_very_long_id_is_answered_under_the_id_as_it_was_given():
    @tool(effect="read")
    async def look() -> str:
        return "seen"

    names = ["look", "unknown"]
    parts = [call(name, id=name + each) for each in LONG_IDS for name in names]
    heard = await play(AdvancedToolProcessor([look]), [*parts, *parts])
    assert {id_: len(bodies) for id_, bodies in heard.by_id.items()} == {
        name + each: 1 for each in LONG_IDS for name in names
    }
    assert max(len(event["call_id"]) for event in heard.events) < 1_000


async def test_a_call_of_a_very_long_id_can_be_cancelled():
    begun = asyncio.Event()

    @tool(effect="read")
    async def look() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "seen"

    async with AdvancedToolProcessor([look]) as tools, Script(tools) as script:
        script.say(call("look", id=LONG_IDS[0]))
        await begun.wait()
        script.say(cancellation(LONG_IDS[0]))
    assert script.heard.answers == []
