"""What the listener hears of what the speech tools set."""

import asyncio
import subprocess
import sys

import numpy as np
import pytest
from genai_processors import processor
from genai_processors.content_api import ProcessorPart
from hypothesis import given, settings
from hypothesis import strategies as st

from leonidas_tools import ToolSession
from leonidas_tools.live.speech.output import SpeechOutputProcessor
from leonidas_tools.processors import stream
from leonidas_tools.session.speech import SpeechState
from tests.live.speech.listening import Listening, all_heard
from tests.live.speech.sounds import (
    HERTZ,
    audio,
    frequency,
    is_audio,
    marked,
    pitches,
    read,
    rms,
    said,
    sound_of,
    steepest,
    tone,
    transcript,
    vowel,
    written,
)
from tests.policies.clock import in_no_time, now
from tests.promises.faults.play import call, cancellation
from tests.tasks import other_tasks

PAUSE_SECONDS = 30


def speech_of(**values):
    speech = SpeechState()
    speech.set(**values)
    return speech


def stage_with(**values):
    return SpeechOutputProcessor(speech=speech_of(**values))


# --- nothing to change -----------------------------------------------------------------------


async def test_with_nothing_to_change_every_part_passes_as_it_is():
    parts = [
        audio(b"\x01\x02" * 480, frame=1),
        ProcessorPart("Hello"),
        audio(b"\x03" * 961, frame=2),  # half a sample, which the next part completes
        audio(b"\x04", frame=3),
        ProcessorPart(b"...", mimetype="image/png"),
        audio(b"\x05\x06" * 160, hertz=16_000),
        marked("generation_complete"),
        marked("turn_complete"),
        call("f", id="1"),
        cancellation("1"),
    ]
    heard = await all_heard(SpeechOutputProcessor(), parts)
    assert b"".join(p.bytes for p in heard if is_audio(p)) == b"".join(
        p.bytes for p in parts if is_audio(p)
    )
    passed = [part for part in parts if part.get_metadata("frame") not in {2, 3}]
    assert [part for part in heard if any(part is each for each in passed)] == passed


@pytest.mark.parametrize(
    "part",
    [
        ProcessorPart(bytes(960), mimetype="audio/pcm;rate=16000", role="user"),
        ProcessorPart(bytes(960), mimetype="audio/pcm;rate=16000", substream_name="realtime"),
        ProcessorPart(bytes(960), mimetype="audio/wav", role="model"),
        ProcessorPart(bytes(960), mimetype="audio/pcm;rate=24000;channels=2", role="model"),
        ProcessorPart(bytes(960), mimetype="audio/pcm;rate=fast", role="model"),
        ProcessorPart(bytes(960), mimetype="audio/pcm;rate=0", role="model"),
        ProcessorPart(b"", mimetype="audio/pcm;rate=24000", role="model"),
    ],
)
async def test_what_is_not_the_models_own_pcm_is_left_alone(part):
    assert await all_heard(stage_with(rate=2.0, volume=0.0), [part]) == [part]


@pytest.mark.parametrize("mimetype", ["audio/pcm", "audio/PCM; rate=24000", "audio/pcm;channels=1"])
async def test_pcm_is_recognised_however_it_is_written(mimetype):
    part = ProcessorPart(written(tone(0.1)), mimetype=mimetype, role="model")
    (heard,) = await all_heard(stage_with(volume=0.0), [part])
    assert (heard.mimetype, heard.role, heard.bytes) == (mimetype, "model", bytes(4800))


# --- rate and volume -------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.5, 0.8, 1.5, 2.0])
async def test_speech_takes_as_long_as_its_rate_says_at_the_same_pitch(rate):
    heard = sound_of(await all_heard(stage_with(rate=rate), said(vowel(3))))
    assert len(heard) / HERTZ == pytest.approx(3 / rate, rel=0.03)
    assert np.median(pitches(heard)) == pytest.approx(np.median(pitches(vowel(3))), rel=0.03)


