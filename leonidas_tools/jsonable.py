"""Values that JSON does not know → values that it knows, as many as there is room for."""

from __future__ import annotations

import itertools
import numbers
from collections.abc import (
    Awaitable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    ValuesView,
)
from collections.abc import (
    Set as AbstractSet,
)
from typing import Any

MOST_BITS = 8192
"""Python writes no integer of more than 4,300 digits, and neither does its JSON encoder."""

_TEXTS = (str, bytes, bytearray, memoryview)
_LISTS = (Sequence, AbstractSet, Iterator, ValuesView)
_DEEPEST = 64


class NotPlainError(ValueError):
    """Raised when a value has no form in JSON, such as one that contains itself."""


class Conversion:
    """Puts every part of a value that JSON does not know into a form that it knows.

    It takes no more items than there is room for, since each takes a byte and more would be cut:
    an iterator may never end.

    Args:
        room: How many items, and how many bytes of each, are looked at.

    Example:
        >>> Conversion(100).of({"sizes": {7}, 2: float("inf")})
        {'sizes': [7], '2': 'inf'}
    """

    __slots__ = ("_left", "_room")

    def __init__(self, room: int) -> None:
        self._room = self._left = room

    def of(self, value: Any, depth: int = 0) -> Any:
        """The value as plain JSON.

        Raises:
            NotPlainError: There is none; the message says nothing of what the value holds.
        """
        if depth > _DEEPEST:
            raise NotPlainError("it contains itself, or is nested too deeply")
        kind = type(value)
        if kind is str or kind is bool or value is None:
            return value
        if kind is int:
            bits = value.bit_length()
            return value if bits <= MOST_BITS else f"an integer of {bits} bits"
        if kind is float:
            return value if value - value == 0.0 else str(value)  # NaN and infinities are not JSON
        try:
            return self._of_other(value, depth + 1)
        except NotPlainError:
            raise
        except Exception as error:
            # Without its text: what the tool's own types raise may hold a secret.
            raise NotPlainError(f"a {kind.__name__} has no form in JSON") from error

    def _of_other(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            items = self._taken(value.items())
            return {self._key(key, depth): self.of(item, depth) for key, item in items}
        if isinstance(value, _LISTS) and not isinstance(value, _TEXTS):
            return [self.of(item, depth) for item in self._taken(value)]
        return self.of(self._jsonable(value), depth)

    def _taken(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            if self._left <= 0:
                return
            self._left -= 1
            yield item

    def _key(self, key: Any, depth: int) -> str:
        return key if type(key) is str else str(self.of(key, depth))

    def _jsonable(self, value: Any) -> Any:
        from pydantic_core import to_jsonable_python

        if isinstance(value, Awaitable):
            if isinstance(value, Coroutine):
                value.close()  # else Python warns that nobody awaits it
            raise NotPlainError(f"a {type(value).__name__} has no form in JSON: await it")
        if isinstance(value, numbers.Integral):
            return int(value)
        if isinstance(value, numbers.Real):
            return float(value)
        if isinstance(value, _TEXTS) and not isinstance(value, str):
            value = bytes(value[: self._room])
        return to_jsonable_python(value, bytes_mode="base64", fallback=self._described)

    def _described(self, value: Any) -> Any:
        """What pydantic does not know, as its own text or, lacking one, its type's name."""
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, _LISTS):
            return list(itertools.islice(value, self._room))
        kind: Any = type(value)
        if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
            return f"<{kind.__name__}>"
        return str(value)
