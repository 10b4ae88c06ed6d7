"""What a tool returns → plain JSON of bounded size.

The Live client serialises answers while it sends them, where a set or a NaN ends the session
(`google/genai/live.py`, `send_tool_response`). So nothing but plain JSON may leave a tool.
"""

from __future__ import annotations

import itertools
from json.encoder import encode_basestring_ascii as _as_json
from typing import TYPE_CHECKING, Any

from leonidas_tools.jsonable import MOST_BITS, Conversion, NotPlainError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["NotPlainError", "plain"]

_LEAVES = frozenset({bool, type(None)})
_BRANCHES = frozenset({dict, list})
_LONG = 1 << 63
_DEEPEST = 64
_ELLIPSIS = "…"
_WORTH_SHOWING = 64


def plain(value: Any, max_bytes: int) -> tuple[Any, bool]:
    """The value as plain JSON, and whether something had to be cut to keep it small.

    What comes back shares nothing with the value. Looking at it costs no more than `max_bytes`
    allow, however big it is.

    Args:
        value: Whatever a tool returned.
        max_bytes: How long its JSON may be, roughly, with all but ASCII escaped.

    Raises:
        NotPlainError: The value contains itself, is nested too deeply, or holds what has no text.

    Example:
        >>> plain({"sizes": [1, 2]}, 100)
        ({'sizes': [1, 2]}, False)
        >>> plain(list(range(100)), 20)
        ([0, 1, 2, 3, '… 96 more'], True)
    """
    if type(value) is str and len(value) < max_bytes and value.isascii():
        return value, False
    try:
        left = _room_left((value,), max_bytes, 0)
    except NotPlainError:
        value = Conversion(max_bytes).of(value)
        left = _room_left((value,), max_bytes, 0)
    fitting = value if left >= 0 else _fitting(value, max_bytes)
    return _snapshot(fitting), fitting is not value


def _snapshot(value: Any) -> Any:
    """A copy that shares nothing with the tool, which may go on changing what it returned."""
    kind = type(value)
    if kind is dict:
        return {key: _snapshot(i) if type(i) in _BRANCHES else i for key, i in value.items()}
    if kind is list:
        return [_snapshot(i) if type(i) in _BRANCHES else i for i in value]
    return value


def _room_left(items: Iterable[Any], room: int, depth: int) -> int:  # noqa: C901, PLR0912 - below
    """What is left of `room` after the items; negative as soon as there is none.

    Raises:
        NotPlainError: One of them is not plain JSON.
    """
    # One loop that looks at leaves itself: a call for each would cost three times as much.
    if depth > _DEEPEST:
        raise NotPlainError("it is nested too deeply")
    for item in items:
        kind = type(item)
        if kind is str:
            room -= len(item) + 2 if item.isascii() else len(_as_json(item[:room]))
        elif kind is int:
            room -= 4 if -_LONG < item < _LONG else _length_of_integer(item)
        elif kind in _LEAVES:
            room -= 4
        elif kind is float and item - item == 0.0:  # which does not hold for NaN and infinities
            room -= 8
        elif kind is dict:
            room = _room_left(item.values(), room - _length_of_keys(item), depth + 1)
        elif kind is list:
            room = _room_left(item, room - 2, depth + 1)
        else:
            raise NotPlainError(f"a {kind.__name__} has no form in JSON")
        if room < 0:
            return room
    return room


def _length_of_keys(value: dict[Any, Any]) -> int:
    try:
        keys = "".join(value)
    except TypeError:
        raise NotPlainError("a key is not a string") from None
    return 2 + 4 * len(value) + (len(keys) if keys.isascii() else len(_as_json(keys)))


def _length_of_integer(value: int) -> int:
    bits = value.bit_length()
    if bits > MOST_BITS:
        raise NotPlainError("an integer is too long")
    return bits // 3


def _fitting(value: Any, room: int) -> Any:
    """The value if there is room for it, else as much of its beginning as there is room for."""
    kind = type(value)
    if kind is list:
        return _fitting_list(value, room)
    if kind is dict:
        return _fitting_dict(value, room)
    if _room_left((value,), room, 0) < 0 and kind is str:
        return _begun_text(value, room)
    return value


def _begun_text(text: str, room: int) -> str:
    kept = max(room - 24, 0)
    while not text[:kept].isascii() and len(_as_json(text[:kept])) > room:
        kept = kept * 3 // 4
    return f"{text[:kept]}{_ELLIPSIS} {len(text) - kept} more characters"


def _fitting_list(items: list[Any], room: int) -> list[Any]:
    room -= 2
    for index, item in enumerate(items):
        left = _room_left((item,), room, 0)
        if left < 0:
            kept = [*items[:index], *_begun(item, room)]
            return [*kept, f"{_ELLIPSIS} {len(items) - len(kept)} more"]
        room = left
    return items


def _fitting_dict(items: dict[str, Any], room: int) -> dict[str, Any]:
    room -= _length_of_keys(items)
    for index, (key, item) in enumerate(items.items()):
        left = _room_left((item,), room, 0)
        if left < 0:
            kept = dict(itertools.islice(items.items(), index))
            kept.update((key, begun) for begun in _begun(item, room))
            return {**kept, _ELLIPSIS: f"{len(items) - len(kept)} more"}
        room = left
    return items


def _begun(item: Any, room: int) -> tuple[Any, ...]:
    """The beginning of an item there is not enough room for, where that is worth showing."""
    if room < _WORTH_SHOWING or type(item) not in (str, list, dict):
        return ()
    return (_fitting(item, room),)
