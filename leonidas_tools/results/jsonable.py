"""Conversion of Python values to plain JSON, up to a limit of items and characters."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import itertools
import numbers
import uuid
from collections import deque
from collections.abc import (
    AsyncIterator,
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
from enum import Enum
from typing import Any, Final

from leonidas_tools.errors import ToolError
from leonidas_tools.results.libraries import Attachment, attachment, library_data
from leonidas_tools.results.texts import say

MAX_MEDIA_BYTES = 700_000
"""Maximum bytes of media: as Base64, less than the 1 MiB limit of a Live session's message."""
MAX_BITS = 8192
"""Limit of the bits of an integer; Python converts at most 4,300 digits to text."""

_TEXTS = (str, bytes, bytearray, memoryview)
_LISTS = (Sequence, AbstractSet, Iterator, ValuesView)
_DEEPEST = 64
_ENDLESS = 1 << 62
_BUILTIN_LISTS: Final = frozenset({list, tuple, set, frozenset, deque, range})
_BUILTIN_LEAVES: Final = frozenset(
    {
        bytes, bytearray, complex, decimal.Decimal, uuid.UUID, dt.date, dt.datetime, dt.time,
        dt.timedelta,
    }
)  # fmt: skip
"""Types whose conversion takes bounded time and runs no code of the tool."""


class NotPlainError(ValueError):
    """Raised when a value has no JSON form, such as one that contains itself."""


class ForeignTypeError(NotPlainError):
    """Raised for a value of a type that runs its own code when it is converted."""


