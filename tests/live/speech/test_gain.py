"""Loudness, measured."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leonidas_tools.live.speech.voice import Gain, Voice
from tests.live.speech.sounds import HERTZ, read, rms, steepest, tone, written


@pytest.mark.parametrize("volume", [0.0, 0.25, 0.5, 1.0, 1.5, 2.0])
def test_sound_is_as_loud_as_the_volume_says(volume):
    sound = tone(1, loud=0.2)
    assert rms(Gain(HERTZ, volume).feed(sound, volume)) == pytest.approx(volume * rms(sound))


def test_a_volume_of_1_changes_nothing():
    sound = tone(1, loud=1.0)
    assert Gain(HERTZ, 1.0).feed(sound, 1.0) is sound


@pytest.mark.parametrize("volume", [1.01, 1.2, 2.0, 3.0])
def test_loud_sound_is_bent_below_full_scale_and_not_cut_off(volume):
    heard = Gain(HERTZ, volume).feed(tone(1, loud=1.0), volume)
    assert 0.9 < np.abs(heard).max() <= 1.0
    # Where a wave is cut off, neighbours are equal; a bent one has a single top.
    top = np.abs(heard) > 0.99 * np.abs(heard).max()
    assert len(np.unique(heard[top])) > 3


@given(st.lists(st.floats(0.0, 3.0), min_size=1, max_size=20), st.integers(10, 2000))
@settings(max_examples=60, deadline=None)
def test_a_change_of_volume_makes_no_click(volumes, size):
    gain, sound = Gain(HERTZ, 1.0), tone(2, 100)
    heard = np.concatenate(
        [gain.feed(sound[at * size : (at + 1) * size], volume) for at, volume in enumerate(volumes)]
    )
    ramp = 1 / (0.01 * HERTZ)  # from silence to 1.0 in 10 ms
    assert steepest(heard) <= 3 * steepest(sound) + 0.5 * ramp + 1e-4


def test_the_ramp_ends_at_the_volume_itself():
    gain = Gain(HERTZ, 1.0)
    gain.feed(tone(0.1), 0.3)
    assert gain.volume == 0.3
    gain.feed(tone(0.1), 1.0)
    assert gain.volume == 1.0


@pytest.mark.parametrize(("volume", "milliseconds"), [(0.0, 10), (0.5, 5), (2.0, 10)])
def test_the_ramp_is_as_long_as_it_says(volume, milliseconds):
    heard = Gain(HERTZ, 1.0).feed(np.full(HERTZ // 10, 0.1, "f4"), volume)
    reached = int(np.argmax(np.isclose(heard, 0.1 * volume, atol=1e-6))) + 1
    assert reached / HERTZ * 1000 == pytest.approx(milliseconds, abs=0.1)


def test_sound_is_changed_until_the_ramp_back_to_1_has_ended():
    voice, sound = Voice(HERTZ, 0.5), tone(0.1, 100)
    heard = voice.feed(written(sound[:1000]), rate=1.0, volume=0.5)
    assert voice.changes(rate=1.0, volume=1.0)
    heard += voice.feed(written(sound[1000:]), rate=1.0, volume=1.0)
    assert not voice.changes(rate=1.0, volume=1.0)
    assert steepest(read(heard)) <= steepest(sound) + 0.5 / 240
    assert heard[-1000:] == written(sound)[-1000:]


@pytest.mark.parametrize("rate", [0.5, 1.0, 2.0])
def test_the_loudest_sound_there_is_does_not_wrap_around(rate):
    square = np.where(tone(1, 100) >= 0, 1.0, -1.0).astype("f4")
    voice = Voice(HERTZ, 2.0)
    heard = read(voice.feed(written(square), rate=rate, volume=2.0) + voice.flush())
    begin, end = np.sign(heard[:100]), np.sign(square[:100])
    assert np.array_equal(begin, end)
    assert np.abs(heard).max() <= 1.0
