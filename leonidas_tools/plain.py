"""What a tool returns → plain JSON of bounded size.

The Live client serialises answers while it sends them, where a set or a NaN ends the session
(`google/genai/live.py`, `send_tool_response`). So nothing but plain JSON may leave a tool.
"""

from __future__ import annotations

import itertools
import marshal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_LEAVES = frozenset({int, bool, type(None)})
_INFINITIES = (float("inf"), float("-inf"))
_DEEPEST = 64
_ELLIPSIS = "…"
_WORTH_SHOWING = 64


class NotPlainError(ValueError):
    """Raised when a value has no form in JSON, such as one that contains itself."""


def plain(value: Any, max_bytes: int) -> tuple[Any, bool]:
    """The value as plain JSON, and whether something had to be cut to keep it small.

    What comes back shares nothing with the value. Looking at it costs no more than `max_bytes`
    allow, however big it is.

    Args:
        value: Whatever a tool returned.
        max_bytes: How long its JSON may be, roughly: strings count a byte a character.

    Raises:
        NotPlainError: The value contains itself, or is nested too deeply.

    Example:
        >>> plain({"sizes": [1, 2]}, 100)
        ({'sizes': [1, 2]}, False)
        >>> plain(list(range(100)), 20)
        ([0, 1, 2, 3, '… 96 more'], True)
    """
    if type(value) is str and len(value) < max_bytes:
        return value, False
    try:
        fitting = _fitting(value, max_bytes)
        copy = _snapshot(fitting)
    except NotPlainError:
        value = _converted(value)
        copy = fitting = _fitting(value, max_bytes)
    return copy, fitting is not value


def _snapshot(value: Any) -> Any:
    """A copy that shares nothing with the tool, which may go on changing what it returned.

    Of plain values `marshal` makes one in a tenth of the time of `copy.deepcopy`. Its version 2
    knows no shared objects, so that the copy is a tree as JSON is.
    """
    kind = type(value)
    return marshal.loads(marshal.dumps(value, 2)) if kind is dict or kind is list else value  # noqa: S302 - our own bytes


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
            room -= len(item) + 2
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
        return 2 + 4 * len(value) + len("".join(value))
    except TypeError:
        raise NotPlainError("a key is not a string") from None


def _converted(value: Any) -> Any:
    """The value with every part that JSON does not know put into a form that it knows."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        jsonable = to_jsonable_python(
            value, bytes_mode="base64", inf_nan_mode="strings", fallback=_described
        )
    except (ValueError, RecursionError, PydanticSerializationError) as error:
        raise NotPlainError(str(error).splitlines()[0]) from error
    return _finite(jsonable)


def _described(value: Any) -> Any:
    """An object pydantic does not know, as its own text or, lacking one, its type's name."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (Sequence, Iterator)):
        return list(value)
    kind: Any = type(value)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return f"<{kind.__name__}>"
    return str(value)


def _finite(value: Any) -> Any:
    """The value with string keys, and without NaN and infinities, which are not JSON."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and (value != value or value in _INFINITIES):  # noqa: PLR0124
        return str(value)
    return value


def _fitting(value: Any, room: int) -> Any:
    """The value if there is room for it, else as much of its beginning as there is room for."""
    kind = type(value)
    if kind is list:
        return _fitting_list(value, room)
    if kind is dict:
        return _fitting_dict(value, room)
    if kind is str and len(value) + 2 > room:
        kept = max(room - 24, 0)
        return f"{value[:kept]}{_ELLIPSIS} {len(value) - kept} more characters"
    _room_left((value,), room, 0)
    return value


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
