"""Measure plain JSON, and truncate it to a size."""

from __future__ import annotations

from json.encoder import encode_basestring_ascii as _as_json
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from leonidas_tools.results.jsonable import MOST_BITS, NotPlainError, is_utf8
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Keep: TypeAlias = Literal["head", "tail", "both"]
"""Part kept of a text that is too long: its beginning, its end, or a fifth and four fifths."""

_LEAVES = frozenset({bool, type(None)})
_SHORT = 10_000
_DEEPEST = 64
_ELLIPSIS = "…"
_WORTH_SHOWING = 64
_ENDLESS = 1 << 62
_MARK = 48
_CUT_WORDS = 8
"""Length of the quotes and the ellipsis of a cut text."""
_FEWEST_CHARACTERS = 8
_NOTE = 32
"""Room for the number of omitted items, so that a truncated value is not truncated again."""
_HEAD_SHARE = {"tail": 0.0, "both": 0.2}


def length(value: Any) -> int:
    """Return how long the JSON of a plain value is, roughly, with all but ASCII escaped.

    Divided by four it is about the number of tokens: an ASCII character counts a quarter of a
    token, a Chinese one one and a half.

    Example:
        >>> length("Lisbon"), length("里斯本")
        (8, 20)
    """
    return _ENDLESS - room_left((value,), _ENDLESS)


def fits(value: Any, room: int) -> bool:
    """Return whether the JSON of a plain value fits; stop at the first byte too many."""
    return room_left((value,), room) >= 0


def fitting(value: Any, room: int, keep: Keep = "head") -> Any:
    """Return the value truncated to a size, as valid JSON.

    Example:
        >>> fitting({"log": "x" * 500, "exit": 1}, 160, "tail")["exit"]
        1
    """
    if keep == "head":
        return _fitting(value, room)
    return value if fits(value, room) else _ends(value, room, _HEAD_SHARE[keep])


def beginning(text: str, room: int) -> str | None:
    """Return the text if there is room for it, else its first words; `None` without room for any.

    Example:
        >>> beginning("Two flights were found.", 22), beginning("Two flights were found.", 5)
        ('Two flights…', None)
    """
    if fits(text, room):
        return text
    kept = text[: _characters(text, max(room - _CUT_WORDS, 0))]
    words = kept.rsplit(maxsplit=1)[0] if " " in kept else kept
    return f"{words}{_ELLIPSIS}" if len(words) >= _FEWEST_CHARACTERS else None


def whole_items(items: Sequence[Any], room: int) -> list[Any]:
    """Return the first of some values, as many as there is room for."""
    return list(items[: _items(items, room - 2)])


def room_left(items: Iterable[Any], room: int, depth: int = 0) -> int:  # noqa: C901, PLR0912 - below
    """Return what is left of `room` after the items; negative as soon as there is none.

    Raises:
        NotPlainError: One of them is not plain JSON.
    """
    # One loop that looks at leaves itself: a call for each would cost three times as much.
    if depth > _DEEPEST:
        raise NotPlainError(say("value_too_deep"))
    for item in items:
        kind = type(item)
        if kind is str:
            room -= len(item) + 2 if item.isascii() else _length_of_text(item[:room])
        elif kind is int:
            room -= 4 if -_SHORT < item < _SHORT else _length_of_integer(item)
        elif kind in _LEAVES:
            room -= 4
        elif kind is float and item - item == 0.0:  # which does not hold for NaN and infinities
            room -= 8
        elif kind is dict:
            room = room_left(item.values(), room - _length_of_keys(item, room), depth + 1)
        elif kind is list:
            room = room_left(item, room - 2, depth + 1)
        else:
            raise NotPlainError(say("value_no_json", type=kind.__name__))
        if room < 0:
            return room
    return room


def _length_of_keys(value: dict[Any, Any], room: int) -> int:
    """Return the length of the keys with quotes and colons; stop where the room ends."""
    around = 2 + 4 * len(value)
    if around > room:
        return around
    try:
        keys = "".join(value)
    except TypeError:
        raise NotPlainError(say("value_key")) from None
    return around + (len(keys) if keys.isascii() else _length_of_text(keys[:room]))


def _length_of_text(text: str) -> int:
    if not is_utf8(text):
        raise NotPlainError(say("value_not_utf8"))
    return len(_as_json(text))


def _length_of_integer(value: int) -> int:
    bits = value.bit_length()
    if bits > MOST_BITS:
        raise NotPlainError(say("value_long_integer"))
    return bits // 3 + 1


