"""A file that only the user can read, that several processes share, and that is never half-made."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class PrivateFile:
    """A small file of the user's own, written all at once.

    Args:
        path: Where it is; its folder is made with the first write.

    Example:
        >>> import tempfile
        >>> file = PrivateFile(Path(tempfile.mkdtemp()) / "mine.json")
        >>> with file.locked():
        ...     file.write("{}")
        >>> file.read()
        '{}'
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def stamp(self) -> tuple[int, int, int] | None:
        """Another one once the file has been replaced; `None` where it is missing."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def read(self) -> str | None:
        """What it holds; `None` where it is missing.

        Raises:
            OSError: It cannot be read.
            ValueError: It is no text.
        """
        try:
            return self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def write(self, text: str) -> None:
        """Replaces what it holds: whoever reads it sees the old or the new.

        Raises:
            OSError: It cannot be written.
        """
        self._make_folder()
        handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:  # 0600, as `mkstemp` makes it
                file.write(text)
                file.flush()
                os.fsync(handle)
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def remove(self) -> None:
        """Takes the file away, if it is there."""
        self.path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Within it no other process is within it; it waits for that.

        Raises:
            OSError: The folder cannot be written to.
        """
        try:
            import fcntl
        except ImportError:  # Windows: the last of two that write at once wins
            yield
            return
        self._make_folder()
        lock = self.path.with_name(f"{self.path.name}.lock")
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _make_folder(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
