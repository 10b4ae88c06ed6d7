"""Convert the result of a tool to plain JSON; measure it, and truncate it to a size.

The Live client serialises function responses while it sends them: a set or a NaN ends the session
(`google/genai/live.py`, `send_tool_response`). So only plain JSON may leave a tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from json.encoder import encode_basestring_ascii as _as_json
from typing import Any, Literal, NamedTuple, TypeAlias

from leonidas_tools.results.columns import (
    DEEPEST,
    copied,
    length_of_integer,
    length_of_text,
    length_of_texts,
)
from leonidas_tools.results.jsonable import Conversion, ForeignTypeError, NotPlainError
from leonidas_tools.results.libraries import Attachment
from leonidas_tools.results.texts import say

__all__ = [
    "MAX_ON_LOOP",
    "ForeignTypeError",
    "Keep",
    "Measured",
    "NotPlainError",
    "TooLongError",
    "beginning",
    "fits",
    "fitting",
    "length",
    "measured",
    "plain",
    "snapshot",
    "whole_items",
]

MAX_ON_LOOP = 32_768
"""Longest JSON, in bytes, whose value is processed on the event loop.

A value with shared parts, or a `range`, may be small while its JSON is long. The event loop only
detects that a value is too long; a thread converts and cuts it.
"""
_MAX_LISTS = 262_144
"""Most lists and objects copied: garbage collection of millions blocks the event loop."""
_MAX_LISTS_ON_LOOP = 4096
_FEW = 4096
"""Length up to which checking each item is quicker than checking columns."""
_ROOM_OF_MANY = 2 * _MAX_LISTS
_BRANCHES = frozenset({dict, list})
_ENDLESS = 1 << 62
_MARGIN = 65_536
"""Length that is masked beyond the limit of a result, so that no secret is cut in two."""

Keep: TypeAlias = Literal["head", "tail", "both"]
"""Part to keep of a text that is too long: its beginning, its end, or a fifth and four fifths."""

_LEAVES = frozenset({bool, type(None)})
_MAX_FLAT = 64
_SHORT = 10_000
_ELLIPSIS = "…"
_WORTH_SHOWING = 64
_MARK = 48
_CUT_WORDS = 8
"""Length of the quotes and the ellipsis of a cut text."""
_FEWEST_CHARACTERS = 8
_NOTE = 32
"""Length reserved for the number of omitted items, so that a cut value is not cut again."""
_HEAD_SHARE = {"tail": 0.0, "both": 0.2}

Mask: TypeAlias = Callable[[Any], Any]
"""Masks the secrets in plain JSON."""


class TooLongError(ValueError):
    """Raised for a value whose JSON is longer than the limit."""


def plain(
    value: Any, max_bytes: int, *, mask: Mask | None = None, foreign: bool = True
) -> tuple[Any, bool]:
    """Return the value as plain JSON, and whether something was cut to limit its size.

    The result shares nothing with the value, and its texts are valid UTF-8. The work is bounded by
    `max_bytes`, however large the value is.

    Raises:
        ForeignTypeError: The value has a type that runs its own code, and `foreign` is false.
        NotPlainError: The value contains itself, is nested too deeply, or has no JSON form.

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
    formless: str | None = None
    """The type of a part that has neither a JSON form nor a text."""
    media: Sequence[Attachment] = ()


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
        TooLongError: `longest` is given, and the JSON is longer than it or than `max_bytes`. Both
            bound the work. An ASCII text shorter than `max_bytes` takes no work.
    """
    if mask is not None:
        unmasked = measured(value, max_bytes + _MARGIN, foreign=foreign, longest=longest)
        masked = measured(mask(unmasked.value), max_bytes)
        return masked._replace(
            cut=masked.cut or unmasked.cut, formless=unmasked.formless, media=unmasked.media
        )
    if type(value) is str and len(value) < max_bytes and value.isascii():
        return Measured(value, False, len(value) + 2)
    room = max_bytes if longest is None else min(max_bytes, longest)
    if type(value) is dict and (small := _copy_flat(value, room)) is not None:
        return small
    on_loop = longest is not None
    short, formless, media = False, None, list[Attachment]()
    try:
        whole = _copy_whole(value, room, on_loop=on_loop)
        if whole is None and not on_loop:
            return _cut(value, max_bytes)
    except NotPlainError:
        lists = _MAX_LISTS_ON_LOOP if on_loop else _MAX_LISTS
        conversion = Conversion(room, foreign=foreign, lists=lists)
        value = conversion.of(value)
        short, formless, media = conversion.is_short, conversion.formless, conversion.media
        whole = None if short and on_loop else _copy_whole(value, room, on_loop=on_loop)
    if whole is not None:
        return whole._replace(cut=short, formless=formless, media=media)
    if on_loop:
        raise TooLongError(f"the JSON of a {type(value).__name__} is longer than {room} bytes")
    cut = _cut(value, max_bytes)
    return cut._replace(cut=cut.cut or short, formless=formless, media=media)


def _copy_flat(value: dict[Any, Any], room: int) -> Measured | None:
    """Return a copy of an object of a few plain values, as most results are; else `None`."""
    if len(value) > _MAX_FLAT:
        return None
    copy = value.copy()  # which its owner cannot change meanwhile
    size = 2 + 4 * len(copy)
    for key, item in copy.items():
        kind = type(item)
        if kind is str and item.isascii():
            size += len(item) + 2
        elif kind in _LEAVES or (kind is int and -_SHORT < item < _SHORT):
            size += 4
        else:
            return None
        if type(key) is not str or not key.isascii():
            return None
        size += len(key)
    return Measured(copy, False, size) if size <= room else None


def _copy_whole(value: Any, room: int, *, on_loop: bool) -> Measured | None:
    """Return a copy of a plain value if its JSON fits, else `None`."""
    few = room if on_loop else min(room, _FEW)
    left = room_left((value,), few)  # quicker for a small value, which most are
    if left >= 0:
        return Measured(snapshot(value), False, few - left)
    if few == room:
        return None
    copy = copied(value, room, _MAX_LISTS)
    return None if copy is None else Measured(copy[0], False, room - copy[1])


def _cut(value: Any, max_bytes: int) -> Measured:
    """Return the beginning of a plain value."""
    if max_bytes > _ROOM_OF_MANY and _has_many_lists(value):
        max_bytes = _ROOM_OF_MANY
    fitted = fitting(value, max_bytes)
    try:
        size = length(fitted)
    except NotPlainError:  # each text was checked only up to the limit
        fitted = Conversion(_ENDLESS).of(fitted)
        size = length(fitted)
    return Measured(snapshot(fitted), fitted is not value, size)


def _has_many_lists(value: Any) -> bool:
    """Return whether a plain value has too many lists and objects to copy; count shared ones."""
    waiting, seen = [value], 0
    while waiting:
        each = waiting.pop()
        inner = each.values() if type(each) is dict else each if type(each) is list else ()
        for item in inner:
            if type(item) in _BRANCHES:
                seen += 1
                if seen > _MAX_LISTS:
                    return True
                waiting.append(item)
    return False


def snapshot(value: Any) -> Any:
    """Return a deep copy of a plain value, which its owner may still change."""
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


def length(value: Any) -> int:
    """Return the approximate length of a plain value's JSON, with non-ASCII characters escaped.

    A quarter of it is about the number of tokens: an ASCII character counts as a quarter of a
    token, a Chinese character as one and a half.

    Example:
        >>> length("Lisbon"), length("里斯本")
        (8, 20)
    """
    return _ENDLESS - room_left((value,), _ENDLESS)


def fits(value: Any, room: int) -> bool:
    """Return whether the JSON of a plain value fits; stop once it does not."""
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
    """Return the text if it fits, else its first words; `None` if no words fit.

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
    """Return the first items, as many as fit."""
    return list(items[: _count_fitting(items, room - 2)])