def is_utf8(text: str) -> bool:
    """Return whether a text can be encoded: Python allows lone surrogates, UTF-8 does not."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def utf8_text(text: str) -> str:
    r"""Replace each lone surrogate in a text with U+FFFD.

    Two surrogates that form one character become that character.

    Example:
        >>> utf8_text("caf\udce9.txt") == "caf\ufffd.txt"
        True
    """
    if is_utf8(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Conversion:
    """Converts a value to plain JSON.

    It reads at most `room` items and characters of text, since more would be cut: an iterator may
    never end, and many items may be the same long text. It makes at most `lists` lists and objects.

    `foreign` allows types that run their own code, such as `__str__`: that code may block, so it
    must not run on the event loop.

    Example:
        >>> Conversion(100).of({"sizes": {7}, 2: float("inf")})
        {'sizes': [7], '2': 'inf'}
    """

    __slots__ = ("_foreign", "_left", "_lists", "_unlisted", "formless", "is_short", "media")

    def __init__(self, room: int, *, foreign: bool = True, lists: int = _ENDLESS) -> None:
        self._left = self._unlisted = room
        self._lists = lists
        self._foreign = foreign
        self.formless: str | None = None
        """The type of a part that has neither a JSON form nor a text."""
        self.is_short = False
        """True if items were left out, since there were too many lists and objects."""
        self.media: list[Attachment] = []

    def of(self, value: Any, depth: int = 0) -> Any:
        """Return the value as plain JSON.

        Raises:
            ForeignTypeError: A type runs its own code when it is converted, and `foreign` is false.
            NotPlainError: The value has no JSON form; the message contains no part of the value.
        """
        if depth > _DEEPEST:
            raise NotPlainError(say("value_too_deep"))
        kind = type(value)
        if kind is str:
            return self._text(value)
        if kind is bool or value is None:
            return value
        if kind is int:
            bits = value.bit_length()
            return value if bits <= MAX_BITS else f"an integer of {bits} bits"
        if kind is float:
            return value if value - value == 0.0 else str(value)  # NaN and infinities are not JSON
        try:
            return self._convert_other(value, kind, depth + 1)
        except NotPlainError:
            raise
        except Exception as error:
            # Without its text: an exception of the tool's own types may contain a secret.
            raise NotPlainError(say("value_no_json", type=kind.__name__)) from error

    def _convert_other(self, value: Any, kind: type, depth: int) -> Any:
        if kind is dict:
            return self._object(value.items(), depth)
        if kind in _BUILTIN_LISTS:
            return self._list(value, depth)
        if issubclass(kind, str) and not issubclass(kind, Enum):
            return self._text(str.__str__(value))  # runs no code of a subclass
        if kind not in _BUILTIN_LEAVES and not self._foreign:
            raise ForeignTypeError(f"a {kind.__name__} runs code of its own when it is converted")
        if isinstance(value, Mapping):
            return self._object(value.items(), depth)
        if isinstance(value, _LISTS) and not isinstance(value, _TEXTS):
            return self._list(value, depth)
        if not self._foreign:
            self._lists -= (
                1  # on the event loop they count too: a `Decimal` takes longer than a list
            )
        is_builtin = kind in _BUILTIN_LEAVES and kind is not bytes
        known = None if is_builtin else self._from_library(value)
        return self.of(self._jsonable(value) if known is None else known[0], depth)

    def _from_library(self, value: Any) -> tuple[Any] | None:
        """Return the data of a library's value, or the text for media, in a tuple; else `None`."""
        found = attachment(value)
        if found is None:
            return library_data(value, self._left)
        return (self._attach(found),)

    def _attach(self, found: Attachment) -> str:
        """Keep media up to the size limit, and return the text for its place."""
        if sum(len(each.data) for each in self.media) + len(found.data) > MAX_MEDIA_BYTES:
            return say("media_left_out")
        self.media.append(found)
        return found.text

    def _object(self, items: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Any]:
        return {
            self._key(key, depth): self.of(item, depth) for key, item in self._take_items(items)
        }

    def _list(self, items: Iterable[Any], depth: int) -> list[Any]:
        return [self.of(item, depth) for item in self._take_items(items)]

    def _take_items(self, items: Iterable[Any]) -> Iterator[Any]:
        self._lists -= 1
        for item in items:
            if self._left <= 0:
                return
            if self._lists <= 0:
                self.is_short = True
                return
            self._left -= 1
            yield item

    def _key(self, key: Any, depth: int) -> str:
        shown = self.of(key, depth)
        return shown if type(shown) is str else str(shown)

    def _text(self, text: str) -> str:
        """Return the text if its part within the limit is UTF-8; else that part, made UTF-8."""
        room = max(self._left, 0) + 1  # one more than the limit, so that the text is cut later
        self._left -= min(len(text), room)
        if text.isascii():
            return text
        begun = text[:room]
        return text if is_utf8(begun) else utf8_text(begun)

    def _jsonable(self, value: Any) -> Any:
        _refuse_awaitable(value)
        kind = type(value)  # `isinstance` would believe the class that a lazy proxy names
        if issubclass(kind, Enum):
            return value.value
        if issubclass(kind, BaseException):  # its text may not be for the model
            return {"error": str(value) if issubclass(kind, ToolError) else kind.__name__}
        if issubclass(kind, _TEXTS):
            return self._from_pydantic(bytes(value[: max(self._left, 0) + 1]))
        if isinstance(value, numbers.Real):
            return int(value) if isinstance(value, numbers.Integral) else float(value)
        if dataclasses.is_dataclass(kind) and not hasattr(kind, "__pydantic_serializer__"):
            return {each.name: getattr(value, each.name) for each in dataclasses.fields(kind)}
        return self._from_pydantic(value)

    def _from_pydantic(self, value: Any) -> Any:
        from pydantic_core import to_jsonable_python

        # pydantic would read an iterator to its end, and it may be endless.
        if isinstance(value, AsyncIterator) or _has_iterator(value):
            raise NotPlainError(say("value_iterator", type=type(value).__name__))
        return to_jsonable_python(value, bytes_mode="base64", fallback=self._convert_unknown)

    def _convert_unknown(self, value: Any) -> Any:
        """Convert a value unknown to pydantic: a mapping, a list, its `str`, or its type's name."""
        if isinstance(value, Mapping):
            return dict(self._take_unknown_items(value.items()))
        if isinstance(value, _LISTS):
            return list(self._take_unknown_items(value))
        if (known := self._from_library(value)) is not None:
            return self.of(known[0])
        kind: Any = type(value)
        if kind.__str__ is object.__str__:
            self.formless = self.formless or kind.__name__
            if kind.__repr__ is object.__repr__:
                return f"<{kind.__name__}>"
        return str(value)

    def _take_unknown_items(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield items up to the limit, which all values unknown to pydantic share."""
        for item in itertools.islice(items, max(self._unlisted, 0)):
            self._unlisted -= 1
            yield item


def _refuse_awaitable(value: Any) -> None:
    if isinstance(value, Coroutine):
        value.close()  # else Python warns that it was never awaited
    if isinstance(value, Awaitable):
        raise NotPlainError(say("value_awaitable", type=type(value).__name__))


def _has_iterator(value: Any) -> bool:
    """Return whether a model contains an iterator, at any depth."""
    inner, seen = [value], set[int]()
    while inner:
        each = inner.pop()
        if isinstance(each, Iterator):
            return True
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, dict):
            inner.extend(each.values())
        elif isinstance(each, list | tuple | deque):
            inner.extend(each)
        elif hasattr(type(each), "__pydantic_serializer__") or dataclasses.is_dataclass(each):
            inner.extend(getattr(each, "__dict__", {}).values())
    return False
