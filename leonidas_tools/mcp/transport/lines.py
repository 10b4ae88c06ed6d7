"""Split a stream of bytes into lines, with a memory limit for each line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_KEPT_BYTES = 512


class LineSplitter:
    r"""Splits a stream of bytes into lines.

    `on_line` is called with each line, without its line ending. `on_long` is called with the
    beginning and the end of a line of more than `longest` bytes.

    Example:
        >>> lines = LineSplitter(5, print, lambda start, end: print("too long:", start, end))
        >>> lines.feed(b"one\ntwo")
        b'one'
        >>> lines.feed(b" and more\nthree\n")
        too long: b'two and more' b'two and more'
        b'three'
    """

    def __init__(
        self,
        longest: int,
        on_line: Callable[[bytes], None],
        on_long: Callable[[bytes, bytes], None],
    ) -> None:
        self._longest = longest
        self._on_line = on_line
        self._on_long = on_long
        self._parts: list[bytes] = []
        self._length = 0
        self._beginning = self._end = b""

    def feed(self, data: bytes) -> None:
        """Process some bytes."""
        *ended, begun = data.split(b"\n")
        for part in ended:
            self._take(part)
            self.flush()
        self._take(begun)

    def flush(self) -> None:
        """End the current line."""
        parts, self._parts, length, self._length = self._parts, [], self._length, 0
        if length > self._longest:
            self._on_long(self._beginning, self._end)
        else:
            self._on_line(b"".join(parts))

    def _take(self, part: bytes) -> None:
        self._length += len(part)
        if self._length <= self._longest:
            self._parts.append(part)
            return
        if self._length - len(part) <= self._longest:
            part = b"".join((*self._parts, part))
            self._beginning, self._end = part[:_KEPT_BYTES], b""
            self._parts.clear()
        self._end = (self._end + part[-_KEPT_BYTES:])[-_KEPT_BYTES:]
