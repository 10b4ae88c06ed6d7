"""Of very many tools a model sees some, and finds the others; never fewer unless asked."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import Any

import pytest
from genai_processors import processor

from leonidas_tools import AdvancedToolProcessor, Tool, ToolSession
from leonidas_tools.approvals.transcript import Transcript
from leonidas_tools.simulator import FunctionCall, LiveSimulator, Scenario
from leonidas_tools.tools.preferred import PreferredTools
from leonidas_tools.tools.relevance import Relevance
from tests.live.talking import Talk


def made(name: str, description: str = "", **options: Any) -> Tool[..., Any]:
    async def run() -> str:
        return name

    return Tool(run, name=name, description=description, effect="read", **options)


def many(count: int = 100) -> list[Tool[..., Any]]:
    return [made(f"tool_{n}", f"Does thing number {n}.") for n in range(count)]


def names(tools: AdvancedToolProcessor, session: ToolSession | None = None) -> list[str | None]:
    return [each.name for each in tools.declarations(session)[0].function_declarations or []]


def showing(*tools: Any, builtin_tools: bool = False, **show: Any) -> AdvancedToolProcessor:
    config = {"policies": {"show": show}} if show else None
    return AdvancedToolProcessor(tools, config, builtin_tools=builtin_tools)


def test_all_are_shown_unless_the_settings_say_otherwise() -> None:
    assert names(showing(*many())) == [f"tool_{n}" for n in range(100)]


async def test_of_a_very_long_query_the_first_words_count() -> None:
    tools = showing(made("pay", "Pays a bill."), made("sing", "Sings."), *many(), most=20)
    words = " ".join(f"w{number}" for number in range(100))
    found = await tools.execute("find_tools", {"query": f"pay {words} sing"})
    assert [each["name"] for each in found.result] == ["pay"]
    repeated = await tools.execute("find_tools", {"query": "pay " * 100 + "sing"})
    assert {each["name"] for each in repeated.result} == {"pay", "sing"}


async def test_the_beginning_of_a_description_is_searched() -> None:
    said = "Pays a bill. " + "And so on. " * 100
    tools = showing(made("a", said + "Sings."), made("b", "Sings."), *many(), most=20)
    assert (await tools.execute("find_tools", {"query": "bill"})).result[0]["name"] == "a"
    found = await tools.execute("find_tools", {"query": "sings"})
    assert [each["name"] for each in found.result] == ["b"]


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


async def next_turn() -> None:
    """What was called back so far has run."""
    done = asyncio.Event()
    asyncio.get_running_loop().call_soon(done.set)
    await done.wait()


async def test_what_one_session_finds_is_declared_in_no_other() -> None:
    tools = showing(*many(), most=2)
    sessions = [ToolSession(name) for name in "abc"]
    told: list[str] = []
    ends = [
        tools.on_declarations_change(lambda name=each.id: told.append(name), each)
        for each in sessions
    ]
    ends.append(tools.on_declarations_change(lambda: told.append("any")))
    before = tools.declarations()
    for session, query in zip(sessions, ("11", "22"), strict=False):
        await tools.execute("find_tools", {"query": query, "limit": 1}, session=session)
    await next_turn()
    assert [names(tools, session) for session in sessions] == [
        ["tool_0", "tool_11", "find_tools"],
        ["tool_0", "tool_22", "find_tools"],
        ["tool_0", "tool_1", "find_tools"],
    ]
    assert sorted(told) == ["a", "b"]
    assert tools.declarations() == tools.declarations(ToolSession()) == before
    for end in ends:
        end()


async def test_a_session_that_ends_leaves_nothing_that_calls_back() -> None:
    tools, session = showing(*many(), most=2), ToolSession()
    told: list[str] = []
    tools.on_declarations_change(lambda: told.append("told"), session)()
    session.get(PreferredTools).prefer(["tool_11"])
    await next_turn()
    assert (told, names(tools, session)) == ([], ["tool_0", "tool_11", "find_tools"])


async def test_live_sessions_of_one_processor_find_each_their_own() -> None:
    tools = showing(*many(), most=2)
    both_found = threading.Barrier(2)  # scripts are played in threads of the simulators

    async def declared_about(thing: str) -> tuple[list[str], list[dict[str, Any]]]:
        async def only(session: Any) -> None:
            await session.wait_for_input("audio")
            await session.call(FunctionCall("find_tools", {"query": thing, "limit": 1}))
            while f"tool_{thing}" not in session._declared:
                session._changed.clear()
                await session._changed.wait()
            await asyncio.to_thread(both_found.wait, 20)
            declared.extend(session._declared)

        declared: list[str] = []
        async with LiveSimulator(Scenario(connections=[only]), speed=math.inf) as simulator:
            talk = Talk(simulator, tools, generation="3.8-live", session=ToolSession(thing))
            await talk.held()
        assert not simulator.violations
        return declared, [event for event in talk.events if event["event"] == "tools_changed"]

    async with tools, asyncio.timeout(30), processor.context():
        heard = await asyncio.gather(declared_about("11"), declared_about("22"))
    shown = [["tool_0", f"tool_{thing}", "find_tools"] for thing in ("11", "22")]
    assert heard == [(each, [{"event": "tools_changed", "tools": each}]) for each in shown]


def saying(*texts: str) -> ToolSession:
    session = ToolSession()
    for text in texts:
        session.get(Transcript).user_said(text)
        session.get(Transcript).model_spoke("I see.")
    return session


TRAVEL = made("book_flight", "Reserves a seat on a plane.", tags=["travel"])
RADIO = made("playMusic", "Starts a song on the loudspeaker.")
UMBRELLA = made("zeus", "Tells the weather of a city.")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("I need two flights to Rome.", "book_flight"),
        ("FLIGHT!", "book_flight"),
        ("something for my travels", "book_flight"),
        ("Booking, please", "book_flight"),
        ("Please put on some music", "playMusic"),
        ("which songs do you know", "playMusic"),
        ("How is the weather there?", "zeus"),
    ],
)
def test_what_fits_the_words_of_the_user_is_shown_first(said: str, shown: str) -> None:
    tools = showing(*many(), TRAVEL, RADIO, UMBRELLA, most=2)
    assert names(tools, saying(said)) == ["tool_0", shown, "find_tools"]
    assert names(tools) == names(tools, saying()) == ["tool_0", "tool_1", "find_tools"]


@pytest.mark.parametrize("said", ["Hello, does it work?", "a b c", "…", "航班", "thing thing"])
def test_words_that_say_nothing_leave_the_order(said: str) -> None:
    tools = showing(*many(), most=2)
    assert names(tools, saying(said)) == ["tool_0", "tool_1", "find_tools"]


def test_the_latest_words_count_and_the_choice_changes_only_with_them() -> None:
    tools = showing(*many(), TRAVEL, RADIO, most=1)
    session = saying("A flight.", *["nothing of use"] * 100, "Some music.")
    assert names(tools, session) == ["playMusic", "find_tools"]
    assert tools.runtime.declared(session) is tools.runtime.declared(session)
    session.get(Transcript).user_said("and " * 200)
    assert names(tools, session) == ["tool_0", "find_tools"]


async def test_what_was_found_goes_before_what_fits() -> None:
    tools, session = showing(*many(), TRAVEL, most=1), saying("A flight.")
    assert names(tools, session) == ["book_flight", "find_tools"]
    await tools.execute("find_tools", {"query": "77", "limit": 1}, session=session)
    assert names(tools, session) == ["tool_77", "find_tools"]


def test_the_words_of_the_settings_count() -> None:
    described = {"tool_50": {"description": "Orders pizza."}, "tool_60": {"tags": ["umbrella"]}}
    tools = AdvancedToolProcessor(
        many(), {"policies": {"show": {"most": 1}}, "tools": described}, builtin_tools=False
    )
    assert names(tools, saying("one pizza")) == ["tool_50", "find_tools"]
    assert names(tools, saying("my umbrella")) == ["tool_60", "find_tools"]


def test_what_is_denied_is_not_shown_because_it_fits() -> None:
    rules = [{"name": "no", "tools": "book_flight", "decide": "deny"}]
    config = {"policies": {"show": {"most": 1}, "rules": rules}}
    tools = AdvancedToolProcessor([*many(), TRAVEL], config, builtin_tools=False)
    assert names(tools, saying("A flight.")) == ["tool_0", "find_tools"]


def test_a_long_text_is_read_in_part_only() -> None:
    relevance = Relevance({f"t{n}": ("", f"word{n}x") for n in range(200)})
    assert len(relevance.best(" ".join(f"word{n}x" for n in range(200)))) == 100
    transcript = Transcript()
    for _ in range(50):
        transcript.user_said("x" * 10_000)
        transcript.model_spoke("yes")
    assert len(transcript.recent_speech(600)) == 600
    assert Transcript().recent_speech(600) == ""
