"""What a tool returns → plain JSON of bounded size.

The Live client serialises answers while it sends them, where a set or a NaN ends the session
(`google/genai/live.py`, `send_tool_response`). So nothing but plain JSON may leave a tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_LEAVES = frozenset({int, bool, type(None)})
_INFINITIES = (float("inf"), float("-inf"))
_DEEPEST = 64
_ELLIPSIS = "…"


class NotPlainError(ValueError):
    """Raised when a value has no form in JSON, such as one that contains itself."""


def plain(value: Any, max_bytes: int) -> tuple[Any, bool]:
    """The value as plain JSON, and whether something had to be cut to keep it small.

    A value that is plain and small already comes back as it is. Looking at it costs no more
    than `max_bytes` allow, however big it is.

    Args:
        value: Whatever a tool returned.
        max_bytes: How long its JSON may be, roughly: strings count a byte a character.

    Raises:
        NotPlainError: The value contains itself, or is nested too deeply.

    Example:
        >>> plain({"sizes": [1, 2]}, 100)
        ({'sizes': [1, 2]}, False)
        >>> plain(list(range(100)), 20)
        ([0, 1, '… 98 more'], True)
    """
    if type(value) is str and len(value) < max_bytes:
        return value, False
    left = _room_left(value, max_bytes, 0)
    if left is None:
        value = _converted(value)
        left = _room_left(value, max_bytes, 0)
    if left is None:
        raise NotPlainError(f"a {type(value).__name__} has no form in JSON")
    if left >= 0:
        return value, False
    return _cut(value, max_bytes)[0], True


def _room_left(value: Any, room: int, depth: int) -> int | None:
    """What is left of `room` after the value: negative once it is too big, `None` if not plain."""
    kind = type(value)
    if kind is dict:
        return _room_left_in(value.values(), _room_for_keys(value, room), depth)
    if kind is list:
        return _room_left_in(value, room - 2, depth)
    return _room_left_in((value,), room, depth)


def _room_for_keys(value: dict[Any, Any], room: int) -> int | None:
    """What is left after the keys of a dict, `None` where one is not a string."""
    try:
        return room - 2 - 4 * len(value) - len("".join(value))
    except TypeError:
        return None


def _room_left_in(  # noqa: C901, PLR0912 - one loop, see below
    items: Iterable[Any], room: int | None, depth: int
) -> int | None:
    # One loop that looks at leaves itself: a call for each would cost three times as much.
    if room is None or depth > _DEEPEST:
        return None
    left: int | None = room
    for item in items:
        kind = type(item)
        if kind is str:
            left -= len(item) + 2  # type: ignore[operator]  # never None inside the loop
        elif kind in _LEAVES:
            left -= 4  # type: ignore[operator]  # as above
        elif kind is float:
            if item - item != 0.0:  # NaN and infinities are the floats for which this holds
                return None
            left -= 8  # type: ignore[operator]  # as above
        elif kind is dict or kind is list:
            left = _room_left(item, left, depth + 1)  # type: ignore[arg-type]  # as above
        else:
            return None
        if left is None or left < 0:
            return left
    return left


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


def _cut(value: Any, room: int) -> tuple[Any, int]:
    """As much of the value's beginning as fits, and the room left after it."""
    if isinstance(value, str):
        if len(value) + 2 <= room:
            return value, room - len(value) - 2
        kept = max(room - 24, 0)
        return f"{value[:kept]}{_ELLIPSIS} {len(value) - kept} more characters", 0
    if isinstance(value, dict):
        return _cut_dict(value, room - 2)
    if isinstance(value, list):
        return _cut_list(value, room - 2)
    return value, room - 8


def _cut_list(items: list[Any], room: int) -> tuple[list[Any], int]:
    kept: list[Any] = []
    for item in items:
        if room < 1:
            kept.append(f"{_ELLIPSIS} {len(items) - len(kept)} more")
            break
        fitting, room = _cut(item, room - 2)
        kept.append(fitting)
    return kept, room


def _cut_dict(items: dict[str, Any], room: int) -> tuple[dict[str, Any], int]:
    kept: dict[str, Any] = {}
    for key, item in items.items():
        if room < 1:
            kept[_ELLIPSIS] = f"{len(items) - len(kept)} more"
            break
        kept[key], room = _cut(item, room - len(key) - 4)
    return kept, room
