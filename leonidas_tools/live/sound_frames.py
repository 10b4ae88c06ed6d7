"""Encode and decode audio frames without google-genai's converters.

There are 50 frames a second in each direction, and the converters take most of their time. All
other messages, and every frame with other fields, go through google-genai. The tests compare the
encoding and decoding here with those of google-genai.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
from typing import TYPE_CHECKING, Any

from google.genai import types

from leonidas_tools.processors.parts import copy_with, made_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genai_processors.content_api import ProcessorPart
    from google.genai.live import AsyncSession

_PLAIN = frozenset({"data", "mime_type"})
_MESSAGE = {"serverContent"}
_CONTENT = {"modelTurn"}
_TURNS = ({"parts"}, {"parts", "role"})
_PART = {"inlineData"}
_BLOB = {"data", "mimeType"}


async def send_sound(session: AsyncSession, blob: types.Blob) -> None:
    """Send a frame of the user's audio.

    Raises:
        ValueError: The blob is not audio.
        websockets.exceptions.ConnectionClosed: The connection is closed.
    """
    text = sound_text(blob)
    if text is None:
        await session.send_realtime_input(audio=blob)
    else:
        await session._ws.send(text)  # noqa: SLF001 - google-genai cannot bypass its converters


def sound_text(blob: types.Blob) -> str | None:
    """Return the message of an audio frame, or `None` if google-genai must encode it.

    Example:
        >>> sound_text(types.Blob(data=bytes(3), mime_type="audio/pcm;rate=16000"))
        '{"realtime_input": {"audio": {"data": "AAAA", "mime_type": "audio/pcm;rate=16000"}}}'
    """
    data, kind = blob.data, blob.mime_type
    if not data or not kind or not kind.startswith("audio/") or blob.model_fields_set != _PLAIN:
        return None
    encoded = base64.urlsafe_b64encode(data).decode("ascii")
    audio = f'{{"data": "{encoded}", "mime_type": {json.dumps(kind)}}}'
    return f'{{"realtime_input": {{"audio": {audio}}}}}'


def sound_parts(raw: bytes | str) -> Sequence[ProcessorPart] | None:
    """Return the parts of a message that contains only audio, or `None` for any other message.

    Example:
        >>> blob = '{"mimeType": "audio/pcm;rate=24000", "data": "AAAA"}'
        >>> turn = f'{{"modelTurn": {{"parts": [{{"inlineData": {blob}}}]}}}}'
        >>> [len(part.bytes) for part in sound_parts(f'{{"serverContent": {turn}}}') or ()]
        [3]
        >>> sound_parts('{"serverContent": {"turnComplete": true}}') is None
        True
    """
    try:
        message: Any = json.loads(raw)
        if message.keys() != _MESSAGE:
            return None
        content = message["serverContent"]
        if content.keys() != _CONTENT:
            return None
        turn = content["modelTurn"]
        role = turn.get("role", "model")
        if turn.keys() not in _TURNS or not isinstance(role, str) or not role:
            return None
        pieces = turn["parts"]
        if not isinstance(pieces, list) or not pieces:
            return None
        return [_part(piece, role) for piece in pieces]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None


def _part(piece: Any, role: str) -> ProcessorPart:
    """Return the part of one piece of audio."""
    if piece.keys() != _PART or piece["inlineData"].keys() != _BLOB:
        raise ValueError("not only audio")
    kind, data = piece["inlineData"]["mimeType"], piece["inlineData"]["data"]
    if not kind.startswith("audio/"):
        raise ValueError("not audio")
    sound = binascii.a2b_base64(data, strict_mode=True)
    part, blob = _templates()
    sound_blob = copy_with(blob, {"data": sound, "mime_type": kind})
    return made_part(copy_with(part, {"inline_data": sound_blob}), kind, role=role)


@functools.cache
def _templates() -> tuple[types.Part, types.Blob]:
    blob = types.Blob(data=b"", mime_type="audio/pcm")
    return types.Part(inline_data=blob), blob
