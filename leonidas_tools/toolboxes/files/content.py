"""The content of a file as text: read without a race, and decoded."""

from __future__ import annotations

import codecs
import os
from dataclasses import dataclass

from leonidas_tools.errors import ToolError
from leonidas_tools.results.texts import say

_PIECE_BYTES = 1 << 20
_TRIES = 3
_OF_HOST_NAMES = frozenset({"punycode", "idna"})
"""Encodings that take time by the square of the length."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a file, and the status of the file after the read."""

    data: bytes
    found: os.stat_result
    is_changing: bool  # whether the file changed during each attempt to read it

    def text(self, path: str, encoding: str | None, other: str) -> tuple[str, str]:
        """Return the text, and its encoding.

        Args:
            path: The path of the file for errors.
            encoding: The encoding, if the model names one.
            other: The encoding to try if the text is not UTF-8.

        Raises:
            ToolError: The file is not text, or not in the encoding.
        """
        marked = next((name for mark, name in _MARKS if self.data.startswith(mark)), None)
        if encoding is None and marked is None and b"\0" in self.data:
            raise ToolError(
                say("binary_file", path=path, bytes=len(self.data)), reason_code="binary_file"
            )
        for name in [encoding] if encoding else [marked] if marked else ["utf-8", other]:
            try:
                _require_quick(name)
                return self.data.decode(name), name
            except UnicodeDecodeError:
                continue
            except (LookupError, ValueError):
                message = say("unknown_encoding", encoding=encoding)
                raise ToolError(
                    message, status="invalid_argument", reason_code="unknown_encoding"
                ) from None
        raise ToolError(
            say("wrong_encoding", path=path, encoding=encoding or marked or other),
            reason_code="wrong_encoding",
        )


def _require_quick(encoding: str) -> None:
    """Raise `LookupError` for an encoding that is none of texts, or takes very long to decode."""
    if codecs.lookup(encoding).name in _OF_HOST_NAMES:
        raise LookupError(encoding)


def read_content(handle: int, path: str, most_bytes: int) -> Content:
    """Read an open regular file; retry if it changes meanwhile.

    Raises:
        ToolError: The file is too big.
    """
    for _ in range(_TRIES):
        before = os.fstat(handle)
        if before.st_size > most_bytes:
            raise too_big(path, before.st_size, most_bytes)
        data = _read(handle, before.st_size)
        after = os.fstat(handle)
        if _stamp(before) == _stamp(after):
            return Content(data, after, is_changing=False)
    return Content(data, after, is_changing=True)


def is_same(one: os.stat_result, other: os.stat_result) -> bool:
    """Return whether both are the same file with the same size and modification time."""
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino) and _stamp(one) == _stamp(other)


def too_big(path: str, size: int, most_bytes: int) -> ToolError:
    """Return the error for a file that is too big."""
    message = say("file_too_big", path=path, bytes=size, most=most_bytes)
    return ToolError(message, status="limited", reason_code="file_too_big")


def _stamp(found: os.stat_result) -> tuple[int, int]:
    return found.st_size, found.st_mtime_ns


def _read(handle: int, size: int) -> bytes:
    """Read at most `size` bytes, as a growing file may have no end."""
    data = bytearray()
    while len(data) < size:
        # `pread`, so that a second attempt begins at the start.
        piece = os.pread(handle, min(_PIECE_BYTES, size - len(data)), len(data))
        if not piece:
            break
        data += piece
    return bytes(data)