def room_left(items: Iterable[Any], room: int, depth: int = 0) -> int:  # noqa: C901, PLR0912 - below
    """Return the rest of `room` after the items; stop as soon as it is negative.

    Raises:
        NotPlainError: One of them is not plain JSON.
    """
    # One loop that checks leaves itself: a call for each would cost three times as much.
    if depth > DEEPEST:
        raise NotPlainError(say("value_too_deep"))
    for item in items:
        kind = type(item)
        if kind is str:
            room -= len(item) + 2 if item.isascii() else length_of_text(item[:room])
        elif kind is int:
            room -= 4 if -_SHORT < item < _SHORT else length_of_integer(item)
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
    """Return the length of the keys with quotes and colons; stop at the limit."""
    around = 2 + 4 * len(value)
    if around > room:
        return around
    try:
        keys = "".join(value)
    except TypeError:
        raise NotPlainError(say("value_key")) from None
    if len(keys) > room or keys.isascii():
        return around + len(keys)
    return around + length_of_texts(value)


def _fitting(value: Any, room: int) -> Any:
    """Return the value, or as much of its beginning as fits."""
    kind = type(value)
    if kind is list:
        return _fitting_list(value, room)
    if kind is dict:
        return _fitting_dict(value, room)
    if room_left((value,), room) < 0 and kind is str:
        return _cut_text(value, room)
    return value