def _fitting(value: Any, room: int) -> Any:
    """Return the value, or as much of its beginning as fits."""
    kind = type(value)
    if kind is list:
        return _fitting_list(value, room)
    if kind is dict:
        return _fitting_dict(value, room)
    if room_left((value,), room) < 0 and kind is str:
        return _begun_text(value, room)
    return value


def _begun_text(text: str, room: int) -> str:
    kept = _characters(text, max(room - 36, 0))
    return f"{text[:kept]}{_ELLIPSIS} {len(text) - kept} more characters"


def _fitting_list(items: list[Any], room: int) -> list[Any]:
    room -= 2
    for index, item in enumerate(items):
        left = room_left((item,), room)
        if left < 0:
            kept = _kept(items, index, room)
            return [*kept, f"{_ELLIPSIS} {len(items) - len(kept)} more"]
        room = left
    return items


def _fitting_dict(items: dict[str, Any], room: int) -> dict[str, Any]:
    room -= _length_of_keys(items, room)
    for index, item in enumerate(items.values()):
        left = room_left((item,), room)
        if left < 0:
            kept = dict(zip(items, _kept(list(items.values()), index, room), strict=False))
            return {**kept, _ELLIPSIS: f"{len(items) - len(kept)} more"}
        room = left
    return items


def _kept(items: Sequence[Any], count: int, room: int) -> list[Any]:
    """Of the items that fit the first, and of the next its beginning: there is room for a note."""
    while count and room < _NOTE:
        count -= 1
        room += length(items[count])
    return [*items[:count], *_begun(items[count], room - _NOTE)]


def _begun(item: Any, room: int) -> tuple[Any, ...]:
    """Return the beginning of an item there is not enough room for, where that is worth showing."""
    if room < _WORTH_SHOWING or type(item) not in (str, list, dict):
        return ()
    return (_fitting(item, room),)


def _ends(value: Any, room: int, share: float) -> Any:
    """Return the beginning and the end of a value there is not enough room for."""
    kind = type(value)
    if kind is str:
        return _ends_of_text(value, room, share)
    if kind is list:
        return _ends_of_list(value, room, share)
    if kind is dict:
        return _shared_out(value, room, share)
    return value


def _ends_of_text(text: str, room: int, share: float) -> str:
    room = max(room - _MARK, 0)
    head = _characters(text, int(room * share))
    tail = _characters(text[: -room - 1 : -1] if room else "", room - int(room * share))
    left_out = len(text) - head - tail
    mark = f"{_ELLIPSIS} {left_out} characters left out {_ELLIPSIS}"
    return f"{text[:head]}{mark}{text[len(text) - tail :]}"


def _characters(text: str, room: int) -> int:
    """Return how many of its first characters there is room for."""
    most = min(len(text), room)
    least = most if len(_as_json(text[:most])) - 2 <= room else room // 12
    while least < most:
        middle = (least + most + 1) // 2
        if len(_as_json(text[:middle])) - 2 <= room:
            least = middle
        else:
            most = middle - 1
    return least


def _ends_of_list(items: list[Any], room: int, share: float) -> list[Any]:
    room = max(room - _MARK, 0)
    head = _items(items, int(room * share))
    used = length(items[:head])
    rest = items[head:]
    tail = _items(rest[::-1], room - used)
    kept = rest[len(rest) - tail :]
    left = room - used - length(kept)
    cut = len(rest) - tail
    more = []
    if cut and left >= _WORTH_SHOWING and type(rest[cut - 1]) in (str, list, dict):
        more, cut = [_ends(rest[cut - 1], left, share)], cut - 1
    mark = [f"{_ELLIPSIS} {cut} more {_ELLIPSIS}"] if cut else []
    return [*items[:head], *mark, *more, *kept]


def _items(items: Sequence[Any], room: int) -> int:
    """Return how many of the first items there is room for."""
    for index, item in enumerate(items):
        room = room_left((item,), room)
        if room < 0:
            return index
    return len(items)


def _shared_out(items: dict[str, Any], room: int, share: float) -> dict[str, Any]:
    """Return all keys, short values unchanged, and long values with an equal share each."""
    whole = room
    room -= _length_of_keys(items, room)
    if room < _MARK * len(items):
        return _fitting_dict(items, whole)
    long = list(items)
    for _ in range(4):  # what short values leave over makes room for others
        part = room // max(len(long), 1)
        short = [key for key in long if fits(items[key], part)]
        room -= sum(length(items[key]) for key in short)
        long = [key for key in long if key not in set(short)]
        if not short:
            break
    part = room // max(len(long), 1)
    cut = {key: _ends(items[key], part, share) for key in long if not fits(items[key], part)}
    return {**items, **cut}
