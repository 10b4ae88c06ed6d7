"""The duration of audio and video."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genai_processors.content_api import ProcessorPart
    from google.genai import types

_RATE = re.compile(r"rate=(\d{1,6})(?!\d)", re.ASCII)
_INPUT_HERTZ = 16_000
_BYTES_PER_SAMPLE = 2
_PCM = ("audio/pcm", "audio/l16")
_FRAME_SECONDS = 0.02
_PICTURE_SECONDS = 1.0


def seconds_of(part: ProcessorPart) -> float:
    """Return the duration of the audio or video of a part in seconds; 0 without any."""
    blob = part.part.inline_data
    return 0.0 if blob is None else blob_seconds(blob)


def blob_seconds(blob: types.Blob) -> float:
    """Return the duration of a blob in seconds.

    PCM counts by its length, as 16-bit mono, with 16 kHz if the MIME type names no rate. A picture
    counts as 1 s, because the Live API takes one video frame a second
    (https://ai.google.dev/gemini-api/docs/live-guide). Other audio counts as one frame of 20 ms,
    because only decoding would reveal its duration.

    Example:
        >>> from google.genai.types import Blob
        >>> blob_seconds(Blob(data=bytes(3200), mime_type="audio/pcm;rate=16000"))
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
