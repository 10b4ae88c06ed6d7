"""The wire format of Gemini Live: strict JSON, either case of field names, either base64."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Message: TypeAlias = dict[str, Any]

CLIENT_FIELDS = ("setup", "clientContent", "realtimeInput", "toolResponse", "contextUpdate")
"""The top-level fields of a client's message; each message has exactly one."""

_URL_SAFE = str.maketrans("-_", "+/")


def parse(frame: str | bytes) -> Message:
    """Return the JSON object in a frame, read strictly.

    Raises:
        ValueError: The frame is not a JSON object, or contains a bare NaN or Infinity.

    Example:
        >>> parse(b'{"setup": {}}')
        {'setup': {}}
        >>> parse('{"x": NaN}')
        Traceback (most recent call last):
        ...
        ValueError: NaN is not JSON
    """
    try:
        message = json.loads(frame, parse_constant=_refuse_constant)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        msg = f"the message is not JSON: {error}"
        raise ValueError(msg) from None
    except RecursionError:
        msg = "the message is nested too deeply"
        raise ValueError(msg) from None
    if not isinstance(message, dict):
        msg = f"a message must be a JSON object, not {type(message).__name__}"
        raise ValueError(msg)  # noqa: TRY004 -- one kind of error for all input
    return message


def _refuse_constant(name: str) -> NoReturn:
    msg = f"{name} is not JSON"
    raise ValueError(msg)


def encode(message: Mapping[str, Any]) -> str:
    """Return a message as JSON text."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def camel(name: str) -> str:
    """Return a field name in the camel case of proto JSON.

    Example:
        >>> camel("function_responses"), camel("functionResponses")
        ('functionResponses', 'functionResponses')
    """
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), name)


def fields(value: Any) -> Message:
    """Return the fields of an object by camel-case names, one level deep; else `{}`.

    Example:
        >>> fields({"mime_type": "audio/pcm", "data": ""})
        {'mimeType': 'audio/pcm', 'data': ''}
    """
    return {camel(key): item for key, item in value.items()} if isinstance(value, dict) else {}


def objects(value: Any) -> list[Message]:
    """Return a list of objects by camel-case fields; a single object is a list of one.

    Example:
        >>> objects([{"inline_data": {}}]), objects({"text": "hi"}), objects(None)
        ([{'inlineData': {}}], [{'text': 'hi'}], [])
    """
    items = value if isinstance(value, list) else [value]
    return [fields(item) for item in items if isinstance(item, dict)]


def decoded(value: Any) -> bytes | None:
    r"""Return the bytes of a base64 text in either alphabet; `None` if it is invalid.

    Example:
        >>> decoded("-_8="), decoded("+/8"), decoded("no!")
        (b'\xfb\xff', b'\xfb\xff', None)
    """
    if not isinstance(value, str):
        return None
    text = value.translate(_URL_SAFE).rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def is_base64(value: Any) -> bool:
    """Return whether a value is base64 text in the standard or the URL-safe alphabet."""
    return decoded(value) is not None
