"""Arguments of calls as JSON text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


_DECODER = json.JSONDecoder(strict=False)


def parse_arguments(text: str) -> Mapping[str, Any] | str:
    """Return the object of a JSON text, or the text if it is not one JSON object.

    Some servers write an empty object or `null` before the real one, or the same object twice.

    Example:
        >>> parse_arguments('{"city": "Lisbon"}'), parse_arguments('{"city": "Li')
        ({'city': 'Lisbon'}, '{"city": "Li')
        >>> parse_arguments('{}{"city": "Lisbon"}'), parse_arguments("null")
        ({'city': 'Lisbon'}, {})
    """
    found: Any = None
    body = text.strip()
    at = 0
    while at < len(body):
        try:
            value, at = _DECODER.raw_decode(body, at)
        except (ValueError, RecursionError):
            return text
        if not (value is None or isinstance(value, dict)) or (found and value and value != found):
            return text
        found = value or found
        while body[at : at + 1].isspace():
            at += 1
    return found or {}


def format_arguments(arguments: Mapping[str, Any] | str) -> str:
    r"""Return arguments as the text of a JSON object, the only form that servers accept.

    Other text is wrapped in an object, so that the model sees its own text.

    Example:
        >>> format_arguments({"city": "Lisbon"}), format_arguments("Lisb")
        ('{"city": "Lisbon"}', '{"unreadable": "Lisb"}')
    """
    return json.dumps(object_of(arguments), ensure_ascii=False, default=str)


def object_of(arguments: Mapping[str, Any] | str) -> dict[str, Any]:
    """Return arguments as an object; wrap text that is not a JSON object in one."""
    if isinstance(arguments, str):
        parsed = parse_arguments(arguments)
        return {"unreadable": parsed} if isinstance(parsed, str) else dict(parsed)
    return dict(arguments)