@pytest.mark.parametrize("rate", [0.5, 0.8, 1.5, 2.0])
async def test_at_another_rate_no_more_than_50_milliseconds_are_held_back(rate):
    async with Listening(stage_with(rate=rate)) as talk:
        for count, part in enumerate(said(vowel(1), 0.02), 1):
            talk.say(part)
            await talk.until_samples((count * 0.02 - 0.05) * HERTZ / rate)


async def test_a_rate_set_amid_a_sentence_is_heard_from_the_next_chunk():
    speech = SpeechState()
    async with Listening(SpeechOutputProcessor(speech=speech)) as talk:
        talk.say(*said(tone(1)))
        await talk.until_samples(HERTZ)
        speech.set(rate=2.0)
        talk.say(*said(tone(2)))
        await talk.until_samples(HERTZ + 0.95 * HERTZ)
        speech.set(rate=1.0)
        talk.say(*said(tone(1)), marked("turn_complete"))
        await talk.until(lambda heard: heard[-1:] == [marked("turn_complete")])
    heard = sound_of(talk.heard)
    assert len(heard) / HERTZ == pytest.approx(3, abs=0.05)
    assert frequency(heard) == pytest.approx(220, rel=0.01)
    assert steepest(heard) <= 1.1 * steepest(tone(1))
    assert heard[:HERTZ].tobytes() == read(written(tone(1))).tobytes()
    # What was held comes first, then sound as it was sent.
    assert heard[-23_000:].tobytes() == read(written(tone(1)))[-23_000:].tobytes()


@pytest.mark.parametrize("volume", [0.0, 0.5, 1.5, 2.0])
async def test_speech_is_as_loud_as_its_volume_says(volume):
    sound = vowel(2, loud=0.2)
    heard = sound_of(await all_heard(stage_with(volume=volume), said(sound)))
    assert len(heard) == len(sound)
    assert rms(heard) == pytest.approx(volume * rms(sound), rel=0.01)


async def test_a_volume_set_amid_a_sentence_makes_no_click():
    speech = SpeechState()
    async with Listening(SpeechOutputProcessor(speech=speech)) as talk:
        sent = []
        for volume in (0.1, 2.0, 1.0):
            sent += said(tone(1, 200, loud=0.4))
            talk.say(*sent[-25:])
            await talk.until_samples(sum(len(read(p.bytes)) for p in sent))
            speech.set(volume=volume)
    heard = sound_of(talk.heard)
    assert rms(heard[HERTZ + 2400 : 2 * HERTZ]) == pytest.approx(0.04 / np.sqrt(2), rel=0.01)
    assert steepest(heard) <= 2 * steepest(tone(1, 200, loud=0.4)) + 0.4 / 240


async def test_other_sample_rates_are_changed_too_and_one_may_follow_another():
    parts = [*said(tone(1, hertz=16_000), hertz=16_000), *said(tone(1)), marked("turn_complete")]
    heard = await all_heard(stage_with(rate=2.0), parts)
    slow = [part for part in heard if part.mimetype == "audio/pcm;rate=16000"]
    fast = [part for part in heard if part.mimetype == "audio/pcm;rate=24000"]
    assert len(sound_of(slow)) == pytest.approx(8_000, abs=500)
    assert len(sound_of(fast)) == pytest.approx(12_000, abs=750)
    assert heard == [*slow, *fast, parts[-1]]
    assert frequency(sound_of(slow), 16_000) == pytest.approx(220, rel=0.01)


async def test_changed_sound_keeps_what_its_part_says_besides():
    part = audio(tone(0.05), frame=7)
    part.part.inline_data.mime_type = "audio/pcm;rate=24000"
    (heard,) = await all_heard(stage_with(volume=0.5), [part])
    assert (heard.role, heard.substream_name, heard.metadata) == ("model", "", {"frame": 7})
    assert part.bytes == written(tone(0.05))  # the one that was sent is not touched


