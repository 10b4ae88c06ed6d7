"""Undo the escapes of URLs, HTML, JSON, shells and programs in a text, to search it."""

from __future__ import annotations

import bisect
import functools
import html
import itertools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def _bytes(sign: str) -> str:
    """Return a pattern for a UTF-8 character in hexadecimal, after its first escape sign."""
    after = rf"(?:{sign}[89ab][0-9a-f])"
    return rf"[0-7][0-9a-f]|[cd][0-9a-f]{after}|e[0-9a-f]{after}{{2}}|f[0-7]{after}{{3}}"


_X = r"\\x"
_ESCAPE = re.compile(
    r"([\\%&=](?:"  # a set at the beginning makes the search fast
    rf"(?<=%)(?:{_bytes('%')})"
    rf"|(?<==)(?:\r?\n|{_bytes('=')})"
    r"|(?<=&)(?:\#\d{1,7};|\#x[0-9a-f]{1,6};|[a-z][a-z0-9]{1,30};)"
    r"|(?<=\\)(?:"
    r"u\{[0-9a-f]{1,6}\}|u000000[0-9a-f]{2}|ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|u[0-9a-f]{4}"
    rf"|x(?:{_bytes(_X)}|[89a-f][0-9a-f])"
    r"|[23][0-7]{2}(?:\\2[0-7]{2}){1,3}|[0-3][0-7]{2}"
    r"|[^a-z0-9]|[nrt])))"
)
_HEX = "(?:3[0-9]|[46][1-9a-f]|[57][0-9a])"
_ESCAPED_LETTER = re.compile(
    r"[\\%&](?:"
    rf"(?<=%)(?:25){{0,3}}{_HEX}"
    rf"|(?<=&)(?:amp;){{0,3}}\#(?:x0{{0,4}}{_HEX}|0{{0,4}}(?:4[89]|5[0-7]|6[5-9]|[789]\d|1[012]\d));"
    rf"|(?<=\\)(?:u\{{0{{0,4}}{_HEX}\}}|u(?:0{{4}})?00{_HEX}|x{_HEX}|(?:0?[67]|1[0-7])[0-7]))"
)
_WHITE = {"n": "\n", "r": "\r", "t": "\t"}


def escapes_letters(lowered: str) -> bool:
    r"""Return whether a text in lower case has escaped letters or digits, which is rare.

    Example:
        >>> [escapes_letters(text) for text in (r"a\u0020b", r"\u0061 b", "%2561", r"\141")]
        [False, True, True, True]
    """
    return _ESCAPED_LETTER.search(lowered) is not None


class Unescaped:
    r"""A text in lower case with one level of escapes undone, and its original positions.

    Example:
        >>> view = Unescaped("is a%2fb &amp; \\u003c")
        >>> view.text, view.before(view.text.index("/"), view.text.index("b"))
        ('is a/b & <', (4, 7))
    """

    __slots__ = ("_at", "_from", "text")

    def __init__(self, text: str) -> None:
        parts = _ESCAPE.split(text)  # every second one is an escape
        # The beginnings of the parts, in the original and here.
        self._from = [0, *itertools.accumulate(map(len, parts))]
        parts[1::2] = map(_said, parts[1::2])
        self._at = [0, *itertools.accumulate(map(len, parts))]
        self.text = "".join(parts)

    def __bool__(self) -> bool:
        return len(self._at) > 2  # noqa: PLR2004 - one part

    def before(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of the original for a span of the text; an escape is one character."""
        first = bisect.bisect_right(self._at, start) - 1
        last = bisect.bisect_right(self._at, end - 1) - 1
        from_first = 0 if first % 2 else start - self._at[first]
        if last % 2:
            return self._from[first] + from_first, self._from[last + 1]
        return self._from[first] + from_first, self._from[last] + end - self._at[last]

    def now(self, places: Sequence[int]) -> list[int]:
        """Return the positions in the text of positions in the original."""
        return [self._now(place) for place in places]

    def _now(self, place: int) -> int:
        part = bisect.bisect_right(self._from, place) - 1
        if part % 2:  # inside an escape: after it
            return self._at[part] if place == self._from[part] else self._at[part + 1]
        return self._at[part] + place - self._from[part]


@functools.lru_cache(maxsize=4096)
def _said(escape: str) -> str:
    """Return the character of an escape, in lower case; the escape itself if it is not valid."""
    try:
        said = _undone(escape)
    except ValueError:
        return escape
    lowered = said.lower()
    return lowered if len(lowered) == len(said) else said


def _undone(escape: str) -> str:
    sign, kind = escape[0], escape[1]
    if sign == "&":
        return html.unescape(escape)
    if sign == "=" and kind.isspace():
        return ""  # a soft line break
    if sign == "\\" and kind != "x":
        return _written(escape, kind)
    return _decoded(bytes.fromhex(re.sub(r"\\x|[%=]", "", escape)))


def _written(escape: str, kind: str) -> str:
    """Return the text that a program or a shell reads for an escape with a backslash."""
    if escape.startswith("\\u{"):
        return chr(int(escape[3:-1], 16))
    if escape.startswith("\\u000000"):
        return chr(int(escape[-2:], 16))
    if kind == "u":
        data = bytes.fromhex(escape.replace("\\u", ""))
        return data.decode("utf-16-be", "surrogatepass")
    if kind.isdecimal():
        return _decoded(bytes(int(each, 8) for each in escape[1:].split("\\")))
    return _WHITE.get(kind, kind)


def _decoded(data: bytes) -> str:
    return data.decode("utf-8" if len(data) > 1 else "latin-1")
