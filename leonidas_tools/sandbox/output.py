"""Bounded output of a program: the beginning and the end."""

from __future__ import annotations

from collections import deque

_CUT = "\n[… {bytes} bytes left out …]\n"


class BoundedOutput:
    """Keeps the beginning and the end of a stream of bytes.

    Example:
        >>> output = BoundedOutput(8)
        >>> output.add(b"abcdefghijkl")
        >>> output.add(b"mnop")
        >>> print(output.text())
        abcd
        [… 8 bytes left out …]
        mnop
    """

    def __init__(self, most_bytes: int) -> None:
        self._half = most_bytes // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._in_tail = 0
        self.left_out_bytes = 0

    def add(self, data: bytes) -> None:
        """Add a piece of output."""
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._in_tail += len(data)
        while self._in_tail - len(self._tail[0]) >= self._half:
            self._drop(len(self._tail[0]))
        if self._in_tail > self._half:
            self._drop(self._in_tail - self._half)

    def text(self) -> str:
        """Return the kept output as text, with a note in place of the dropped middle."""
        head, tail = bytes(self._head), b"".join(self._tail)
        if not self.left_out_bytes:
            return (head + tail).decode(errors="replace")
        cut = _CUT.format(bytes=f"{self.left_out_bytes:,}")
        return f"{_decoded(head)}{cut}{_decoded(tail)}"

    def _drop(self, number: int) -> None:
        first = self._tail.popleft()
        if number < len(first):
            self._tail.appendleft(first[number:])
        self._in_tail -= number
        self.left_out_bytes += number


def _decoded(data: bytes) -> str:
    """Return the bytes as text; drop a character that was cut in two."""
    return data.decode(errors="ignore")