# --- turns -----------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["generation_complete", "turn_complete"])
async def test_the_end_of_a_turn_comes_after_the_last_of_its_sound(end):
    parts = [*said(tone(1)), marked(end), ProcessorPart("after")]
    parts[-3].metadata["frame"] = 25
    heard = await all_heard(stage_with(rate=1.5), parts)
    assert heard[-2:] == parts[-2:]
    assert [part.metadata for part in heard[-4:-2]] == [{"frame": 25}, {}]  # and the tail
    assert all(is_audio(part) for part in heard[:-2])
    rest = read(parts[-3].bytes)[-100:]
    assert sound_of(heard)[-100:].tobytes() == rest.tobytes()


async def test_the_end_of_the_stream_hands_on_what_is_held():
    heard = sound_of(await all_heard(stage_with(rate=1.5), said(tone(1))))
    assert heard[-100:].tobytes() == read(written(tone(1)))[-100:].tobytes()


async def test_an_interruption_drops_what_the_stretcher_holds():
    speech, stop, after = speech_of(rate=2.0), marked("interrupted"), said(tone(0.5))
    async with Listening(SpeechOutputProcessor(speech=speech)) as talk:
        talk.say(*said(tone(0.5)))
        await talk.until_samples(0.2 * HERTZ)
        talk.say(stop)
        await talk.until_heard(stop)
        speech.set(rate=1.0)
        talk.say(*after)
    at = talk.heard.index(stop)
    assert 0 < 0.25 * HERTZ - len(sound_of(talk.heard[:at])) < 0.05 * HERTZ
    assert talk.heard[at + 1 :] == after


# --- pauses ----------------------------------------------------------------------------------


async def test_a_pause_holds_the_sound_and_nothing_else():
    speech = speech_of()
    sound, text, asked = said(tone(1)), ProcessorPart("text"), call("f", id="1")
    async with Listening(SpeechOutputProcessor(speech=speech)) as talk:
        talk.say(*sound[:5])
        await talk.until_heard(sound[4])
        speech.pause(PAUSE_SECONDS)
        talk.say(*sound[5:], text, marked("turn_complete"), asked)
        await talk.until_heard(asked)
        assert talk.heard == [*sound[:5], text, asked]
        speech.resume()
        await talk.until(lambda heard: heard[-1:] == [marked("turn_complete")])
    assert talk.heard == [*sound[:5], text, asked, *sound[5:], marked("turn_complete")]


async def test_a_pause_has_an_end():
    speech = speech_of()
    speech.pause(0.05)
    heard = []
    async with Listening(SpeechOutputProcessor(speech=speech)) as talk:
        talk.say(*said(tone(0.2)))
        await talk.until_samples(1)
        heard.append(speech.paused_seconds)
        await talk.until_samples(0.2 * HERTZ)
    assert heard == [0.0]


async def test_the_end_of_the_stream_waits_for_the_end_of_a_pause():
    speech = speech_of(rate=1.5)
    async with Listening(SpeechOutputProcessor(speech=speech)) as talk:
        talk.say(*said(tone(0.2)))
        await talk.until_samples(100)
        speech.pause(PAUSE_SECONDS)
        talk.say(*said(tone(0.2)))
        talk.end()
        asyncio.get_running_loop().call_soon(speech.resume)
    assert len(sound_of(talk.heard)) == pytest.approx(0.4 / 1.5 * HERTZ, abs=0.031 * HERTZ)


async def test_a_pause_may_be_ended_from_another_thread():
    speech = speech_of()
    speech.pause(PAUSE_SECONDS)
    async with Listening(SpeechOutputProcessor(speech=speech)) as talk:
        text = ProcessorPart("text")
        talk.say(*said(tone(0.2)), text)
        await talk.until_heard(text)
        await asyncio.to_thread(speech.resume)
        await talk.until_samples(0.2 * HERTZ)


async def test_what_is_set_during_a_pause_is_heard_after_it():
    speech = speech_of()
    speech.pause(PAUSE_SECONDS)
    async with Listening(SpeechOutputProcessor(speech=speech)) as talk:
        text = ProcessorPart("text")
        talk.say(*said(tone(1)), text)
        await talk.until_heard(text)
        speech.set(rate=2.0)
        speech.resume()
    assert len(sound_of(talk.heard)) == pytest.approx(0.5 * HERTZ, rel=0.06)


