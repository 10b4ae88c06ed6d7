"""A result that takes long to convert, however small it looks, does not hold the event loop."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from types import FrameType
from typing import Any

import pytest

from leonidas_tools import AdvancedToolProcessor, Tool, ToolResult
from leonidas_tools.results.plain import plain

pytestmark = pytest.mark.slow

MAX_CALLS = 150_000
"""How many function calls the event loop may be held for; without a bound they are millions."""
BUDGETS = {"tokens": {"max_result_tokens": 4000}, "spill": {"overflow": "spill"}}


def nested(leaf: Any, width: int = 10, levels: int = 20) -> Any:
    for _ in range(levels):
        leaf = [leaf] * width
    return leaf


LARGE: dict[str, Callable[[], Any]] = {
    "shared lists": lambda: nested([]),
    "shared tuples": lambda: nested((1,)),
    "shared objects": lambda: nested({"a": {}}, 10, 12),
    "decimals": lambda: [Decimal(1)] * 1_000_000,
    "an endless range": lambda: range(10**12),
    "many keys": lambda: {n: n for n in range(1_000_000)},
}


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """Count the function calls of this thread, which runs the event loop."""
    calls = [0]

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        calls[0] += event == "call"

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def processor(function: Callable[..., Any], **options: Any) -> AdvancedToolProcessor:
    tool: Tool[..., Any] = Tool(function, name="look", effect="read", retry_attempts=0)
    return AdvancedToolProcessor([tool], {"tools": {"look": {"timeout": 100, **options}}})


@pytest.mark.parametrize(
    ("large", "budget"), [*((each, "tokens") for each in LARGE), ("shared lists", "spill")]
)
async def test_a_value_that_takes_long_to_convert_is_converted_beside_the_event_loop(
    large: str, budget: str
) -> None:
    value = LARGE[large]()

    async def look() -> Any:
        return value

    async with processor(look, **BUDGETS[budget]) as tools:
        with counted_calls() as calls:
            result = await tools.execute("look")

    assert calls[0] < MAX_CALLS
    assert result.ok, result.message
    assert result.message, "nothing was left out"


async def test_what_a_generator_yields_is_measured_there_too() -> None:
    async def look() -> AsyncIterator[Any]:
        yield nested([])
        yield range(10**12)

    async with processor(look, collect=True, max_result_tokens=4000) as tools:
        with counted_calls() as calls:
            result = await tools.execute("look")

    assert calls[0] < MAX_CALLS
    assert result.ok, result.message


@pytest.mark.parametrize("text", ["里斯本" * 3_000_000, ["a b " * 3_000_000]], ids=["text", "list"])
@pytest.mark.parametrize("budget", BUDGETS)
async def test_a_result_too_long_to_be_kept_whole_is_cut(text: Any, budget: str) -> None:
    async def look() -> ToolResult:
        return ToolResult(result=text, message="Here it is.")

    async with processor(look, **BUDGETS[budget]) as tools:
        result = await tools.execute("look")

    assert result.ok
    assert str(result.message).startswith("Here it is.")


@pytest.mark.parametrize("leaf", [[], (1,), {"a": ()}], ids=["list", "tuple", "object"])
def test_no_more_lists_are_copied_than_can_be_dropped_at_once(leaf: Any) -> None:
    shown, cut = plain(nested(leaf), 8 * 1024 * 1024)

    waiting, lists = [shown], 0
    while waiting:
        each = waiting.pop()
        if isinstance(each, list | dict):
            lists += 1
            waiting.extend(each.values() if isinstance(each, dict) else each)
    assert cut
    assert lists <= 2 * 262_144
