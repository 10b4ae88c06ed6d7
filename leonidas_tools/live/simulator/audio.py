"""Synthetic speech: a soft tone, as long as the text would take to say."""

from __future__ import annotations

import base64
import math
from array import array
from typing import Final

SAMPLE_RATE: Final = 24_000
MIME_TYPE: Final = f"audio/pcm;rate={SAMPLE_RATE}"
CHUNK_SECONDS: Final = 0.1

_TONE_HERTZ: Final = 220  # whole periods in a chunk, so that chunks join without a click
_LOUDNESS: Final = 3_000
_SECONDS_PER_CHARACTER: Final = 0.06


def tone_chunk() -> str:
    """One chunk of the tone: 100 ms of 16-bit PCM at 24 kHz, in base64."""
    step = 2 * math.pi * _TONE_HERTZ / SAMPLE_RATE
    count = round(SAMPLE_RATE * CHUNK_SECONDS)
    samples = array("h", (round(_LOUDNESS * math.sin(step * i)) for i in range(count)))
    return base64.b64encode(samples.tobytes()).decode()


def speech_seconds(text: str) -> float:
    """How long saying a text takes.

    Example:
        >>> speech_seconds("Hello, world.")
        0.78
    """
    return round(len(text) * _SECONDS_PER_CHARACTER, 3)


def spread(text: str, chunks: int) -> list[str]:
    """The words of a text spread over that many chunks, each with the space before it.

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
