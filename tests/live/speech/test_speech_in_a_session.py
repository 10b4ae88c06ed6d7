"""The speech tools, called by a model amid its speech, and what the listener then hears."""

import asyncio

import numpy as np
import pytest
from genai_processors import processor

from leonidas_tools import AdvancedToolProcessor, LiveToolSession, ToolSession
from leonidas_tools.live.speech.output import SpeechOutputProcessor
from leonidas_tools.session.speech import SpeechState
from tests.live.speech.listening import Listening
from tests.live.speech.sounds import (
    HERTZ,
    frequency,
    marked,
    rms,
    said,
    sound_of,
    steepest,
    tone,
    transcript,
)
from tests.promises.faults.play import call


class Model(processor.Processor):
    """Speaks a second, calls a tool, and goes on for two seconds once it has the answer."""

    def __init__(self, name, arguments, *then):
        self._call = call(name, arguments, id="c1")
        self._then = then
        self.answers = []

    async def call(self, content):
        for part in said(tone(1)):
            yield part
        yield self._call
        async for part in content:
            if part.function_response is not None:
                self.answers.append(part.function_response.response)
                break
        for part in (*self._then, *said(tone(2)), marked("turn_complete")):
            yield part
        async for _ in content:
            pass


def agent_with(model, session, naming):
    """The two stages, told of the session in different ways."""
    tools = AdvancedToolProcessor()
    match naming:
        case "nobody":
            return LiveToolSession(model, tools) + SpeechOutputProcessor()
        case "the loop":
            return LiveToolSession(model, tools, session=session) + SpeechOutputProcessor()
        case "both":
            return LiveToolSession(model, tools, session=session) + SpeechOutputProcessor(
                session=session
            )
    raise ValueError(naming)


def the_turn_is_over(heard):
    return any(part.get_metadata("turn_complete") for part in heard)


async def heard_of(model, naming="nobody", session=None):
    async with Listening(agent_with(model, session, naming)) as talk:
        await talk.until(the_turn_is_over)
    return talk.heard


@pytest.mark.parametrize("naming", ["nobody", "the loop", "both"])
async def test_a_rate_set_amid_the_speech_is_heard(naming):
    model, session = Model("set_speech_rate", {"rate": 2.0}), ToolSession()
    heard = sound_of(await heard_of(model, naming, session))
    assert model.answers == [
        {"status": "ok", "result": {"previous_rate": 1.0, "rate": 2.0}, "retryable": False}
    ]
    # What waited for the call to be heard may be spoken faster, too.
    assert 1.45 * HERTZ <= len(heard) <= 2.05 * HERTZ
    assert frequency(heard) == pytest.approx(220, rel=0.01)
    assert steepest(heard) <= 1.1 * steepest(tone(1))
    if naming != "nobody":
        assert session.get(SpeechState).current.rate == 2.0


async def test_a_volume_set_amid_the_speech_is_heard():
    heard = sound_of(await heard_of(Model("set_speech_volume", {"volume": 0.1})))
    assert len(heard) == 3 * HERTZ
    assert rms(heard[-int(1.9 * HERTZ) :]) == pytest.approx(0.1 * rms(tone(1)), rel=0.02)


async def test_words_emphasized_by_a_tool_are_stressed():
    text = transcript("This is really important.")
    heard = sound_of(await heard_of(Model("emphasize_text", {"text": "really important"}, text)))
    assert len(heard) == pytest.approx((3 + 0.25 * (16 / 15 + 0.2)) * HERTZ, rel=0.02)
    stressed = heard[int(1.9 * HERTZ) : int(2.4 * HERTZ)]
    assert frequency(stressed) == pytest.approx(220, rel=0.02)
    assert rms(stressed) > 1.3 * rms(tone(1))


async def test_a_pause_set_by_a_tool_is_heard_and_ends():
    session = ToolSession()
    speech = session.get(SpeechState)
    model = Model("pause_speech", {"seconds": 30})
    async with Listening(agent_with(model, session, "the loop")) as talk:
        async with asyncio.timeout(10):
            while not model.answers:
                await asyncio.sleep(0)
        await talk.until(lambda heard: any(part.function_response for part in heard))
        before = len(sound_of(talk.heard))
        assert speech.paused_seconds > 0
        assert not the_turn_is_over(talk.heard)
        speech.resume()
        await talk.until(the_turn_is_over)
    assert before <= HERTZ
    assert np.array_equal(sound_of(talk.heard), sound_of([*said(tone(1)), *said(tone(2))]))


async def test_two_conversations_of_one_agent_each_have_a_speech_of_their_own():
    tools, stage = AdvancedToolProcessor(), SpeechOutputProcessor()
    fast = Listening(LiveToolSession(Model("set_speech_rate", {"rate": 2.0}), tools) + stage)
    slow = Listening(LiveToolSession(Model("set_speech_rate", {"rate": 0.5}), tools) + stage)
    for talk in (fast, slow):
        async with talk:
            await talk.until(the_turn_is_over)
    assert len(sound_of(fast.heard)) < 2.1 * HERTZ
    assert len(sound_of(slow.heard)) > 4.9 * HERTZ
