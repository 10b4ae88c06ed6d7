"""Whole conversations in sound: Piper speaks, Whisper understands, and what is between is ours."""

import asyncio
import re
import sys
from datetime import datetime

import pytest

from leonidas_tools import AdvancedToolProcessor
from leonidas_tools.simulator import FunctionCall, LiveSimulator, Scenario
from leonidas_tools.toolboxes.demo import get_weather
from tests.voice.models import MODEL_HERTZ, USER_HERTZ, read
from tests.voice.pitch import pitch_ratio
from tests.voice.spoken import (
    SimulatedEars,
    SpokenTalk,
    is_sound,
    microphone,
    seconds_of,
    sound_of,
    understood,
)
from tests.voice.words import has_words, word_error_rate, words_of

pytestmark = pytest.mark.slow

# Sentences in which Whisper's smallest model takes no word of this voice for another: it hears
# "weather in Lisbon" as "weather enlistment", and 14 o'clock as 40.
WEATHER_QUESTION = "What's the weather like in London today?"
TIME_QUESTION = "What time is it in Tokyo?"
STORY = (
    "Once upon a time there was a king who lived in a castle on a mountain. "
    "Every morning he looked out of the window and counted the sheep in the valley. "
    "One day, when the winter was over, all of the sheep had disappeared."
)
COMMAND = "Please stop talking."
REPLY = "Okay, I am listening."
TIME_SERVER = {"command": sys.executable, "args": ["-m", "mcp_server_time"]}
FASTER = 1.5
MAX_WRONG_WORDS = 0.25


def found_in(question, pattern):
    """What the model takes from a question."""
    match = re.search(pattern, question)
    assert match, f"the model understood {question!r}"
    return match[1]


async def weather(session, question):
    """What a model says of the weather, once it has asked a function."""
    city = found_in(question, r"weather like in (\w+)")
    (answer,) = await session.call(FunctionCall("get_weather", {"city": city}))
    found = answer.response["result"]
    return f"The weather in {city} is {found['sky']}, and it has {found['degrees']} degrees."


async def time_of_day(session, question):
    """What a model says of the time, once it has asked an MCP server."""
    city = found_in(question, r"time is it in (\w+)")
    if "get_current_time" not in session.declared:  # the session does not wait for the server
        await session.wait_for_context_update("get_current_time", within_seconds=30)
    (answer,) = await session.call(FunctionCall("get_current_time", {"timezone": f"Asia/{city}"}))
    now = datetime.fromisoformat(answer.response["result"]["datetime"])
    part_of_day = ("night", "morning", "afternoon", "evening")[now.hour // 6]
    return f"Right now in {city}, it is {now:%A} {part_of_day}."


def telling(text):
    """The words that must not be wrong: numbers, and whatever is longer than "with"."""
    return {word for word in words_of(text) if word.isdigit() or len(word) > 4}


@pytest.mark.parametrize(
    ("question", "reply", "asks", "generation"),
    [
        (WEATHER_QUESTION, weather, {"city": "London"}, "2.5"),
        (TIME_QUESTION, time_of_day, {"timezone": "Asia/Tokyo"}, "3.8-live"),
    ],
    ids=["a function tells the weather", "an MCP server tells the time"],
)
async def test_a_spoken_question_gets_a_spoken_answer_at_the_pace_that_was_set(
    voice, ears, question, reply, asks, generation
):
    asked = voice.say(question, hertz=USER_HERTZ)
    answered = {}

    async def model(session):
        text = await reply(session, await SimulatedEars(ears).sentence(session))
        await session.call(FunctionCall("set_speech_rate", {"rate": FASTER}))
        sound = await asyncio.to_thread(voice.say, text, hertz=MODEL_HERTZ)
        await session.say(text, audio=sound)
        await session.turn_complete()
        answered.update(text=text, sound=sound)

    tools = AdvancedToolProcessor(
        tools=[get_weather], config={"mcp_servers": {"time": TIME_SERVER}}
    )
    async with LiveSimulator(Scenario(model), generation=generation) as simulator:
        talk = SpokenTalk(
            simulator, tools, generation=generation, user=lambda _: microphone(asked, speed=4)
        )
        await talk.run(seconds=60)

    heard = sound_of(talk.heard)
    words = ears.understand(heard, hertz=MODEL_HERTZ)
    assert words_of(understood(talk.heard)) == words_of(question)
    assert [call.args for call in simulator.calls] == [asks, {"rate": FASTER}]
    assert word_error_rate(words, answered["text"]) <= MAX_WRONG_WORDS, words
    assert telling(answered["text"]) <= telling(words)
    assert seconds_of(heard) == pytest.approx(seconds_of(answered["sound"]) / FASTER, rel=0.05)
    pitch = pitch_ratio(read(heard), read(answered["sound"]), hertz=MODEL_HERTZ, faster=FASTER)
    assert pitch == pytest.approx(1, rel=0.03)


async def test_who_talks_over_the_agent_hears_nothing_more_of_what_was_not_yet_played(voice, ears):
    story, reply = (voice.say(text, hertz=MODEL_HERTZ) for text in (STORY, REPLY))
    command = voice.say(COMMAND, hertz=USER_HERTZ)

    async def model(session):
        hearing = SimulatedEars(ears)
        await session.say(STORY, audio=story)  # faster than it is played, as Live does
        await session.generation_complete()
        await hearing.begin(session)
        await session.interrupt()
        await hearing.sentence(session)
        await session.say(REPLY, audio=reply)
        await session.turn_complete()

    async def user(talk):
        await talk.hears(is_sound, count=15)
        async for part in microphone(command):
            yield part

    async with LiveSimulator(Scenario(model)) as simulator:
        talk = SpokenTalk(simulator, AdvancedToolProcessor(), user=user, paced=True)
        await talk.run(seconds=60)

    (at,) = (i for i, part in enumerate(talk.heard) if part.metadata.get("interrupted"))
    before, after = sound_of(talk.heard[:at]), sound_of(talk.heard[at:])
    assert story.startswith(before)
    assert after == reply
    assert words_of(understood(talk.heard)) == words_of(COMMAND)
    words = words_of(ears.understand(before, hertz=MODEL_HERTZ))
    assert words[:4] == ["once", "upon", "a", "time"]
    assert not {"winter", "disappeared"} & set(words)


async def test_a_sentence_is_heard_whole_though_the_connection_drops_in_its_middle(voice, ears):
    sentence = voice.say(WEATHER_QUESTION, hertz=USER_HERTZ)
    hearing = SimulatedEars(ears)

    async def first(session):
        await session.session_resumption("handle")
        await hearing.begin(session, frames=20)  # "What's the wea-"
        await session.stall_pongs(60)  # nothing arrives any more, as when a network is lost,
        await session.pause(0.4)  # which the user's side does not notice yet
        await session.drop()

    async def second(session):
        await session.say(await weather(session, await hearing.sentence(session)))
        await session.turn_complete()

    tools = AdvancedToolProcessor(tools=[get_weather])
    async with LiveSimulator(Scenario(connections=[first, second])) as simulator:
        talk = SpokenTalk(simulator, tools, user=lambda _: microphone(sentence))
        await talk.run(connections=2, seconds=60)

    begun, ended = simulator.heard_pcm(1), simulator.heard_pcm(2)
    said_again = len(begun) + len(ended) - len(sentence)
    assert simulator.connections[1].resumed_from == 1
    assert begun + ended[said_again:] == sentence
    assert has_words(understood(talk.heard), WEATHER_QUESTION)
    assert [call.args for call in simulator.calls] == [{"city": "London"}]
    assert talk.said.startswith("The weather in London is")
