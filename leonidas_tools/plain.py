"""What a tool returns → plain JSON of bounded size.

The Live client serialises answers while it sends them, where a set or a NaN ends the session
(`google/genai/live.py`, `send_tool_response`). So nothing but plain JSON may leave a tool.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from leonidas_tools.cutting import Keep, fitting, length, room_left
from leonidas_tools.jsonable import Conversion, NotPlainError

__all__ = ["Measured", "NotPlainError", "measured", "plain", "snapshot"]

_BRANCHES = frozenset({dict, list})


def plain(value: Any, max_bytes: int, keep: Keep = "head") -> tuple[Any, bool]:
    """The value as plain JSON, and whether something had to be cut to keep it small.

    What comes back shares nothing with the value. Looking at it costs no more than `max_bytes`
    allow, however big it is.

    Args:
        value: Whatever a tool returned.
        max_bytes: How long its JSON may be, roughly, with all but ASCII escaped.
        keep: Which part is kept of what is longer.

    Raises:
        NotPlainError: The value contains itself, is nested too deeply, or holds what has no text.

    Example:
        >>> plain({"sizes": [1, 2]}, 100)
        ({'sizes': [1, 2]}, False)
        >>> plain(list(range(100)), 50)
        ([0, 1, 2, 3, '… 96 more'], True)
    """
    shown = measured(value, max_bytes, keep)
    return shown.value, shown.cut


class Measured(NamedTuple):
    """A plain value, whether something was cut, and how long its JSON is."""

    value: Any
    cut: bool
    length: int


def measured(value: Any, max_bytes: int, keep: Keep = "head") -> Measured:
    """The value as plain JSON, as `plain` makes it, and how long that is: nobody measures again."""
    if type(value) is str and len(value) < max_bytes and value.isascii():
        return Measured(value, False, len(value) + 2)
    try:
        left = room_left((value,), max_bytes)
    except NotPlainError:
        value = Conversion(max_bytes).of(value)
        left = room_left((value,), max_bytes)
    if left >= 0:
        return Measured(snapshot(value), False, max_bytes - left)
    fitted = fitting(value, max_bytes, keep)
    return Measured(snapshot(fitted), fitted is not value, length(fitted))


def snapshot(value: Any) -> Any:
    """A copy of a plain value that shares nothing with it: its owner may go on changing it."""
    kind = type(value)
    if kind is dict:
        copied = value.copy()  # most are flat: to copy them so is twice as quick
        for key, inner in value.items():
            if type(inner) in _BRANCHES:
                copied[key] = snapshot(inner)
        return copied
    if kind is list:
        return [snapshot(i) if type(i) in _BRANCHES else i for i in value]
    return value
