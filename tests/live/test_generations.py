"""Each generation opens, calls and answers, against a simulator that refuses what it refuses."""

import asyncio
from typing import Literal

import pytest
from google.genai import Client

from leonidas_tools import (
    AdvancedToolProcessor,
    GeminiLiveProcessor,
    LiveToolSession,
    ToolContext,
    ToolResult,
    tool,
)
from leonidas_tools.calls.call import Media
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.simulator import FunctionCall, LiveSimulator, Scenario
from tests.live.talking import MODELS, VERTEX_MODELS

ALL = {**MODELS, **VERTEX_MODELS}
UNKNOWN = "gemini-9-live"
RICH = {
    "proactivity": {"proactive_audio": True},
    "enable_affective_dialog": True,
    "thinking_config": {"thinking_level": "HIGH"},
}


@tool(effect="once", behavior="blocking", scheduling="interrupt")
async def book(
    seats: list[int], mode: Literal["bus", "train"] = "bus", note: str | None = None
) -> str:
    """Books seats."""
    return f"{mode} {seats}"


@tool(effect="read", behavior="non_blocking", scheduling={"ok": "when_idle", "progress": "silent"})
async def draw(ctx: ToolContext, options: dict[str, int]) -> ToolResult:
    """Draws a chart."""
    ctx.progress("half done")
    files = ("image/png", "application/pdf")
    return ToolResult(
        result="a chart", media=tuple(Media(mime_type=kind, data=b"x") for kind in files)
    )


async def calls(session):
    await session.wait_for_input("text")
    await session.call(FunctionCall("book", {"seats": [4]}), FunctionCall("draw", {"options": {}}))
    await session.say("Done.", audio_seconds=0)
    await session.turn_complete()


async def conversed(
    scenario, model, generation, *, config=None, version=None, settings=None, profile=None
):
    """Hold a conversation, in which the user says one thing, and return the simulator."""
    async with LiveSimulator(scenario, generation=generation) as simulator:
        options = simulator.http_options()
        options.api_version = version or options.api_version
        client = Client(api_key="x", vertexai=generation in VERTEX_MODELS, http_options=options)

        async def user():
            yield "Book me a seat."
            await simulator.finished()

        live = GeminiLiveProcessor(model, client=client, config=config, profile=profile)
        async with asyncio.timeout(30):
            session = LiveToolSession(live, AdvancedToolProcessor([book, draw], config=settings))
            async for _ in session(user()):
                pass
    return simulator


async def call_slow(scenario, generation, slow, event, text):
    """Hold a conversation over two connections; the user speaks again after the event."""
    async with LiveSimulator(scenario, generation=generation) as simulator:

        async def user():
            yield "Do it."
            await event.wait()
            yield text
            await simulator.finished(2)

        live = GeminiLiveProcessor(
            ALL[generation], api_key="x", http_options=simulator.http_options()
        )
        async with asyncio.timeout(30):
            async for _ in LiveToolSession(live, AdvancedToolProcessor([slow]))(user()):
                pass
    return simulator


@pytest.mark.parametrize("generation", ALL)
@pytest.mark.parametrize("config", [None, RICH], ids=["plain", "rich"])
async def test_a_generation_opens_and_calls(generation, config):
    version = None if config is None else "v1alpha"
    simulator = await conversed(calls, ALL[generation], generation, config=config, version=version)
    statuses = [
        [answer.status for answer in call.answers if answer.final] for call in simulator.calls
    ]
    assert statuses == [["ok"], ["ok"]]
    assert [outcome.status for outcome in simulator.outcomes] == ["played"]


@pytest.mark.parametrize("generation", [each for each in ALL if each != "3.8-thinking"])
async def test_an_unknown_model_is_refused_nothing(generation):
    simulator = await conversed(calls, UNKNOWN, generation)
    assert simulator.violations == ()


async def test_an_unknown_model_is_reported_once(caplog):
    for _ in range(2):
        await conversed(calls, "gemini-10-live", "3.1")
    (said,) = [each.getMessage() for each in caplog.records if "is unknown" in each.getMessage()]
    assert said.startswith("The model 'gemini-10-live' is unknown: only features that every model ")
    assert "`leonidas live probe --model gemini-10-live` measures what it supports" in said


@pytest.mark.parametrize(("model", "profile"), [("gemini-3.8-live", None), ("x", "3.8-live")])
async def test_a_known_profile_is_not_reported(model, profile, caplog):
    await conversed(calls, model, "3.8-live", profile=profile)
    assert "is unknown" not in caplog.text