async def test_an_interruption_drops_what_a_pause_holds_and_keeps_the_ends_of_turns():
    speech = speech_of()
    ended, stop, later = marked("turn_complete"), marked("interrupted"), said(tone(0.2, 300))
    async with Listening(SpeechOutputProcessor(speech=speech)) as talk:
        speech.pause(PAUSE_SECONDS)
        talk.say(*said(tone(0.5)), ended, *said(tone(0.5)), stop, *later)
        await talk.until_heard(stop)
        assert talk.heard == [ended, stop]
        speech.resume()
    assert talk.heard == [ended, stop, *later]


# --- emphasis --------------------------------------------------------------------------------


async def test_words_are_slower_and_louder_the_next_time_they_are_spoken():
    speech = speech_of(emphasis=("important",))
    sound = vowel(4, loud=0.2)
    parts = said(sound)
    # 15 characters before the words: they begin after a second.
    talk = [transcript("This is really "), transcript("important, so listen.")]
    heard = await all_heard(SpeechOutputProcessor(speech=speech), [*talk, *parts])
    after = sound_of(heard)
    stressed = 9 / 15 + 0.2
    assert len(after) / HERTZ == pytest.approx(4 + stressed * 0.25, abs=0.05)
    begin = int(0.88 * HERTZ)
    assert after[:begin].tobytes() == read(written(sound))[:begin].tobytes()
    middle = slice(int(1.0 * HERTZ), int(1.7 * HERTZ))
    slowed = slice(int(1.1 * HERTZ), int(1.9 * HERTZ))
    assert rms(after[slowed]) == pytest.approx(1.5 * rms(sound[middle]), rel=0.2)
    assert speech.current.emphasis == ()
    # Afterwards everything is as it was.
    assert after[-HERTZ:].tobytes() == read(written(sound))[-HERTZ:].tobytes()


async def test_words_are_stressed_once():
    speech = speech_of(emphasis=("now",))
    async with Listening(SpeechOutputProcessor(speech=speech)) as talk:
        talk.say(transcript("Now. "), *said(tone(1)), marked("turn_complete"))
        await talk.until(lambda heard: marked("turn_complete") in heard)
        first = len(sound_of(talk.heard))
        second = said(tone(1))
        talk.say(transcript("Now. "), *second, marked("turn_complete"))
        await talk.until(lambda heard: heard[-2:] == [second[-1], marked("turn_complete")])
    assert first > 1.05 * HERTZ
    assert len(sound_of(talk.heard)) - first == HERTZ
    assert speech.roll_back().emphasis == ()


async def test_words_that_are_not_heard_stay_to_be_stressed():
    speech = speech_of(emphasis=("now",))
    async with Listening(SpeechOutputProcessor(speech=speech)) as talk:
        talk.say(transcript("Some time later, and now"), *said(tone(0.5)))
        await talk.until_samples(0.5 * HERTZ)
        talk.say(marked("interrupted"), *said(tone(2)))
    assert len(sound_of(talk.heard)) == 2.5 * HERTZ
    assert speech.current.emphasis == ("now",)


async def test_words_that_had_no_sound_in_their_turn_are_not_stressed_in_the_next():
    speech = speech_of(emphasis=("now",))
    first, second = said(tone(0.5)), said(tone(2))
    talk = [transcript("Some time later, and now"), *first, marked("turn_complete"), *second]
    assert await all_heard(SpeechOutputProcessor(speech=speech), talk) == talk
    assert speech.current.emphasis == ("now",)


async def test_words_are_found_after_an_interruption_too():
    speech = speech_of(emphasis=("now",))
    speech.pause(PAUSE_SECONDS)
    stop = marked("interrupted")
    async with Listening(SpeechOutputProcessor(speech=speech)) as talk:
        talk.say(*said(tone(5)), stop)
        await talk.until_heard(stop)
        speech.resume()
        talk.say(transcript("Now!"), *said(tone(1)))
    assert len(sound_of(talk.heard)) == pytest.approx((1 + 0.25 * 0.3) * HERTZ, rel=0.02)


