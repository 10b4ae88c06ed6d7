"""What the user says, over several connections: all of it, in order, and once."""

import asyncio
import logging

import pytest
from genai_processors import processor
from genai_processors.content_api import ProcessorPart
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools.calls.call import ToolSession
from leonidas_tools.live.adaptation import Adaptation
from leonidas_tools.live.conversation import Conversation
from leonidas_tools.live.gemini import GeminiLiveProcessor
from leonidas_tools.live.input_buffer import InputBuffer
from leonidas_tools.live.profiles import find_profile
from leonidas_tools.live.server_messages import ServerMessageHandler
from leonidas_tools.live.session_setup import FixedTools
from leonidas_tools.live.state import LiveState
from leonidas_tools.simulator import (
    FunctionCall,
    LiveSimulator,
    Say,
    Scenario,
    TurnComplete,
    WaitForInput,
)
from tests.live.talking import (
    MODELS,
    answer_to,
    frame,
    frames_in,
    held,
    on_elastic_time,
    passes,
    sent_by_client,
    typed,
)
from tests.tasks import other_tasks

HANDS_FREE = {"realtime_input_config": {"automatic_activity_detection": {"disabled": True}}}
SECOND = 50
"""How many frames last a second."""


def signal(name):
    return ProcessorPart("", substream_name="realtime", metadata={name: True})


def said(text, **metadata):
    return ProcessorPart(text, role="user", metadata=metadata)


async def test_a_minute_that_is_said_at_once_on_an_open_connection_arrives_whole():
    async def user(talk):
        await talk.told("connection_opened")
        for number in range(60 * SECOND):
            yield frame(number)
        yield typed("end")

    script = [WaitForInput("text"), Say("Yes."), TurnComplete()]
    simulator, _ = await held([script], user=user)
    assert frames_in(simulator) == [(1, number) for number in range(60 * SECOND)]


async def test_a_long_recording_that_is_content_is_not_dropped():
    recording = ProcessorPart(
        bytes(32_000 * 40),
        mimetype="audio/pcm;rate=16000",
        role="user",
        metadata={"turn_complete": False},
    )

    async def user(_):
        yield recording
        yield said("What is said?")

    simulator, _ = await held([[WaitForInput("text")]], user=user)
    kinds = [
        list(content["turns"][0]["parts"][0])
        for _, content in sent_by_client(simulator, "client_content")
    ]
    assert kinds == [["inlineData"], ["text"]]


async def test_an_error_of_the_input_is_raised_to_a_listener_who_comes_late():
    heard = asyncio.Event()

    async def user():
        yield frame()
        await heard.wait()
        raise RuntimeError("the microphone broke")

    async def listens(live):
        async for _ in live(user()):
            heard.set()
            if tasks := other_tasks():
                await asyncio.wait(tasks)

    async with LiveSimulator(Scenario(connections=[speaks])) as simulator:
        options = {"api_key": "x", "http_options": simulator.http_options()}
        with pytest.raises(RuntimeError, match="the microphone broke"):
            async with asyncio.timeout(20), processor.context():
                await listens(GeminiLiveProcessor(MODELS["2.5"], **options))


async def speaks(session):
    await session.say("Hello.")
    await session.wait_for_close()


@on_elastic_time
async def test_what_is_said_to_a_server_that_has_gone_deaf_is_said_again_after_the_drop():
    last = 8 * SECOND

    async def first(session):
        await session.session_resumption("handle")
        await session.wait_for_input("audio")
        await session.say("On.")
        await session.wait_for_input("audio")
        await session.stall_pongs(600)
        await session.say("Deaf.")
        await session.wait_for_close()

    async def second(session):
        await session.wait_for_input("audio", count=last - 1)

    async def user(talk):
        yield frame(0)
        await talk.hears(lambda part: part.part.text == "On.")
        yield frame(1)
        await talk.hears(lambda part: part.part.text == "Deaf.")
        for number in range(2, last + 1):
            yield frame(number)
            await passes(0.02)
        talk.simulator.drop_connections()

    simulator, talk = await held([first, second], user=user)
    assert {number for _, number in frames_in(simulator)} == set(range(last + 1))
    assert talk.events[-1]["audio_dropped"] == 0


@on_elastic_time
async def test_a_user_who_speaks_over_a_drop_has_begun_to_speak_on_the_next_connection():
    async def first(session):
        await session.session_resumption("handle")
        for _ in range(2):
            await session.wait_for_input("audio")
            await session.say("On.")
        await session.wait_for_input("audio")
        await session.drop()

    async def second(session):
        await session.wait_for_input("activity", containing="end")

    async def user(talk):
        yield signal("activity_start")
        for number in range(2):
            yield frame(number)
            await talk.hears(lambda part: part.part.text == "On.", number + 1)
            await passes(0.5)
        yield frame(2)
        await talk.told("connection_renewed")
        yield frame(3)
        yield signal("activity_end")

    simulator, _ = await held([first, second], user=user, config=HANDS_FREE)
    signals = [
        (connection, *body)
        for connection, body in sent_by_client(simulator, "realtime_input")
        if "audio" not in body
    ]
    assert signals == [(1, "activityStart"), (2, "activityStart"), (2, "activityEnd")]