@pytest.fixture
def settings(tmp_path):
    """Settings that name a profile for `gemini-11-live`."""
    (tmp_path / "mine.yaml").write_text("mine:\n  like: 3.8-live\n  models: [gemini-11-live]\n")
    file = tmp_path / "tools.yaml"
    file.write_text("version: 1\nprofiles: [mine.yaml]\n")
    return file


async def test_the_settings_name_a_profile(settings, caplog):
    simulator = await conversed(calls, "gemini-11-live", "3.8-live", settings=settings)
    (setup,) = simulator.setups
    declared = {each["name"]: each for each in setup["tools"][0]["functionDeclarations"]}
    assert declared["draw"]["behavior"] == "NON_BLOCKING"
    assert simulator.violations == ()
    assert "is unknown" not in caplog.text


def test_a_model_of_known_tools_has_their_profile(settings):
    tools = AdvancedToolProcessor([draw], config=settings)
    assert GeminiLiveProcessor("gemini-11-live", tools=tools, api_key="x").profile.name == "mine"
    named = GeminiLiveProcessor("other", tools=tools, profile="mine", api_key="x")
    assert named.profile.name == "mine"
    (declared,) = tools.declarations(model="gemini-11-live")
    assert declared.function_declarations[0].behavior == "NON_BLOCKING"


def test_a_wrong_file_of_profiles_is_named(settings):
    settings.with_name("mine.yaml").write_text("mine:\n  like: 3.8-life\n")
    tools = AdvancedToolProcessor([draw], config=settings)
    with pytest.raises(ConfigurationError, match=r"mine\.yaml:2: mine\.like: there is no profile"):
        GeminiLiveProcessor("gemini-11-live", tools=tools, api_key="x")


def test_proactivity_needs_its_version():
    given = {"config": {"proactivity": {"proactive_audio": True}}, "api_key": "x"}
    chosen = GeminiLiveProcessor("gemini-3.8-live", **given)
    assert chosen.client._api_client._http_options.api_version == "v1alpha"
    with pytest.raises(ConfigurationError, match="needs version 'v1alpha' of the API"):
        GeminiLiveProcessor("gemini-3.8-live", http_options={"api_version": "v1beta"}, **given)


def test_an_own_compression_is_kept():
    own = {"context_window_compression": {"trigger_tokens": 9000}}
    live = GeminiLiveProcessor("gemini-3.8-live", api_key="x", config=own)
    assert live.config.context_window_compression.trigger_tokens == 9000
    assert live.config.context_window_compression.sliding_window is None


@pytest.mark.parametrize("generation", ["2.5", "3.8-live", "3.8-thinking"])
async def test_the_turn_after_a_lost_call_is_heard(generation):
    dropped = asyncio.Event()

    async def first(session):
        await session.wait_for_input("text")
        await session.session_resumption("h")
        await session.send_calls(FunctionCall("slow", {}))
        await session.drop()

    async def second(session):
        loop.call_soon_threadsafe(dropped.set)
        await session.wait_for_input("text", containing="Hello?")
        await session.wait_for_input("text", containing="at last")
        await session.turn_complete()

    @tool(effect="once")
    async def slow() -> str:
        """Takes long."""
        await dropped.wait()
        return "at last"

    loop = asyncio.get_running_loop()
    scenario = Scenario(connections=[first, second])
    simulator = await call_slow(scenario, generation, slow, dropped, "Hello?")
    assert [outcome.status for outcome in simulator.outcomes] == ["played", "played"]


async def test_a_lost_call_made_again_gets_its_result():
    lost, answers = asyncio.Event(), []

    async def first(session):
        await session.wait_for_input("text")
        await session.session_resumption("h")
        await session.send_calls(FunctionCall("slow", {}, id="first"))
        await session.wait_for_input("text", containing="It runs.")
        await session.drop()

    async def second(session):
        loop.call_soon_threadsafe(lost.set)
        answers.extend(await session.call(FunctionCall("slow", {}, id="again")))
        await session.turn_complete()

    @tool(effect="once")
    async def slow() -> str:
        """Takes long."""
        began.set()
        await lost.wait()
        return "at last"

    loop, began = asyncio.get_running_loop(), asyncio.Event()
    scenario = Scenario(connections=[first, second])
    await call_slow(scenario, "3.8-live", slow, began, "It runs.")
    assert [(each.id, each.response["result"]) for each in answers] == [("again", "at last")]