async def test_emphasis_adds_to_rate_and_volume():
    speech = speech_of(emphasis=("now " * 20,), rate=2.0, volume=0.5)
    text = transcript("now " * 20)
    heard = await all_heard(SpeechOutputProcessor(speech=speech), [text, *said(tone(4))])
    assert len(sound_of(heard)) == pytest.approx(4 / 1.6 * HERTZ, rel=0.03)
    assert rms(sound_of(heard)) == pytest.approx(0.75 * rms(tone(4)), rel=0.03)


# --- which session ---------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["session", "speech", "stream"])
async def test_it_obeys_the_session_it_is_given_or_the_one_of_the_stream(given):
    session = ToolSession()
    session.get(SpeechState).set(volume=0.0)
    arguments = {
        "session": {"session": session},
        "speech": {"speech": session.get(SpeechState)},
        "stream": {},
    }[given]
    stage = SpeechOutputProcessor(**arguments)
    with stream.shared(session=session if given == "stream" else None):
        heard = await all_heard(stage, [audio(tone(0.1))])
    assert not sound_of(heard).any()


async def test_the_stages_before_it_are_in_its_session():
    class Names(processor.Processor):
        async def call(self, content):
            stream.session().get(SpeechState).set(volume=0.0)
            async for part in content:
                yield part

    session = ToolSession()
    for stage in (SpeechOutputProcessor(session=session), SpeechOutputProcessor()):
        heard = await all_heard(Names() + stage, [audio(tone(0.1))])
        assert not sound_of(heard).any()
    assert session.get(SpeechState).current.volume == 0.0
    assert stream.session().get(SpeechState).current.volume == 1.0  # and nothing after it


async def test_streams_of_one_stage_do_not_share_their_sound():
    speech = speech_of(rate=1.5)
    stage = SpeechOutputProcessor(speech=speech)
    both = await asyncio.gather(
        all_heard(stage, said(tone(1, 200))), all_heard(stage, said(tone(1, 900)))
    )
    assert [frequency(sound_of(heard)) for heard in both] == [
        pytest.approx(200, rel=0.02), pytest.approx(900, rel=0.02),
    ]  # fmt: skip


async def test_nothing_listens_to_the_state_once_the_stream_is_over():
    speech = speech_of()
    await all_heard(SpeechOutputProcessor(speech=speech), said(tone(0.1)))
    assert speech._listeners == []


# --- failures and slow players ---------------------------------------------------------------


async def test_a_failure_of_the_model_is_raised_after_what_it_had_said():
    async def model():
        for part in said(tone(0.2)):
            yield part
        raise ConnectionError("lost")

    heard = []

    async def listen():
        async for part in stage_with(rate=1.5)(model()):
            heard.append(part)

    with pytest.raises(ConnectionError, match="lost"):
        await listen()
    assert len(sound_of(heard)) == pytest.approx(0.2 / 1.5 * HERTZ, abs=0.031 * HERTZ)


async def test_a_slow_player_holds_back_nothing_before_it_and_can_be_interrupted():
    speech, taken = speech_of(), []
    last = said(tone(0.1, 300))

    class Model(processor.Processor):
        async def call(self, content):
            async for part in content:
                taken.append(part)
                yield part

    class Player(processor.Processor):
        """Plays part by part, in a chain of its own."""

        async def call(self, content):
            async for part in SpeechOutputProcessor(speech=speech)(Model()(content)):
                yield part

    stop = marked("interrupted")
    async with Listening(Player()) as talk:
        talk.may_go_on.clear()
        sound = said(tone(10))
        talk.say(sound[0])
        await talk.until_heard(sound[0])
        talk.say(*sound[1:], stop, *last)
        async with asyncio.timeout(10):
            while len(taken) < len(sound) + 1 + len(last):
                await asyncio.sleep(0)
        assert talk.heard == sound[:1]
        talk.may_go_on.set()
    assert talk.heard == [sound[0], stop, *last]


