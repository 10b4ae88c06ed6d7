"""The number of values in a JSON text, counted without parsing it."""

from __future__ import annotations

import re
from typing import Final

MAX_VALUES: Final = 250_000
"""Limit of a text that is parsed on the event loop: each value may block it for about 2
microseconds, mostly in the garbage collector."""
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A string, which may lack its end: otherwise each quote in it would start another search."""
_FEW: Final = 1_000
_MAX_QUOTES: Final = 4 * MAX_VALUES


def has_too_many_values(text: bytes, most: int = MAX_VALUES) -> bool:
    """Return whether a JSON text has more values than may be parsed at once."""
    return _count(text) > most and count_values(text) > most


def count_values(text: bytes) -> int:
    r"""Return the number of commas, brackets and braces that open or separate values.

    Those in strings are counted too if the total is small, or if there are very many
    strings.

    Example:
        >>> count_values(b'[{"a": 1, "b": []}]')
        4
    """
    count = _count(text)
    if count < _FEW or text.count(b'"') - text.count(b'\\"') > _MAX_QUOTES:
        return count
    return _count(_STRING.sub(b"", text))


def _count(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")
