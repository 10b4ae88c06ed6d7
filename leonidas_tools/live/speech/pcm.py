"""Recognise parts with the sound of the voice, and their format."""

from __future__ import annotations

from genai_processors.content_api import ProcessorPart

BYTES_PER_SAMPLE = 2
_HERTZ = 24_000
_MICROPHONE = "realtime"


def hertz_of(part: ProcessorPart) -> int | None:
    """Return the samples per second of a part that the model says, `None` for every other part.

    Taken is 16-bit mono PCM that is not the user's; 24 kHz, as Live sends, where nothing is said.

    Example:
        >>> hertz_of(ProcessorPart(b"..", mimetype="audio/pcm;rate=16000", role="model"))
        16000
        >>> hertz_of(ProcessorPart("Hello"))
    """
    blob = part.part.inline_data
    if blob is None or not blob.data:
        return None
    if part.role == "user" or part.substream_name == _MICROPHONE:
        return None
    kind, *parameters = (blob.mime_type or "").lower().replace(" ", "").split(";")
    values = dict(each.partition("=")[::2] for each in parameters)
    if kind != "audio/pcm" or values.get("channels", "1") != "1":
        return None
    hertz = values.get("rate", str(_HERTZ))
    return int(hertz) if hertz.isascii() and hertz.isdigit() and int(hertz) > 0 else None


def sound_part(like: ProcessorPart, data: bytes, *, metadata: bool = True) -> ProcessorPart:
    """Return a part as another one is, with other sound."""
    return ProcessorPart(
        data,
        mimetype=like.mimetype,
        role=like.role,
        substream_name=like.substream_name,
        metadata=dict(like.metadata) if metadata else {},
    )
