"""Plain functions before and after a call."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import AsyncMock

import pytest

from leonidas_tools import (
    AdvancedToolProcessor,
    ResultStatus,
    Tool,
    ToolCall,
    ToolError,
    ToolResult,
)
from leonidas_tools.calls.call import Run
from leonidas_tools.errors import ToolDeniedError
from leonidas_tools.policies.hooks import After, Before
from tests.policies.bench import Bench

DENIED = ToolResult(status=ResultStatus.DENIED, message="Not on Sundays.")


class Order:
    """A tool, and what it was given."""

    def __init__(self) -> None:
        self.given: list[int] = []

    def bench(self, *around: Any, **settings: Any) -> Bench:
        async def order(n: int, note: str = "") -> int:
            self.given.append(n)
            if n < 0:
                raise ValueError(n)
            return n

        return Bench(Tool(order, retry_attempts=0), around=around, **settings)


async def test_a_function_before_a_call_sees_it_and_lets_it_be() -> None:
    order = Order()
    seen: list[tuple[str, Any]] = []
    bench = order.bench(Before(lambda call: seen.append((call.name, dict(call.arguments)))))
    assert (await bench.run("order", n="7")).result == 7
    assert (seen, order.given) == ([("order", {"n": "7"})], [7])


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_function_before_a_call_may_answer_in_the_tools_place(kind: str) -> None:
    async def refuse(_: ToolCall) -> ToolResult:
        return DENIED

    order = Order()
    bench = order.bench(Before(refuse if kind == "async" else lambda _: DENIED))
    assert await bench.run("order", n=7) == DENIED
    assert order.given == []
    assert bench.ends == [("order", "tool_error")]


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_function_before_a_call_may_change_it(kind: str) -> None:
    def double(call: ToolCall) -> ToolCall:
        return call.with_arguments({"n": call.arguments["n"] * 2})

    async def double_later(call: ToolCall) -> ToolCall:
        await asyncio.sleep(0)
        return double(call)

    order = Order()
    bench = order.bench(Before(double_later if kind == "async" else double))
    assert (await bench.run("order", n=7)).result == 14


async def test_what_it_changes_is_validated_and_completed_again() -> None:
    order = Order()
    bad = order.bench(Before(lambda call: call.with_arguments({"n": "many"})))
    assert (await bad.run("order", n=7)).status == "invalid_argument"
    unknown = order.bench(Before(lambda call: call.with_arguments({**call.arguments, "x": 1})))
    assert (await unknown.run("order", n=7)).reason_code == "unknown_argument"
    assert order.given == []
    mended = order.bench(Before(lambda call: call.with_arguments({"n": "8"})))
    assert (await mended.run("order")).result == 8


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_function_after_a_call_sees_the_result_and_may_replace_it(kind: str) -> None:
    def label(call: ToolCall, result: ToolResult) -> ToolResult | None:
        seen.append((call.name, result.status.value))
        return replace(result, result=f"no. {result.result}") if result.ok else None

    async def label_later(call: ToolCall, result: ToolResult) -> ToolResult | None:
        await asyncio.sleep(0)
        return label(call, result)

    seen: list[tuple[str, str]] = []
    bench = Order().bench(After(label_later if kind == "async" else label))
    assert (await bench.run("order", n=7)).result == "no. 7"
    assert (await bench.run("order", n=-1)).message == "The tool 'order' failed."
    assert (await bench.run("order", n="x")).status == "invalid_argument"
    assert seen == [("order", "ok"), ("order", "failed"), ("order", "invalid_argument")]


@pytest.mark.parametrize(
    "policy",
    [
        Before(lambda _: ToolResult(result={"x" * 1000, 7})),
        After(lambda _, result: replace(result, result={"x" * 1000, result.result})),
    ],
    ids=["before", "after"],
)
async def test_what_it_replaces_the_result_with_is_made_plain_and_bounded(policy: Any) -> None:
    bench = Order().bench(policy, policies={"max_result_bytes": 200})
    result = await bench.run("order", n=7)
    assert result.message == "The result was truncated: it is longer than 200 bytes."
    assert len(str(result.result)) < 300


async def test_they_stand_around_each_other_as_they_are_listed() -> None:
    def note(word: str) -> tuple[Before, After]:
        return Before(lambda _: log.append(word)), After(lambda *_: log.append(word.upper()))

    log: list[str] = []
    bench = Order().bench(*note("a"), *note("b"))
    await bench.run("order", n=7)
    assert log == ["a", "b", "B", "A"]


async def test_a_policy_is_any_function_around_the_call() -> None:
    async def twice(call: ToolCall, run: Run) -> ToolResult:
        first, second = await run(call), await run(call)
        return replace(first, result=[first.result, second.result])

    order = Order()
    assert (await order.bench(twice).run("order", n=7)).result == [7, 7]
    assert order.given == [7, 7]


@pytest.mark.parametrize("where", ["before", "after", "around"])
async def test_an_error_that_is_meant_for_the_model_is_read_by_it(where: str) -> None:
    def deny(*_: Any) -> None:
        raise ToolDeniedError("Not on Sundays.", retry_hint="Call on Monday.")

    async def around(call: ToolCall, run: Run) -> ToolResult:
        deny()
        return await run(call)

    policy = {"before": Before(deny), "after": After(deny), "around": around}[where]
    bench = Order().bench(policy)
    assert (await bench.run("order", n=7)).to_response() == {
        "status": "denied",
        "message": "Not on Sundays.",
        "retryable": False,
        "retry_hint": "Call on Monday.",
    }
    assert bench.ends == [("order", "tool_error")]


@pytest.mark.parametrize(
    "raised", [ValueError("hunter2"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr
)
@pytest.mark.parametrize("hook", [Before, After])
async def test_any_other_error_it_raises_is_one_failed_answer(
    hook: Any, raised: BaseException
) -> None:
    def fail(*_: Any) -> None:
        raise raised

    bench = Order().bench(hook(fail))
    assert (await bench.run("order", n=7)).to_response() == {
        "status": "failed",
        "message": "The tool 'order' failed.",
        "retryable": False,
    }
    assert bench.ends == [("order", "tool_failed")]


async def test_a_message_for_the_model_is_bounded_too() -> None:
    def deny(_: ToolCall) -> None:
        raise ToolError("x" * 1_000_000, valid_options=[{7}] * 3)

    result = await Order().bench(Before(deny)).run("order", n=7)
    assert len(str(result.to_response())) < 10_000


async def test_an_error_with_a_status_there_is_not_is_one_failed_answer() -> None:
    def deny(_: ToolCall) -> None:
        raise ToolError("No.", status={7})  # type: ignore[arg-type]  # what must not happen

    assert (await Order().bench(Before(deny)).run("order", n=7)).status == "failed"


async def test_a_call_is_cancelled_while_a_hook_waits() -> None:
    async def ask(_: ToolCall) -> None:
        asked.set()
        await asyncio.Event().wait()

    asked = asyncio.Event()
    order = Order()
    bench = order.bench(Before(ask))
    call = bench.start("order", n=7)
    await asked.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    while not bench.ends:
        await asyncio.sleep(0)
    assert (order.given, bench.ends) == ([], [("order", "tool_cancel")])


def test_what_is_no_policy_is_refused_before_any_call():
    with pytest.raises(TypeError, match="1 is not a policy"):
        AdvancedToolProcessor(policies=[1])


class Stamped(Before):
    """A policy derived from one that leaves results as they are."""

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        result = await Before.__call__(self, call, run)
        return replace(result, result={"x" * 1000, result.result})


async def test_what_is_derived_from_such_a_policy_may_return_anything() -> None:
    for policy in (
        Stamped(lambda _: None),
        AsyncMock(return_value=ToolResult(result={"x" * 1000})),
    ):
        result = await Order().bench(policy, policies={"max_result_bytes": 200}).run("order", n=7)
        assert isinstance(result.result, list)
        assert len(str(result.result)) < 300


class Odd:
    """Policies that are called in unusual ways."""

    class KeywordOnly:
        async def __call__(self, call: ToolCall, *, run: Run) -> ToolResult:
            return await run(call)

    class Static:
        @staticmethod
        async def __call__(call: ToolCall, run: Run) -> ToolResult:
            return await run(call)

    async def bound(self, call: ToolCall, run: Run) -> ToolResult:
        return await run(call)


async def test_a_policy_is_called_as_python_calls_it() -> None:
    around = [Odd.KeywordOnly(), Odd.Static(), Odd().bound, partial(Odd.bound, None)]
    assert (await Order().bench(*around).run("order", n=7)).result == 7


@pytest.mark.parametrize("value", [list(range(1000)), {"a": "x" * 500, "b": "y" * 500}])
async def test_what_was_cut_is_not_cut_again_where_somebody_may_have_changed_it(value: Any) -> None:
    def get() -> Any:
        return value

    cut, seen = [
        await Bench(Tool(get), around=around, policies={"max_result_bytes": 200}).run("get")
        for around in ([], [After(lambda _, __: None)])
    ]
    assert cut.message == "The result was truncated: it is longer than 200 bytes."
    assert cut == seen


async def test_what_a_policy_runs_begins_when_it_awaits_that() -> None:
    async def late(call: ToolCall, run: Run) -> ToolResult:
        never, running = run(call), asyncio.create_task(run(call))
        never.close()
        try:
            return await running
        except ToolError as error:
            return ToolResult(result=f"caught: {error.message}")

    seen: list[str] = []

    def refuse(call: ToolCall) -> None:
        seen.append(call.name)
        raise ToolError("no")

    order = Order()
    result = await order.bench(late, Before(refuse)).run("order", n=7)
    assert (result.result, seen, order.given) == ("caught: no", ["order"], [])