async def test_typed_text_does_not_wait_for_a_tool_as_the_microphone_does():
    heard = []

    async def only(session):
        await session.wait_for_input("audio")
        await session.send_calls(FunctionCall("f", undeclared=True))
        await session.wait_for_input("text", containing="stop")
        await session.wait_for_input("audio")

    async def user(talk):
        yield frame(0)
        (asked,) = await talk.called()
        yield frame(1)
        yield typed("Stop it.")
        await talk.simulator.until(lambda: len(talk.simulator.texts_received) == 1)
        heard.append(frames_in(talk.simulator))
        yield answer_to(asked, {"output": 1})

    simulator, _ = await held([only], user=user, gate_microphone_seconds=600)
    heard.append(frames_in(simulator))
    assert heard == [[(1, 0)], [(1, 0), (1, 1)]]


async def test_what_holds_nothing_is_left_out_and_said_so(caplog):
    async def user(_):
        yield ProcessorPart("", substream_name="realtime")
        yield typed("Hello")

    with caplog.at_level(logging.ERROR):
        simulator, _ = await held([[WaitForInput("text")]], user=user)
    assert sent_by_client(simulator, "realtime_input") == [(1, {"text": "Hello"})]
    (message,) = caplog.messages
    assert "an input part has no text, audio or image" in message


async def test_what_was_said_before_the_session_is_its_history_on_a_model_that_takes_no_content():
    async def user(_):
        yield said("My name is Ann.", turn_complete=False)
        yield said("What is my name?")
        yield said("Say it again.")

    server = {"generation": "3.1"}
    script = [WaitForInput("text", count=3)]
    simulator, _ = await held([script], user=user, generation="3.1", server=server)
    assert [(each.source, each.text) for each in simulator.texts_received] == [
        ("clientContent", "My name is Ann."),
        ("realtimeInput", "What is my name?"),
        ("realtimeInput", "Say it again."),
    ]


@given(steps=st.lists(st.sampled_from(["put", "text", "take", "lost", "confirm"]), max_size=60))
def test_input_that_is_given_back_waits_in_its_place(steps):
    inputs, message = InputBuffer(30), 0
    for number, step in enumerate(steps):
        if step == "put":
            inputs.put(frame(number), 0.0, bounded=False)
        elif step == "text":
            inputs.put(typed(str(number)), 0.0, bounded=False)
        elif step == "take" and len(inputs):
            message += 1
            if not number % 2 or inputs.take_text(message, 0.0) is None:
                inputs.take(message, 0.0)
        elif step == "lost":
            inputs.give_back(media_only=False)
        elif step == "confirm":
            inputs.confirm(message)
    inputs.give_back(media_only=False)
    waiting = [inputs.take(message + 1, 0.0) for _ in range(len(inputs))]
    places = [number_in(part) for part in waiting]
    assert places == sorted(places)


def number_in(part):
    return int(part.text) if part.part.text else int.from_bytes(part.part.inline_data.data[:4])


def new_state():
    profile = find_profile("2.5-native-audio")
    return LiveState(
        profile=profile,
        adaptation=Adaptation(profile),
        source=FixedTools(),
        session=ToolSession(),
        inputs=InputBuffer(30),
        gate_seconds=None,
    )


async def test_a_deadline_that_passes_while_messages_are_chosen_is_not_missed():
    state = new_state()
    talk = Conversation(state)
    talk.opened(1, talk.next_setup())
    looked_at = state.now() - 1
    deadline = state.now() - 0.5
    state.renewal = state.renewal.announced_for(deadline + 0.5)

    assert talk.next_check(looked_at) == pytest.approx(deadline)


@on_elastic_time
async def test_sound_that_a_slow_server_leaves_unread_is_dropped_once_it_is_stale(caplog):
    state = new_state()
    talk = Conversation(state)
    talk.opened(1, talk.next_setup())
    talk.put(typed("0"))
    for number in range(60 * SECOND):
        talk.put(frame(number))
    await passes(29)
    talk.put(frame(60 * SECOND))
    assert (len(state.inputs), caplog.messages) == (60 * SECOND + 2, [])
    await passes(2)
    talk.put(frame(60 * SECOND + 1))
    waiting = [number_in(state.inputs.take(1, state.now())) for _ in range(len(state.inputs))]
    assert waiting == [0, *range(30 * SECOND + 2, 60 * SECOND + 2)]
    assert caplog.messages == ["The server reads too slowly: the oldest audio and video is dropped"]


async def test_a_turn_of_many_long_calls_is_remembered_within_bounds():
    state = new_state()
    handler = ServerMessageHandler(state)
    long = "x" * 10_000
    for number in range(2_000):
        asked = types.FunctionCall(id=f"c{number}", name="f", args={"text": f"{number}{long}"})
        tool_call = types.LiveServerToolCall(function_calls=[asked])
        handler.receive(types.LiveServerMessage(tool_call=tool_call))
        state.calls.cancel(f"c{number}")
    assert sum(len(what) for _, what in handler._single) < 1_000_000
