"""The agent's own tools, as a session calls them."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from genai_processors import processor

from leonidas_tools import AdvancedToolProcessor, ToolSession
from leonidas_tools.session.speech import SpeechState
from leonidas_tools.session.state import AgentState
from tests.promises.faults.play import Script, call, cancellation, play


async def called(session, name, /, tools=None, **arguments):
    """The envelope of one call in a session."""
    tools = (tools or AdvancedToolProcessor()).in_session(session)
    heard = await play(tools, [call(name, arguments, id="1")])
    (answer,) = heard.answers
    return answer[2]


def test_they_are_the_agents_own_and_of_their_categories():
    registry = AdvancedToolProcessor().registry
    assert {tool.name for tool in registry.by_category("action")} == {
        "think", "change_state", "wait_in_silence", "shutdown_system",
    }  # fmt: skip
    assert {tool.name for tool in registry.by_category("speech")} == {
        "set_speech_rate", "set_speech_volume", "change_voice",
        "pause_speech", "resume_speech", "emphasize_text",
    }  # fmt: skip
    assert len(AdvancedToolProcessor(builtin_tools=False).registry) == 0


# --- action ----------------------------------------------------------------------------------


async def test_think_gives_back_what_was_thought():
    thought = {"analysis": "a", "reasoning": "r", "plan": "p"}
    before = datetime.now(UTC) - timedelta(seconds=1)
    told = (await called(ToolSession(), "think", **thought))["result"]
    assert before < datetime.fromisoformat(told.pop("timestamp")) <= datetime.now(UTC)
    assert told == thought


@pytest.mark.parametrize("name", ["analysis", "reasoning", "plan"])
@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u3000", "\u00a0"])
async def test_think_refuses_an_empty_text(name, text):
    thought = {"analysis": "a", "reasoning": "r", "plan": "p"} | {name: text}
    envelope = await called(ToolSession(), "think", **thought)
    assert envelope["status"] == "invalid_argument"
    assert name in envelope["message"]


async def test_the_timestamp_of_a_thought_hides_no_loop():
    session = ToolSession()
    tools = AdvancedToolProcessor()
    thought = {"analysis": "a", "reasoning": "r", "plan": "p"}
    ended = [(await tools.execute("think", thought, session=session)).status for _ in range(5)]
    assert ended == ["ok"] * 4 + ["loop"]


@pytest.mark.parametrize("missing", ["analysis", "reasoning", "plan"])
async def test_think_needs_all_three(missing):
    thought = {"analysis": "a", "reasoning": "r", "plan": "p"}
    del thought[missing]
    envelope = await called(ToolSession(), "think", **thought)
    assert envelope["status"] == "invalid_argument"
    assert missing in envelope["message"]


async def test_change_state_returns_both_states_of_a_real_state_manager():
    session = ToolSession()
    envelope = await called(session, "change_state", new_state="listening", reason="they speak")
    assert datetime.fromisoformat(envelope["result"].pop("timestamp")).tzinfo is UTC
    assert envelope["result"] == {
        "previous_state": "idle", "new_state": "listening", "reason": "they speak",
    }  # fmt: skip
    envelope = await called(session, "change_state", new_state="thinking", reason="a riddle")
    assert envelope["result"]["previous_state"] == "listening"
    state = session.get(AgentState)
    assert [(c.previous, c.new, c.reason) for c in state.history] == [
        ("idle", "listening", "they speak"),
        ("listening", "thinking", "a riddle"),
    ]
    assert state.roll_back().new == "listening"
    assert state.current == "listening"


async def test_a_state_that_does_not_exist_is_refused_with_those_that_do():
    session = ToolSession()
    envelope = await called(session, "change_state", new_state="dancing", reason="fun")
    assert (envelope["status"], envelope["reason_code"]) == ("invalid_argument", "not_an_option")
    assert envelope["valid_options"] == ["listening", "thinking", "speaking", "working", "waiting"]
    assert session.get(AgentState).history == []


async def test_the_allowed_states_may_be_set():
    allowed = {"tools": {"change_state": {"custom_parameters": {"allowed_states": ["a", "b"]}}}}
    tools, session = AdvancedToolProcessor(config=allowed), ToolSession()
    envelope = await called(session, "change_state", tools, new_state="a", reason="r")
    assert envelope["result"]["new_state"] == "a"
    envelope = await called(session, "change_state", tools, new_state="working", reason="r")
    assert envelope["valid_options"] == ["b"]


async def test_transitions_that_the_application_has_set_hold():
    session = ToolSession()
    session.put(AgentState(["idle", "listening", "speaking"], {"idle": ["listening"]}))
    envelope = await called(session, "change_state", new_state="speaking", reason="r")
    assert envelope["valid_options"] == ["listening"]


async def test_only_shutdown_system_ends_the_session():
    session = ToolSession()
    envelope = await called(session, "change_state", new_state="shutting_down", reason="r")
    assert envelope["status"] == "invalid_argument"
    assert not session.get(AgentState).shutdown_requested
    envelope = await called(session, "shutdown_system", reason="they said goodbye")
    assert envelope["result"] == {
        "previous_state": "idle", "new_state": "shutting_down", "reason": "they said goodbye",
    }  # fmt: skip
    assert session.get(AgentState).shutdown_requested


async def test_shutdown_works_with_any_allowed_states():
    allowed = {"tools": {"change_state": {"custom_parameters": {"allowed_states": ["a", "b"]}}}}
    tools, session = AdvancedToolProcessor(config=allowed), ToolSession()
    await called(session, "change_state", tools, new_state="a", reason="r")
    envelope = await called(session, "shutdown_system", tools, reason="r")
    assert envelope["status"] == "ok"


async def test_wait_in_silence_lets_nothing_be_heard_until_it_is_cancelled():
    session = ToolSession()
    speech = session.get(SpeechState)
    async with Script(AdvancedToolProcessor().in_session(session)) as script:
        paused = asyncio.Event()
        speech.on_change(lambda settings: paused.set())
        script.say(call("wait_in_silence", {"seconds": 60, "reason": "a moment"}, id="1"))
        async with asyncio.timeout(10):
            await paused.wait()
        assert 50 < speech.paused_seconds <= 60
        script.say(cancellation("1"))
        await script.until_event("tool_cancel", "1")
        assert speech.paused_seconds == 0
    assert script.heard.answers == []


async def test_wait_in_silence_ends_and_says_how_long_it_was():
    session = ToolSession()
    envelope = await called(session, "wait_in_silence", seconds=0.01)
    assert envelope["result"]["waited_seconds"] == 0.01
    assert session.get(SpeechState).paused_seconds == 0


async def test_other_tools_run_while_it_is_silent():
    async with Script(AdvancedToolProcessor()) as script:
        script.say(
            call("wait_in_silence", {"seconds": 60}, id="silence"),
            call("change_state", {"new_state": "waiting", "reason": "r"}, id="state"),
        )
        heard = await script.until_answered("state")
        assert heard.by_id["state"][0]["status"] == "ok"
        script.say(cancellation("silence"))


@pytest.mark.parametrize("seconds", [0, -1, 61])
async def test_a_silence_has_its_bounds(seconds):
    envelope = await called(ToolSession(), "wait_in_silence", seconds=seconds)
    assert envelope["status"] == "invalid_argument"


# --- speech ----------------------------------------------------------------------------------


async def test_speech_tools_change_what_the_audio_side_reads():
    session = ToolSession()
    speech = session.get(SpeechState)
    heard = []
    speech.on_change(heard.append)
    assert (await called(session, "set_speech_rate", rate=1.5))["result"] == {
        "previous_rate": 1.0, "rate": 1.5,
    }  # fmt: skip
    assert (await called(session, "set_speech_volume", volume=0.5))["result"] == {
        "previous_volume": 1.0, "volume": 0.5,
    }  # fmt: skip
    assert (await called(session, "change_voice", voice="Kore"))["result"] == {
        "previous_voice": None, "voice": "Kore",
    }  # fmt: skip
    assert (await called(session, "emphasize_text", text="now"))["result"] == {"emphasis": ["now"]}
    now = speech.current
    assert (now.rate, now.volume, now.voice, now.emphasis) == (1.5, 0.5, "Kore", ("now",))
    assert [settings.rate for settings in heard] == [1.5] * 4
    assert speech.roll_back().emphasis == ()
    assert speech.roll_back().voice is None


SPEECH_CALLS = {
    "rate": ("set_speech_rate", {"rate": 1.5}),
    "volume": ("set_speech_volume", {"volume": 0.5}),
    "voice": ("change_voice", {"voice": "Kore"}),
    "paused_until": ("pause_speech", {"seconds": 1}),
    "emphasis": ("emphasize_text", {"text": "now"}),
}


@pytest.mark.parametrize("setting", SPEECH_CALLS)
async def test_a_change_that_cannot_be_heard_is_reported_to_the_model(setting):
    name, arguments = SPEECH_CALLS[setting]
    session = ToolSession()
    speech = session.get(SpeechState)
    others = [each for each in SPEECH_CALLS if each != setting]
    speech.on_change(lambda settings: None, heard=others)
    envelope = await called(session, name, **arguments)
    assert (envelope["status"], envelope["result"] is None) == ("ok", False)
    assert "this session cannot change the audio" in envelope["message"]
    end = speech.on_change(lambda settings: None, heard=[setting])
    assert "message" not in await called(session, name, **arguments)
    end()
    assert "message" in await called(session, name, **arguments)


async def test_speech_is_paused_and_resumed():
    session = ToolSession()
    speech = session.get(SpeechState)
    assert (await called(session, "pause_speech", seconds=30))["result"] == {"paused_seconds": 30}
    assert 20 < speech.paused_seconds <= 30
    assert (await called(session, "resume_speech"))["result"] == {"was_paused": True}
    assert speech.paused_seconds == 0
    assert (await called(session, "resume_speech"))["result"] == {"was_paused": False}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("set_speech_rate", {"rate": 0.49}),
        ("set_speech_rate", {"rate": 2.01}),
        ("set_speech_rate", {"rate": "fast"}),
        ("set_speech_volume", {"volume": -0.1}),
        ("set_speech_volume", {"volume": 2.1}),
        ("change_voice", {"voice": "HAL"}),
        ("pause_speech", {"seconds": 31}),
        ("pause_speech", {"seconds": 0}),
        ("emphasize_text", {"text": ""}),
    ],
)
async def test_what_is_out_of_bounds_changes_nothing(name, arguments):
    session = ToolSession()
    envelope = await called(session, name, **arguments)
    assert envelope["status"] == "invalid_argument"
    assert session.get(SpeechState).current == SpeechState().current


async def test_a_voice_that_does_not_exist_is_answered_with_those_that_do():
    envelope = await called(ToolSession(), "change_voice", voice="HAL")
    assert sorted(envelope["valid_options"]) == [
        "Aoede", "Charon", "Fenrir", "Kore", "Leda", "Puck",
    ]  # fmt: skip


@pytest.mark.parametrize("rate", [0.5, 2.0, "1.5", 1])
async def test_the_bounds_themselves_and_numbers_as_text_are_taken(rate):
    session = ToolSession()
    assert (await called(session, "set_speech_rate", rate=rate))["status"] == "ok"
    assert session.get(SpeechState).current.rate == float(rate)


async def test_each_session_has_a_state_of_its_own():
    tools, one, two = AdvancedToolProcessor(), ToolSession("one"), ToolSession("two")
    async with tools:
        await called(one, "set_speech_rate", tools, rate=2.0)
        await called(two, "change_state", tools, new_state="speaking", reason="r")
    assert (one.get(SpeechState).current.rate, two.get(SpeechState).current.rate) == (2.0, 1.0)
    assert (one.get(AgentState).current, two.get(AgentState).current) == ("idle", "speaking")


async def test_a_tool_of_the_user_replaces_a_built_in_one_whichever_comes_first():
    async def think(thought: str) -> str:
        """Thinks otherwise."""
        return thought

    for tools in (
        AdvancedToolProcessor(tools=[think]),
        AdvancedToolProcessor(config={"tools": {"think": {"description": "Mine."}}}),
    ):
        if "thought" not in tools.registry["think"].metadata.parameters["properties"]:
            tools.registry.register(think)
        assert (await tools.execute("think", {"thought": "t"})).result == "t"
        async with processor.context():
            declared = tools.declarations()[0].function_declarations
        assert [d.name for d in declared].count("think") == 1
