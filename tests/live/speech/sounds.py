"""Sounds whose pitch and length are known, and what is measured of them."""

from __future__ import annotations

import numpy as np
from genai_processors.content_api import ProcessorPart

HERTZ = 24_000
SCALE = 32768


def tone(seconds, pitch=220.0, *, loud=0.5, hertz=HERTZ):
    return (loud * np.sin(2 * np.pi * pitch * np.arange(int(seconds * hertz)) / hertz)).astype("f4")


def vowel(seconds, pitch=120.0, *, loud=0.5, hertz=HERTZ):
    """A voice: harmonics under moving formants, with vibrato, in syllables."""
    time = np.arange(int(seconds * hertz)) / hertz
    sung = pitch * (1 + 0.1 * np.sin(2 * np.pi * 0.7 * time))
    phase = 2 * np.pi * np.cumsum(sung) / hertz
    formants = [
        (600 + 200 * np.sin(7 * time), 90, 1.0),
        (1400 + 500 * np.sin(5 * time + 1), 130, 0.6),
        (2600 + 0 * time, 200, 0.3),
    ]
    sound = np.zeros(len(time))
    for harmonic in range(1, 40):
        strength = sum(g / (1 + ((harmonic * sung - f) / w) ** 2) for f, w, g in formants)
        sound += strength * (harmonic * sung < 0.45 * hertz) * np.sin(harmonic * phase)
    sound *= np.clip(3 * np.sin(2 * np.pi * 2 * time), 0.05, 1)
    return (loud * sound / np.abs(sound).max()).astype("f4")


def written(samples):
    return np.rint(samples * SCALE).clip(-SCALE, SCALE - 1).astype("<i2").tobytes()


def read(data):
    return np.frombuffer(data, "<i2").astype("f4") / SCALE


def chunks(samples, seconds=0.04, hertz=HERTZ):
    size = int(seconds * hertz)
    return [samples[at : at + size] for at in range(0, len(samples), size)]


def audio(samples, *, hertz=HERTZ, **metadata):
    return ProcessorPart(
        samples if isinstance(samples, bytes) else written(samples),
        mimetype=f"audio/pcm;rate={hertz}",
        role="model",
        metadata=metadata,
    )


def said(samples, seconds=0.04, hertz=HERTZ):
    """A sound in the parts that Live sends it in."""
    return [audio(chunk, hertz=hertz) for chunk in chunks(samples, seconds, hertz)]


def transcript(text):
    return ProcessorPart(text, role="model", substream_name="output_transcription")


def marked(name):
    return ProcessorPart("", role="model", metadata={name: True})


def is_audio(part):
    return (part.mimetype or "").startswith("audio/")


def sound_of(parts):
    return read(b"".join(part.bytes for part in parts if is_audio(part)))


def frequency(samples, hertz=HERTZ):
    """Where most of the energy is."""
    power = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return int(np.argmax(power)) * hertz / len(samples)


def pitches(samples, hertz=HERTZ):
    """The pitch of each voiced moment, by autocorrelation."""
    found = []
    for at in range(0, len(samples) - hertz // 20, hertz // 50):
        piece = samples[at : at + hertz // 20]
        alike = np.correlate(piece, piece, "full")[len(piece) - 1 :]
        if rms(piece) > 0.03:
            lags = alike[hertz // 300 : hertz // 70]
            found.append(hertz / (hertz // 300 + int(np.argmax(lags))))
    return found


def rms(samples):
    return float(np.sqrt(np.mean(np.square(samples, dtype="f8"))))


def steepest(samples):
    """The greatest jump from one sample to the next."""
    return float(np.abs(np.diff(samples)).max())
