"""What a tool, or the defaults, have set does not hold where the settings say `off`."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from leonidas_tools import Tool
from leonidas_tools.live.tool_wishes import filler_for
from tests.policies.bench import Steps, quiet
from tests.policies.clock import in_no_time
from tests.policies.runs import tools_of

ON_AND_OFF = pytest.mark.parametrize(
    ("said", "holds"), [({}, True), ({"look": "off"}, False), ({"look": False}, False)]
)


def settings(key: str, said: dict[str, Any], **default: Any) -> dict[str, Any]:
    tools = {"look": {key: said["look"]}} if said else {}
    return {"tools": tools, "defaults": default}


@ON_AND_OFF
async def test_a_result_is_not_used_again(said: dict[str, Any], holds: bool) -> None:
    runs = itertools.count(1)
    look = Tool(lambda: next(runs), name="look", effect="read")
    tools = tools_of(look, **settings("cache_seconds", said, cache_seconds=60))
    results = [await tools.execute("look") for _ in range(2)]
    assert [result.result for result in results] == [1, 1 if holds else 2]


@ON_AND_OFF
@in_no_time
async def test_an_old_result_does_not_stand_in(said: dict[str, Any], holds: bool) -> None:
    runs = itertools.count(1)

    def look() -> int:
        return 1 // (2 - next(runs))  # fails from the second time on

    own = {"effect": "read", "cache_seconds": 5, "retry_attempts": 0}
    tools = tools_of(
        Tool(look, stale_if_error_seconds=3600, **own), **settings("stale_if_error", said)
    )
    await tools.execute("look")
    await asyncio.sleep(10)
    assert (await tools.execute("look")).ok is holds


@ON_AND_OFF
@in_no_time
async def test_a_call_has_no_deadline(said: dict[str, Any], holds: bool) -> None:
    async def look() -> None:
        await asyncio.sleep(5)

    made = Tool(look, effect="read", timeout_seconds=10, deadline_seconds=2)
    tools = tools_of(made, **settings("deadline", said))
    assert (await tools.execute("look")).status == ("timeout" if holds else "ok")


@ON_AND_OFF
async def test_any_number_runs_at_once(said: dict[str, Any], holds: bool) -> None:
    steps = Steps()
    look = steps.tool("look", effect="read")
    tools = tools_of(look, **settings("concurrency", said, concurrency=1))
    calls = [asyncio.create_task(tools.execute("look", {"step": step})) for step in "ab"]
    await quiet()
    assert steps.log == (["+a"] if holds else ["+a", "+b"])
    steps.finish("a", "b")
    await asyncio.gather(*calls)


@pytest.mark.parametrize("per", ["turn", "minute", "session"])
@ON_AND_OFF
async def test_any_number_is_called(per: str, said: dict[str, Any], holds: bool) -> None:
    key = f"calls_per_{per}"
    tools = tools_of(Tool(lambda: 1, name="look"), **settings(key, said, **{key: 1}))
    statuses = [(await tools.execute("look")).status for _ in range(2)]
    assert statuses == ["ok", "limited" if holds else "ok"]


@ON_AND_OFF
async def test_a_result_is_as_long_as_it_is(said: dict[str, Any], holds: bool) -> None:
    look = Tool(lambda: "long " * 100, name="look", max_result_tokens=10)
    tools = tools_of(look, **settings("max_result_tokens", said))
    assert ((await tools.execute("look")).result != "long " * 100) is holds


@ON_AND_OFF
def test_silence_is_not_filled(said: dict[str, Any], holds: bool) -> None:
    look = Tool(lambda: 1, name="look", filler_after_seconds=2)
    tools = tools_of(look, **settings("filler_after", said))
    assert (filler_for(tools, "look") is not None) is holds
