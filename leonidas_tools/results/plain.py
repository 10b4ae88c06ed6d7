"""Turn what a tool returns into plain JSON of bounded size.

The Live client serialises answers while it sends them, where a set or a NaN ends the session
(`google/genai/live.py`, `send_tool_response`). So nothing but plain JSON may leave a tool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from leonidas_tools.results.cutting import fitting, length, room_left
from leonidas_tools.results.jsonable import Conversion, ForeignTypeError, NotPlainError

__all__ = [
    "MOST_ON_LOOP",
    "ForeignTypeError",
    "Measured",
    "NotPlainError",
    "TooLongError",
    "measured",
    "plain",
    "snapshot",
]

MOST_ON_LOOP = 32_768
"""Longest JSON whose value is examined on the event loop.

Values with shared parts and `range` objects are small, and their JSON is not. The loop only finds
out that a value is longer; a thread converts and cuts it.
"""
_MOST_LISTS = 262_144
"""Most lists and objects copied: to collect and drop millions blocks the event loop."""
_MOST_LISTS_ON_LOOP = 4096
_ROOM_OF_MANY = 2 * _MOST_LISTS
_BRANCHES = frozenset({dict, list})
_ENDLESS = 1 << 62
_MARGIN = 65_536
"""Margin examined beyond what is kept where secrets are masked, so that none is cut."""

Mask: TypeAlias = Callable[[Any], Any]
"""Takes the secrets out of plain JSON."""


class TooLongError(ValueError):
    """Raised for a value whose JSON is longer than may be looked through here."""


def plain(
    value: Any, max_bytes: int, *, mask: Mask | None = None, foreign: bool = True
) -> tuple[Any, bool]:
    """Return the value as plain JSON, and whether something was cut to keep it small.

    The result shares nothing with the value, and its texts are valid UTF-8. The work is bounded by
    `max_bytes`, however large the value is.

    Raises:
        ForeignTypeError: The value has such a type, and `foreign` is false.
        NotPlainError: The value contains itself, is nested too deeply, or holds what has no text.

    Example:
        >>> plain({"sizes": [1, 2]}, 100)
        ({'sizes': [1, 2]}, False)
        >>> plain(list(range(100)), 50)
        ([0, 1, 2, 3, '… 96 more'], True)
    """
    shown = measured(value, max_bytes, mask=mask, foreign=foreign)
    return shown.value, shown.cut


class Measured(NamedTuple):
    """A plain value, whether something was cut, and how long its JSON is."""

    value: Any
    cut: bool
    length: int


def measured(
    value: Any,
    max_bytes: int,
    *,
    mask: Mask | None = None,
    foreign: bool = True,
    longest: int | None = None,
) -> Measured:
    """Return the value as `plain` does, with the length of its JSON.

    Raises:
        TooLongError: It has to be cut, or its JSON is longer than `longest`: the work is bounded
            by that, too. An ASCII text takes no work, however long it is.
    """
    if mask is not None:
        whole = measured(value, max_bytes + _MARGIN, foreign=foreign, longest=longest)
        shown = measured(mask(whole.value), max_bytes)
        return shown._replace(cut=shown.cut or whole.cut)
    if type(value) is str and len(value) < max_bytes and value.isascii():
        return Measured(value, False, len(value) + 2)
    room = max_bytes if longest is None else min(max_bytes, longest)
    short = False
    try:
        left = room_left((value,), room)
    except NotPlainError:
        lists = _MOST_LISTS if longest is None else _MOST_LISTS_ON_LOOP
        conversion = Conversion(room, foreign=foreign, lists=lists)
        value = conversion.of(value)
        short = conversion.is_short
        left = -1 if short and longest is not None else room_left((value,), room)
    if room > _ROOM_OF_MANY and not short and _has_many_lists(value):
        max_bytes, left = _ROOM_OF_MANY, -1
    if left >= 0:
        return Measured(snapshot(value), short, room - left)
    if longest is not None:
        raise TooLongError(f"the JSON of a {type(value).__name__} is longer than {room} bytes")
    fitted = fitting(value, max_bytes)
    try:
        size = length(fitted)
    except NotPlainError:  # only as much of each text was looked at as there was room for
        fitted = Conversion(_ENDLESS).of(fitted)
        size = length(fitted)
    return Measured(snapshot(fitted), short or fitted is not value, size)


def _has_many_lists(value: Any) -> bool:
    """Tell whether a plain value has more lists and objects than are copied; shared ones count."""
    waiting, seen = [value], 0
    while waiting:
        each = waiting.pop()
        inner = each.values() if type(each) is dict else each if type(each) is list else ()
        for item in inner:
            if type(item) in _BRANCHES:
                seen += 1
                if seen > _MOST_LISTS:
                    return True
                waiting.append(item)
    return False


def snapshot(value: Any) -> Any:
    """Return a deep copy of a plain value, whose owner may go on changing it."""
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
