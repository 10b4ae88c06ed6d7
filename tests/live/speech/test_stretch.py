"""Other paces at the same pitch, measured on tones and on a synthetic voice."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leonidas_tools.live.speech.stretch import TimeStretch
from tests.live.speech.sounds import HERTZ, chunks, frequency, pitches, rms, steepest, tone, vowel

pytestmark = pytest.mark.slow

RATES = [0.5, 0.8, 1.25, 1.5, 2.0]


def stretched(sound, rate, seconds=0.04, hertz=HERTZ):
    stretch = TimeStretch(hertz)
    heard = [stretch.feed(chunk, rate) for chunk in chunks(sound, seconds, hertz)]
    return np.concatenate([*heard, stretch.flush()])


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("hertz", [8_000, 16_000, 24_000, 48_000])
@pytest.mark.parametrize("sound", [tone, vowel])
def test_three_seconds_take_as_long_as_the_rate_says(sound, hertz, rate):
    heard = stretched(sound(3, hertz=hertz), rate, hertz=hertz)
    assert len(heard) / hertz == pytest.approx(3 / rate, rel=0.03)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("pitch", [90, 220, 440, 1000])
def test_a_tone_keeps_its_pitch_and_its_purity(pitch, rate):
    heard = stretched(tone(3, pitch), rate)
    assert frequency(heard) == pytest.approx(pitch, rel=0.01)
    power = np.abs(np.fft.rfft(heard * np.hanning(len(heard)))) ** 2
    hertz = np.fft.rfftfreq(len(heard), 1 / HERTZ)
    assert power[np.abs(hertz - pitch) < 0.1 * pitch].sum() > 0.98 * power.sum()
    assert rms(heard) == pytest.approx(rms(tone(3, pitch)), rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("pitch", [90, 120, 210])
def test_a_voice_keeps_its_pitch(pitch, rate):
    before, after = pitches(vowel(3, pitch)), pitches(stretched(vowel(3, pitch), rate))
    assert len(after) > 20
    for part in (10, 50, 90):
        assert np.percentile(after, part) == pytest.approx(np.percentile(before, part), rel=0.03)


@pytest.mark.parametrize("rate", RATES)
def test_noise_keeps_its_loudness(rate):
    noise = np.random.default_rng(1).normal(0, 0.1, 3 * HERTZ).astype("f4")
    assert rms(stretched(noise, rate)) == pytest.approx(rms(noise), rel=0.05)


@pytest.mark.parametrize("rate", RATES)
def test_never_more_than_31_milliseconds_are_held_back(rate):
    stretch, given_samples, heard = TimeStretch(HERTZ), 0, 0
    for chunk in chunks(vowel(3), 0.01):
        heard += len(stretch.feed(chunk, rate))
        given_samples += len(chunk)
        assert stretch.held <= 0.031 * HERTZ
        # A splice may run ahead or behind by the one lag that it left out or repeated.
        assert abs(given_samples - stretch.held - heard * rate) <= HERTZ / 65 * max(1, rate) + 1


@pytest.mark.parametrize("rate", [0.55, 1.9])
def test_in_a_minute_no_drift_adds_up(rate):
    heard = stretched(tone(60, 201), rate)
    assert len(heard) * rate == pytest.approx(60 * HERTZ, abs=0.031 * HERTZ)


def test_a_change_of_the_rate_does_not_wait_for_the_splice_that_was_planned():
    stretch = TimeStretch(HERTZ)
    stretch.feed(tone(1), 1.01)
    heard = stretch.feed(tone(0.5), 2.0)
    assert len(heard) == pytest.approx(0.25 * HERTZ, abs=0.02 * HERTZ)


@pytest.mark.parametrize("rate", RATES)
def test_what_begins_is_heard_50_milliseconds_later_at_most(rate):
    sound = np.concatenate([np.zeros(HERTZ, "f4"), tone(1)])
    stretch, heard = TimeStretch(HERTZ), np.empty(0, "f4")
    for count, chunk in enumerate(chunks(sound, 0.01), 1):
        heard = np.concatenate([heard, stretch.feed(chunk, rate)])
        begun = np.abs(heard) > 0.05
        if begun.any():
            assert count * 0.01 - 1.0 <= 0.05
            assert np.argmax(begun) / HERTZ == pytest.approx(1 / rate, abs=0.05)
            return
    pytest.fail("nothing is heard")


@given(
    st.lists(
        st.tuples(st.integers(1, 4000), st.sampled_from([0.4, 0.5, 0.9, 1.0, 1.1, 1.7, 2.0])),
        min_size=2, max_size=30,
    ),
    st.sampled_from([100, 220, 700]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_there_is_no_click_at_any_border_or_change(pieces, pitch):
    stretch, at, heard = TimeStretch(HERTZ), 0, []
    sound = tone(sum(size for size, _ in pieces) / HERTZ + 0.1, pitch)
    for size, rate in pieces:
        heard.append(stretch.feed(sound[at : at + size], rate))
        at += size
    heard = np.concatenate([*heard, stretch.flush()])
    if len(heard) > 1:
        assert steepest(heard) <= 1.1 * steepest(tone(1, pitch))


@given(st.lists(st.integers(0, 3000), max_size=40))
@settings(max_examples=30, deadline=None)
def test_a_rate_of_1_gives_back_every_sample_at_once(sizes):
    sound, stretch, at = vowel(1.0), TimeStretch(HERTZ), 0
    for size in sizes:
        piece = sound[at : at + size]
        assert stretch.feed(piece, 1.0).tobytes() == piece.tobytes()
        at += size


def test_back_at_1_what_was_held_comes_first_and_nothing_is_missing():
    sound, stretch = tone(1), TimeStretch(HERTZ)
    stretch.feed(sound[:10_000], 1.5)
    held = stretch.held
    assert held > 0
    rest = stretch.feed(sound[10_000:], 1.0)
    assert rest.tobytes() == sound[10_000 - held :].tobytes()


def test_a_flush_gives_what_is_held_as_it_is():
    sound, stretch = tone(1), TimeStretch(HERTZ)
    stretch.feed(sound[:10_000], 0.7)
    held = stretch.held
    assert stretch.flush().tobytes() == sound[10_000 - held : 10_000].tobytes()
    assert stretch.held == len(stretch.flush()) == 0


def test_silence_stays_silent():
    heard = stretched(np.zeros(HERTZ, "f4"), 1.5)
    assert not heard.any()
    assert len(heard) == pytest.approx(HERTZ / 1.5, rel=0.05)
