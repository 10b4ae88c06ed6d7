"""Of very many tools a model sees some, and finds the others; never fewer unless asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leonidas_tools import AdvancedToolProcessor, Tool


def made(name: str, description: str = "", **options: Any) -> Tool[..., Any]:
    async def run() -> str:
        return name

    return Tool(run, name=name, description=description, effect="read", **options)


def many(count: int = 100) -> list[Tool[..., Any]]:
    return [made(f"tool_{n}", f"Does thing number {n}.") for n in range(count)]


def names(tools: AdvancedToolProcessor) -> list[str | None]:
    return [each.name for each in tools.declarations()[0].function_declarations or []]


def showing(*tools: Any, builtin_tools: bool = False, **show: Any) -> AdvancedToolProcessor:
    config = {"policies": {"show": show}} if show else None
    return AdvancedToolProcessor(tools, config, builtin_tools=builtin_tools)


def test_all_are_shown_unless_the_settings_say_otherwise() -> None:
    assert names(showing(*many())) == [f"tool_{n}" for n in range(100)]


def test_few_tools_are_all_shown_and_need_no_search() -> None:
    assert names(showing(*many(5), most=5)) == [f"tool_{n}" for n in range(5)]


def test_of_many_some_are_shown_and_the_search() -> None:
    assert names(showing(*many(), most=3)) == ["tool_0", "tool_1", "tool_2", "find_tools"]


def test_some_are_always_shown() -> None:
    tools = showing(*many(), most=1, always=["tool_4*", "tool_77"])
    shown = ["tool_0", "tool_4", *(f"tool_{n}" for n in range(40, 50)), "tool_77", "find_tools"]
    assert names(tools) == shown


def test_built_in_tools_are_always_shown() -> None:
    shown = names(showing(*many(), most=1, builtin_tools=True))
    assert {"think", "set_speech_rate", "find_tools", "tool_0"} <= set(shown)
    assert "tool_1" not in shown


async def test_what_is_found_is_shown_and_a_running_session_hears_of_it() -> None:
    tools = showing(*many(), made("book_flight", "Books a flight.", tags=["travel"]), most=2)
    heard = asyncio.Event()
    async with tools:
        stop = tools.on_declarations_change(heard.set)
        found = await tools.execute("find_tools", {"query": "travel by flight"})
        assert found.result == [{"name": "book_flight", "description": "Books a flight."}]
        async with asyncio.timeout(10):
            await heard.wait()
        stop()
    assert names(tools) == ["tool_0", "book_flight", "find_tools"]
    assert (await tools.execute("book_flight")).result == "book_flight"


async def test_the_latest_found_stay_when_there_is_no_room_for_all() -> None:
    tools = showing(*many(), most=2)
    for wanted in ("11", "22", "33"):
        await tools.execute("find_tools", {"query": wanted, "limit": 1})
    assert names(tools) == ["tool_22", "tool_33", "find_tools"]


async def test_an_application_can_choose_for_a_turn() -> None:
    tools = showing(*many(), most=2)
    tools.registry.prefer(tool.name for tool in tools.registry.search("number 55"))
    assert "tool_55" in names(tools)


async def test_what_is_not_shown_can_be_called_all_the_same() -> None:
    tools = showing(*many(), most=2)
    assert (await tools.execute("tool_99")).result == "tool_99"


async def test_nothing_found_is_said() -> None:
    tools = showing(*many(), most=2)
    result = await tools.execute("find_tools", {"query": "xyzzy"})
    assert (result.status, result.result) == ("no_results", None)


async def test_what_is_switched_off_is_not_found() -> None:
    tools = AdvancedToolProcessor(
        [*many(), made("book_flight", "Books.")],
        {"policies": {"show": {"most": 2}}, "tools": {"book_flight": {"enabled": False}}},
        builtin_tools=False,
    )
    tools.declarations()
    assert (await tools.execute("find_tools", {"query": "flight"})).status == "no_results"


@pytest.mark.parametrize("most", [1, 50, 99])
def test_no_more_are_shown_than_asked_for(most: int) -> None:
    assert len(names(showing(*many(), most=most))) == most + 1
