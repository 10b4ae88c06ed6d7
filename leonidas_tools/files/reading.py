"""Read files that a user names: only regular files of bounded size, without blocking on a FIFO."""

from __future__ import annotations

import errno
import os
import stat
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES: Final = 4 * 1024 * 1024
"""Default limit of the size of a file, in bytes."""

_PIECE_BYTES: Final = 256 * 1024
# Opening a FIFO waits for its writer; opening a terminal may make it our controlling terminal.
_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)
_KINDS: Final = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def why_unreadable(error: OSError) -> str:
    """Return why a file cannot be read, and how to fix that.

    Example:
        >>> why_unreadable(FileNotFoundError())
        'there is no such file: correct the path, or create it'
    """
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "there is no such file: correct the path, or create it"
    if isinstance(error, IsADirectoryError):
        return "is a directory: name the file in it"
    if isinstance(error, PermissionError):
        return "cannot be read: allow it with `chmod u+r`, or run as the user who may read it"
    return f"cannot be read: {error.strerror or error}; name another file"


def open_file(path: Path) -> IO[bytes]:
    """Open a regular file for reading.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.
    """
    # Checked twice: opening some devices has effects, and the file may be replaced in between.
    _require_regular(path.stat(), path)
    handle = os.open(path, _FLAGS)
    try:
        _require_regular(os.fstat(handle), path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_file(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: The file cannot be read, is not a regular file, or is too large.
    """
    content = bytearray()
    with open_file(path) as file:
        while piece := os.read(file.fileno(), _PIECE_BYTES):
            content += piece
            if len(content) > max_bytes:
                raise OSError(errno.EFBIG, f"it is larger than {max_bytes} bytes", str(path))
    return bytes(content)


def _require_regular(found: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        kind = next((name for test, name in _KINDS if test(found.st_mode)), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))
