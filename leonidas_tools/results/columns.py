"""Copy plain JSON and measure it in one pass, for values too large to check item by item.

In a table, the values of a column have one type. So a column is checked as a whole, by C functions
that each process thousands of values. The copy is measured, so that a tool that changes its value
meanwhile cannot evade the check.
"""

from __future__ import annotations

from collections import deque
from itertools import chain, repeat
from json.encoder import encode_basestring_ascii as _as_json
from math import isfinite
from operator import setitem
from typing import TYPE_CHECKING, Any

from leonidas_tools.results.jsonable import MAX_BITS, NotPlainError, is_utf8
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

__all__ = ["DEEPEST", "copied", "length_of_integer", "length_of_text", "length_of_texts"]

DEEPEST = 64
_SHORT = 10_000
_MAX_AT_ONCE = 4096
"""Most values processed at once: few enough that no other thread waits for long."""
_PLAIN = frozenset({str, int, float, bool, type(None), list, dict})
_BRANCHES = frozenset({list, dict})


def copied(value: Any, room: int, most_lists: int) -> tuple[Any, int] | None:
    """Return a deep copy of a plain value, and the bytes of `room` that its JSON leaves.

    Return `None` if its JSON is longer than `room`, or if it has more lists and objects than
    `most_lists`. `room` bounds the work, however often a part is shared.

    Raises:
        NotPlainError: A part of the value is not plain JSON.

    Example:
        >>> copied([{"size": 7}, {"size": 9}], 100, 10)
        ([{'size': 7}, {'size': 9}], 70)
        >>> copied(["long"], 5, 10) is None
        True
    """
    copying = _Copying(room, most_lists)
    try:
        (copy,) = copying.of([value], 0)
    except _NoRoomError:
        return None
    return copy, copying.room


class _NoRoomError(Exception):
    """Raised if a value exceeds a limit."""


class _Copying:
    """Copies columns until a limit is reached."""

    __slots__ = ("lists", "room")

    def __init__(self, room: int, lists: int) -> None:
        self.room = room
        self.lists = lists

    def of(self, column: list[Any], depth: int) -> list[Any]:
        """Return the values with copies of lists and objects; the same list if it has none."""
        if len(column) > _MAX_AT_ONCE:
            starts = range(0, len(column), _MAX_AT_ONCE)
            parts = [self.of(column[at : at + _MAX_AT_ONCE], depth) for at in starts]
            return list(chain.from_iterable(parts))
        types = list(map(type, column))
        kinds = set(types)
        if not kinds <= _PLAIN:
            raise NotPlainError(say("value_no_json", type=(kinds - _PLAIN).pop().__name__))
        if len(kinds) == 1 and (only := types[0]) in _BRANCHES:
            return self._copy_branches(only, column, depth + 1)
        for kind in kinds:
            alike = column if len(kinds) == 1 else [i for i in column if type(i) is kind]
            if kind not in _BRANCHES:
                self._spend_on_leaves(kind, alike)
                continue
            copies = iter(self._copy_branches(kind, alike, depth + 1))
            column = [
                next(copies) if each is kind else i for each, i in zip(types, column, strict=True)
            ]
        return column

    def _copy_branches(self, kind: Any, alike: Sequence[Any], depth: int) -> list[Any]:
        """Return deep copies of lists, or of objects."""
        if depth > DEEPEST:
            raise NotPlainError(say("value_too_deep"))
        self.lists -= len(alike)
        least = 6 if kind is dict else 2  # the length of an item, with its key
        if self.lists < 0 or 2 * len(alike) + least * sum(map(len, alike)) > self.room:
            raise _NoRoomError
        copies = list(map(kind.copy, alike))
        widths = list(map(len, copies))
        if kind is dict:
            keys = list(chain.from_iterable(copies))
            self._spend_on_texts(keys, 2 * len(copies) + 4 * len(keys))
            inner = list(chain.from_iterable(map(dict.values, copies)))
        else:
            self._spend(2 * len(copies))
            inner = list(chain.from_iterable(copies))
        is_table = 0 < widths[0] <= len(copies) and widths.count(widths[0]) == len(copies)
        step = widths[0] if is_table else 1
        for index in range(step):
            column = inner[index::step]
            changed = self.of(column, depth)
            if changed is not column:
                owners = copies if is_table else chain.from_iterable(map(repeat, copies, widths))
                places: Iterable[Any]
                if kind is dict:
                    places = keys[index::step]
                else:
                    places = repeat(index) if is_table else chain.from_iterable(map(range, widths))
                deque(map(setitem, owners, places, changed), maxlen=0)
        return copies

    def _spend_on_leaves(self, kind: type, alike: Sequence[Any]) -> None:
        if kind is str:
            self._spend_on_texts(alike, 2 * len(alike))
        elif kind is float:
            if not all(map(isfinite, alike)):
                raise NotPlainError(say("value_no_json", type="float"))
            self._spend(8 * len(alike))
        elif kind is int and not (-_SHORT < min(alike) <= max(alike) < _SHORT):
            self._spend(sum([4 if -_SHORT < i < _SHORT else length_of_integer(i) for i in alike]))
        else:
            self._spend(4 * len(alike))

    def _spend_on_texts(self, texts: Sequence[str], around: int) -> None:
        try:
            if around + sum(map(len, texts)) > self.room:
                raise _NoRoomError
            self._spend(around + length_of_texts(texts))
        except TypeError:
            raise NotPlainError(say("value_key")) from None

    def _spend(self, length: int) -> None:
        self.room -= length
        if self.room < 0:
            raise _NoRoomError


def length_of_text(text: str) -> int:
    """Return the length of a text in JSON, with its quotes.

    Raises:
        NotPlainError: The text cannot be encoded as UTF-8.
    """
    if not is_utf8(text):
        raise NotPlainError(say("value_not_utf8"))
    return len(_as_json(text))


def length_of_texts(texts: Collection[str]) -> int:
    """Return the length of texts in JSON, without their quotes.

    Raises:
        NotPlainError: One of the texts cannot be encoded as UTF-8.
        TypeError: One of them is not a text.
    """
    joined = "".join(texts)
    if joined.isascii():
        return len(joined)
    return sum([len(each) if each.isascii() else length_of_text(each) - 2 for each in texts])


def length_of_integer(value: int) -> int:
    """Return the approximate length of an integer in JSON.

    Raises:
        NotPlainError: The integer is longer than Python can convert to text.
    """
    bits = value.bit_length()
    if bits > MAX_BITS:
        raise NotPlainError(say("value_long_integer"))
    return bits // 3 + 1
