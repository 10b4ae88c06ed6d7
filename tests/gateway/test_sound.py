"""Sound in the formats of clients, against references."""

import warnings

import numpy as np
import pytest

from leonidas_tools.gateway.sound import SoundToClient, decode
from leonidas_tools.gateway.wire import SoundFormat

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    audioop = pytest.importorskip("audioop")  # the reference for G.711; Python 3.13 has it no more

EVERY_SAMPLE = np.arange(-(1 << 15), 1 << 15).astype("<i2").tobytes()


def test_every_byte_of_mu_law_is_decoded_as_by_the_reference():
    every = bytes(range(256))
    assert decode(every) == audioop.ulaw2lin(every, 2)


def test_every_sample_is_encoded_as_mu_law_as_by_the_reference():
    wide = SoundToClient(SoundFormat(encoding="mulaw", hertz=24_000))
    assert wide.take(EVERY_SAMPLE, "audio/pcm;rate=24000") == audioop.lin2ulaw(EVERY_SAMPLE, 2)


@pytest.mark.parametrize(("hertz", "least_decibels"), [(8000, 60), (16_000, 60), (22_050, 60)])
def test_a_sine_keeps_its_form_at_another_rate(hertz, least_decibels):
    spoken = (8000 * np.sin(2 * np.pi * 440 * np.arange(24_000) / 24_000)).astype("<i2")
    to_client = SoundToClient(SoundFormat(hertz=hertz))
    pieces = [to_client.take(piece.tobytes(), "audio/pcm") for piece in np.split(spoken, 50)]
    heard = np.frombuffer(b"".join([*pieces, to_client.finish()]), "<i2").astype(float)
    assert len(heard) == hertz
    wanted = 8000 * np.sin(2 * np.pi * 440 * np.arange(hertz) / hertz)
    middle = slice(hertz // 10, -hertz // 10)  # a filter rings at the ends
    noise = heard[middle] - wanted[middle]
    decibels = 10 * np.log10(np.mean(wanted[middle] ** 2) / np.mean(noise**2))
    assert decibels > least_decibels


def test_a_tone_above_the_range_of_the_telephone_is_filtered():
    tone = (8000 * np.sin(2 * np.pi * 6000 * np.arange(24_000) / 24_000)).astype("<i2")
    to_client = SoundToClient(SoundFormat(hertz=8000))
    heard = to_client.take(tone.tobytes(), "audio/pcm;rate=24000") + to_client.finish()
    loud = np.abs(np.frombuffer(heard, "<i2")[800:-800].astype(int)).max()
    assert loud < 80  # else it would be heard as one of 2000 Hz
