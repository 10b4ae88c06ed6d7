"""Simulated speech: a recording, or a soft tone with the duration of the text."""

from __future__ import annotations

import base64
import math
import wave
from array import array
from typing import TYPE_CHECKING, Final

from leonidas_tools.files.reading import open_file

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE_RATE: Final = 24_000
MIME_TYPE: Final = f"audio/pcm;rate={SAMPLE_RATE}"
CHUNK_SECONDS: Final = 0.1

_TONE_HERTZ: Final = 220  # whole periods in a chunk, so that chunks join without a click
_LOUDNESS: Final = 3_000
_SECONDS_PER_CHARACTER: Final = 0.06
_SAMPLE_BYTES: Final = 2


def tone(seconds: float) -> bytes:
    """Return a tone as 16-bit PCM at 24 kHz; round its length to whole chunks of 100 ms.

    Example:
        >>> len(tone(0.26)) == round(3 * CHUNK_SECONDS * SAMPLE_RATE) * 2
        True
    """
    step = 2 * math.pi * _TONE_HERTZ / SAMPLE_RATE
    count = round(SAMPLE_RATE * CHUNK_SECONDS)
    samples = array("h", (round(_LOUDNESS * math.sin(step * i)) for i in range(count)))
    return samples.tobytes() * round(seconds / CHUNK_SECONDS)


def chunks_of(pcm: bytes) -> list[str]:
    """Return PCM audio as base64 chunks of 100 ms; the last may be shorter.

    Example:
        >>> chunks_of(bytes(4800) + bytes(2))[1]
        'AAA='
    """
    size = 2 * round(SAMPLE_RATE * CHUNK_SECONDS)
    pieces = (pcm[start : start + size] for start in range(0, len(pcm), size))
    return [base64.b64encode(piece).decode() for piece in pieces]


def read_wav(file: Path) -> bytes:
    """Return the samples of a WAV file in Gemini's format: 16-bit PCM at 24 kHz, one channel.

    Raises:
        ValueError: The file cannot be read, or its samples are not 16-bit PCM.
    """
    try:
        with open_file(file) as opened, wave.open(opened) as sound:
            rate, channels, width = (
                sound.getframerate(),
                sound.getnchannels(),
                sound.getsampwidth(),
            )
            frames = sound.readframes(sound.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise ValueError(f"{file.name!r} is not a readable WAV file: {error}") from None
    if width != _SAMPLE_BYTES:
        raise ValueError(f"{file.name!r} has samples of {8 * width} bits; 16 are needed")
    samples = array("h", frames)
    if channels > 1:
        grouped = zip(*(samples[channel::channels] for channel in range(channels)), strict=True)
        samples = array("h", (sum(group) // channels for group in grouped))
    return _resampled(samples, rate).tobytes()


def _resampled(samples: array[int], rate: int) -> array[int]:
    if rate == SAMPLE_RATE or not samples:
        return samples
    last = len(samples) - 1
    resampled = array("h")
    for index in range(len(samples) * SAMPLE_RATE // rate):
        before, part = divmod(index * rate, SAMPLE_RATE)
        here, there = samples[before], samples[min(before + 1, last)]
        resampled.append(here + (there - here) * part // SAMPLE_RATE)
    return resampled


def speech_seconds(text: str) -> float:
    """Return the duration of a spoken text, in seconds.

    Example:
        >>> speech_seconds("Hello, world.")
        0.78
    """
    return round(len(text) * _SECONDS_PER_CHARACTER, 3)


def spread(text: str, chunks: int) -> list[str]:
    """Split a text into that many chunks of words; each word keeps the space before it.

    Example:
        >>> spread("one two three", 4)
        ['one', ' two', ' three', '']
        >>> "".join(spread("one two three", 2))
        'one two three'
    """
    pieces = [""] * max(chunks, 1)
    words = text.split(" ")
    for index, word in enumerate(words):
        pieces[index * len(pieces) // len(words)] += f" {word}" if index else word
    return pieces
