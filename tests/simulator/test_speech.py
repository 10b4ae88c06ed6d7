"""Speech with real sound, sent and heard."""

import struct
import wave

import pytest
from google.genai import types

from leonidas_tools.simulator import LiveSimulator, Say, Scenario, TurnComplete


def samples(*values):
    return struct.pack(f"<{len(values)}h", *values)


@pytest.fixture
def record(tmp_path):
    def record(data, *, rate=24_000, channels=1, width=2):
        file = tmp_path / "speech.wav"
        with wave.open(str(file), "wb") as sound:
            sound.setparams((channels, width, rate, 0, "NONE", ""))
            sound.writeframes(data)
        return file

    return record


async def spoken(connect, step):
    """The audio messages and the text that reach the client."""
    scenario = Scenario([step, TurnComplete()])
    async with LiveSimulator(scenario) as simulator, connect(simulator) as session:
        messages = [message async for message in session.receive()]
        assert (await simulator.finished()).ok
    said = [message.server_content.output_transcription for message in messages]
    blobs = [
        part.inline_data
        for message in messages
        for part in (message.server_content.model_turn and message.server_content.model_turn.parts)
        or ()
    ]
    return blobs, "".join(each.text for each in said if each)


@pytest.mark.parametrize("paced", [False, True])
async def test_pcm_is_sent_in_chunks_of_a_tenth_of_a_second(connect, paced):
    pcm = bytes(range(256)) * 40
    blobs, text = await spoken(connect, Say("one two", audio=pcm, paced=paced))
    assert [len(blob.data) for blob in blobs] == [4800, 4800, 640]
    assert b"".join(blob.data for blob in blobs) == pcm
    assert {blob.mime_type for blob in blobs} == {"audio/pcm;rate=24000"}
    assert text == "one two"


async def test_a_wav_file_is_sent_as_it_is(connect, record):
    pcm = samples(*range(-1000, 1000))
    blobs, _ = await spoken(connect, Say("hello", audio=str(record(pcm))))
    assert b"".join(blob.data for blob in blobs) == pcm


async def test_two_channels_become_one(connect, record):
    file = record(samples(100, 200, -100, -300), channels=2)
    blobs, _ = await spoken(connect, Say("hello", audio=file))
    assert b"".join(blob.data for blob in blobs) == samples(150, -200)


@pytest.mark.parametrize(
    ("rate", "found"),
    [
        (12_000, samples(0, 100, 200, 200)),
        (48_000, samples(0)),
        (16_000, samples(0, 133, 200)),
    ],
)
async def test_another_rate_becomes_that_of_gemini(connect, record, rate, found):
    blobs, _ = await spoken(connect, Say("hello", audio=record(samples(0, 200), rate=rate)))
    assert b"".join(blob.data for blob in blobs) == found


async def test_another_width_is_refused(connect, record):
    step = Say("hello", audio=record(b"\x80" * 100, width=1))
    simulator = LiveSimulator(Scenario([step]), strict=False)
    async with simulator, connect(simulator):
        outcome = await simulator.finished()
    assert "'speech.wav' has samples of 8 bits; 16 are needed" in outcome.message


async def test_what_was_said_into_the_microphone_can_be_said_again(connect):
    async def echo(session):
        heard = await session.wait_for_input("audio", count=3)
        await session.say("echo", audio=b"".join(each.data for each in heard))
        await session.turn_complete()

    async with LiveSimulator(echo) as simulator, connect(simulator) as session:
        for value in (1, 2, 3):
            blob = types.Blob(data=samples(value) * 160, mime_type="audio/pcm;rate=16000")
            await session.send_realtime_input(audio=blob)
        data = [message.data async for message in session.receive()]
    assert b"".join(each for each in data if each) == simulator.heard_pcm()


def test_a_step_with_sound_is_shown_without_it():
    assert str(Say("hello", audio=bytes(100_000))) == "say: hello"
