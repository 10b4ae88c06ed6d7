"""The number of values in a JSON text, counted without reading it."""

from __future__ import annotations

import re
from typing import Final

MOST_VALUES: Final = 250_000
"""Limit of a text that is read on the event loop: each value may hold it for some 2 microseconds,
most of them in the garbage collector."""
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A string, which may lack its end: else it would be looked for from each quote in it again."""
_FEW: Final = 1_000
_MOST_QUOTES: Final = 4 * MOST_VALUES


def has_too_many_values(text: bytes, most: int = MOST_VALUES) -> bool:
    """Return whether a JSON text has more values than may be read at once."""
    return _count(text) > most and count_values(text) > most


def count_values(text: bytes) -> int:
    r"""Return how often something opens values or stands between them in a JSON text.

    What stands in strings counts only where all that is found is little, or where there are very
    many strings.

    Example:
        >>> count_values(b'[{"a": 1, "b": []}]')
        4
    """
    count = _count(text)
    if count < _FEW or text.count(b'"') - text.count(b'\\"') > _MOST_QUOTES:
        return count
    return _count(_STRING.sub(b"", text))


def _count(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")
