"""The duration of sound and video."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.genai import types

_RATE = re.compile(r"rate=(\d{1,6})(?!\d)", re.ASCII)
_INPUT_HERTZ = 16_000
_BYTES_PER_SAMPLE = 2
_PCM = ("audio/pcm", "audio/l16")
_FRAME_SECONDS = 0.02
_PICTURE_SECONDS = 1.0


def seconds_of(blob: types.Blob) -> float:
    """Return how long a blob lasts: 16-bit mono PCM by its length, a picture as one frame of video.

    Sound of other kinds counts as one frame of 20 ms, since only decoding it would tell.

    The Live API takes one frame of video a second and 16-bit mono PCM, 16 kHz where the MIME type
    says nothing (https://ai.google.dev/gemini-api/docs/live-guide).

    Example:
        >>> from google.genai.types import Blob
        >>> seconds_of(Blob(data=bytes(3200), mime_type="audio/pcm;rate=16000"))
        0.1
    """
    mime_type = blob.mime_type or "audio/pcm"
    if not mime_type.startswith("audio/"):
        return _PICTURE_SECONDS
    if not mime_type.startswith(_PCM):
        return _FRAME_SECONDS
    rate = _RATE.search(mime_type)
    hertz = max(int(rate[1]), 1) if rate else _INPUT_HERTZ
    return len(blob.data or b"") / (hertz * _BYTES_PER_SAMPLE)