@pytest.mark.parametrize("paced", [False, True])
async def test_it_can_be_cancelled_while_it_holds_sound(paced):
    speech = speech_of()
    speech.pause(PAUSE_SECONDS)
    talk = Listening(SpeechOutputProcessor(speech=speech, paced=paced))
    text = ProcessorPart("text")

    async def hang_up():
        async with talk:
            talk.say(*said(tone(1)), text)
            await talk.until_heard(text)
            raise ConnectionError("hung up")

    with pytest.raises(ConnectionError, match="hung up"):
        await hang_up()
    assert talk.heard == [text]
    assert other_tasks() == set()
    assert speech._listeners == []


async def test_a_long_chunk_is_changed_in_slices():
    heard = await all_heard(stage_with(rate=0.5), [audio(tone(2))])
    assert max(len(sound_of([part])) for part in heard) <= 0.25 * HERTZ
    assert len(sound_of(heard)) == pytest.approx(4 * HERTZ, rel=0.03)


@pytest.mark.slow
def test_without_numpy_speech_passes_unchanged_and_that_is_logged_once():
    program = """
import asyncio, logging, sys
sys.modules["numpy"] = None
from genai_processors.content_api import ProcessorPart
from leonidas_tools.live.speech.output import SpeechOutputProcessor
from leonidas_tools.session.speech import SpeechState

async def run():
    logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout)
    speech = SpeechState()
    speech.set(rate=2.0, volume=0.5)
    stage = SpeechOutputProcessor(speech=speech)
    part = ProcessorPart(bytes(range(200)), mimetype="audio/pcm;rate=24000", role="model")
    for _ in range(2):
        print([p.bytes == part.bytes async for p in stage([part, part])])

asyncio.run(run())
"""
    printed = subprocess.check_output([sys.executable, "-c", program], text=True).splitlines()
    assert [line.split(" ")[0] for line in printed] == ["WARNING", "[True,", "[True,"]
    assert "install 'leonidas-tools[speech]'" in printed[0]


@pytest.mark.slow
def test_numpy_is_not_loaded_before_a_stage_is_made():
    program = (
        "import sys, leonidas_tools, leonidas_tools.live.speech.output as s;"
        "print('numpy' in sys.modules); s.SpeechOutputProcessor(); print('numpy' in sys.modules)"
    )
    printed = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert printed.split() == ["False", "True"]


# --- paced -----------------------------------------------------------------------------------


@in_no_time
async def test_paced_speech_is_handed_on_as_fast_as_it_is_played():
    times, played = [], 0.0
    stage = SpeechOutputProcessor(speech=SpeechState(), paced=True)
    async for part in stage([audio(tone(3)), marked("turn_complete")]):
        times.append((now(), played))
        played += len(part.bytes or b"") / 2 / HERTZ
    assert played == pytest.approx(3)
    assert len(times) == 31
    # Never late, and never more than 0.2 s early.
    assert all(-1e-6 <= begin - at <= 0.2 for at, begin in times)


@in_no_time
async def test_paced_speech_can_be_interrupted_and_changed_at_once():
    speech, stop, last = SpeechState(), marked("interrupted"), [audio(bytes(2400))]
    async with Listening(SpeechOutputProcessor(speech=speech, paced=True)) as talk:
        text = ProcessorPart("text")
        talk.say(audio(tone(10)), text)
        await talk.until_heard(text)
        assert len(sound_of(talk.heard)) <= 0.3 * HERTZ
        await asyncio.sleep(1.0)
        assert len(sound_of(talk.heard)) == pytest.approx(1.2 * HERTZ, abs=0.11 * HERTZ)
        speech.set(volume=0.0)
        await asyncio.sleep(1.0)
        talk.say(stop)
        await talk.until_heard(stop)
        rest, began = talk.heard.index(stop), now()
        heard = sound_of(talk.heard)
        talk.say(*last)
        await talk.until_heard(last[0])
        assert now() == began
    assert len(heard) == pytest.approx(2.2 * HERTZ, abs=0.11 * HERTZ)
    assert not heard[int(1.4 * HERTZ) :].any()
    assert talk.heard[rest:] == [stop, *last]