def _cut_text(text: str, room: int) -> str:
    kept = _characters(text, max(room - 36, 0))
    return f"{text[:kept]}{_ELLIPSIS} {len(text) - kept} more characters"


def _fitting_list(items: list[Any], room: int) -> list[Any]:
    room -= 2
    for index, item in enumerate(items):
        left = room_left((item,), room)
        if left < 0:
            kept = _keep_items(items, index, room)
            return [*kept, f"{_ELLIPSIS} {len(items) - len(kept)} more"]
        room = left
    return items


def _fitting_dict(items: dict[str, Any], room: int) -> dict[str, Any]:
    room -= _length_of_keys(items, room)
    for index, item in enumerate(items.values()):
        left = room_left((item,), room)
        if left < 0:
            kept = dict(zip(items, _keep_items(list(items.values()), index, room), strict=False))
            return {**kept, _ELLIPSIS: f"{len(items) - len(kept)} more"}
        room = left
    return items


def _keep_items(items: Sequence[Any], count: int, room: int) -> list[Any]:
    """Keep the items that fit, and the start of the next one, with space for a note."""
    while count and room < _NOTE:
        count -= 1
        room += length(items[count])
    return [*items[:count], *_cut_item(items[count], room - _NOTE)]


def _cut_item(item: Any, room: int) -> tuple[Any, ...]:
    """Return the beginning of an item that does not fit, if it is worth showing."""
    if room < _WORTH_SHOWING or type(item) not in (str, list, dict):
        return ()
    return (_fitting(item, room),)


def _ends(value: Any, room: int, share: float) -> Any:
    """Return the beginning and the end of a value that does not fit."""
    kind = type(value)
    if kind is str:
        return _ends_of_text(value, room, share)
    if kind is list:
        return _ends_of_list(value, room, share)
    if kind is dict:
        return _share_room(value, room, share)
    return value


def _ends_of_text(text: str, room: int, share: float) -> str:
    room = max(room - _MARK, 0)
    head = _characters(text, int(room * share))
    tail = _characters(text[: -room - 1 : -1] if room else "", room - int(room * share))
    left_out = len(text) - head - tail
    mark = f"{_ELLIPSIS} {left_out} characters left out {_ELLIPSIS}"
    return f"{text[:head]}{mark}{text[len(text) - tail :]}"


def _characters(text: str, room: int) -> int:
    """Return how many of the first characters fit."""
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
    head = _count_fitting(items, int(room * share))
    used = length(items[:head])
    rest = items[head:]
    tail = _count_fitting(rest[::-1], room - used)
    kept = rest[len(rest) - tail :]
    left = room - used - length(kept)
    cut = len(rest) - tail
    more = []
    if cut and left >= _WORTH_SHOWING and type(rest[cut - 1]) in (str, list, dict):
        more, cut = [_ends(rest[cut - 1], left, share)], cut - 1
    mark = [f"{_ELLIPSIS} {cut} more {_ELLIPSIS}"] if cut else []
    return [*items[:head], *mark, *more, *kept]


def _count_fitting(items: Sequence[Any], room: int) -> int:
    """Return how many of the first items fit."""
    for index, item in enumerate(items):
        room = room_left((item,), room)
        if room < 0:
            return index
    return len(items)


def _share_room(items: dict[str, Any], room: int, share: float) -> dict[str, Any]:
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