# --- everything else passes ------------------------------------------------------------------

OTHERS = st.sampled_from(["text", "call", "cancellation", "status"])
STEPS = st.one_of(
    st.integers(1, 3000),
    OTHERS,
    st.sampled_from(["generation_complete", "turn_complete", "interrupted", "pause", "resume"]),
    st.tuples(st.just("rate"), st.sampled_from([0.5, 1.0, 1.3, 2.0])),
    st.tuples(st.just("volume"), st.sampled_from([0.0, 1.0, 2.0])),
)


def other(kind, number):
    if kind == "call":
        return call("f", id=str(number))
    if kind == "cancellation":
        return cancellation(str(number))
    return ProcessorPart(f"{kind} {number}", substream_name="" if kind == "text" else "mine")


async def played(steps):
    """What is heard of a conversation, and the parts that were sent."""
    speech, sent = SpeechState(), []

    async def model():
        for number, step in enumerate(steps):
            match step:
                case int():
                    sent.append(audio(tone(step / HERTZ, 200), number=number))
                case "pause":
                    speech.pause(PAUSE_SECONDS)
                case "resume":
                    speech.resume()
                case ("rate" | "volume") as name, value:
                    speech.set(**{name: value})
                case "generation_complete" | "turn_complete" | "interrupted":
                    sent.append(ProcessorPart("", metadata={step: True, "number": number}))
                case kind:
                    sent.append(other(kind, number))
            if not isinstance(step, tuple) and step not in {"pause", "resume"}:
                yield sent[-1]
            if number % 3 == 0:
                await asyncio.sleep(0)
        speech.resume()

    async with asyncio.timeout(30):
        stage = SpeechOutputProcessor(speech=speech)
        return [part async for part in stage(model())], sent


def waits(part):
    """Whether it waits for the sound before it, or is sound."""
    ends = ("generation_complete", "turn_complete")
    return is_audio(part) or any(part.get_metadata(end) for end in ends)


@given(st.lists(STEPS, max_size=40))
@settings(deadline=None)
def test_other_parts_pass_once_and_in_order_between_any_input(steps):
    heard, sent = asyncio.run(played(steps))
    assert [p for p in heard if not waits(p)] == [p for p in sent if not waits(p)]
    # The end of a turn comes once, between the sound before it and the sound after it.
    ends = [p.get_metadata("number") for p in heard if waits(p) and not is_audio(p)]
    assert ends == [p.get_metadata("number") for p in sent if waits(p) and not is_audio(p)]
    numbers = [number for p in heard if waits(p) and (number := p.get_metadata("number", None))]
    assert numbers == sorted(numbers)


@given(st.lists(STEPS, max_size=40))
@settings(deadline=None)
def test_at_its_own_pace_and_loudness_no_byte_is_lost(steps):
    steps = [s for s in steps if not isinstance(s, tuple) and s != "interrupted"]
    heard, sent = asyncio.run(played(steps))
    assert [p for p in heard if waits(p)] == [p for p in sent if waits(p)]
    if "pause" not in steps:
        assert heard == sent


@given(st.lists(STEPS, max_size=40))
@settings(deadline=None)
def test_nothing_said_before_an_interruption_is_heard_after_it(steps):
    heard, _ = asyncio.run(played(steps))
    last = 0
    for part in heard:
        if part.get_metadata("interrupted"):
            last = part.get_metadata("number")
        elif is_audio(part):
            assert part.get_metadata("number", last) >= last


@pytest.mark.parametrize("hertz", ["1", "7999", "192001", "9" * 5000])
async def test_sound_at_a_rate_that_no_speech_has_passes_as_it_is(hertz):
    sound = audio(b"\x01\x02" * 480, hertz=hertz)
    assert await all_heard(stage_with(rate=1.5, volume=0.5), [sound]) == [sound]
