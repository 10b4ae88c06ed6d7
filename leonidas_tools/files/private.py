"""A file that only the user can read, shared by several processes and written atomically."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leonidas_tools.files.reading import read_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_LOOK_AGAIN_SECONDS = 0.05
_MAX_BYTES: Final = 64 * 1024 * 1024


class PrivateFile:
    """A small file that only the user can read, written atomically.

    The first write makes the folder of the file.

    Example:
        >>> import tempfile
        >>> file = PrivateFile(Path(tempfile.mkdtemp()) / "mine.json")
        >>> with file.hold_lock():
        ...     file.write("{}")
        >>> file.read()
        '{}'
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def stamp(self) -> tuple[int, int, int] | None:
        """Return a value that changes when the file is replaced; `None` if the file is missing."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def read(self) -> str | None:
        """Return the content; `None` if the file is missing.

        Raises:
            OSError: The file cannot be read, is not a regular file, or is too large.
            ValueError: The content is not UTF-8.
        """
        try:
            return read_file(self.path, _MAX_BYTES).decode("utf-8")
        except FileNotFoundError:
            return None

    def write(self, text: str) -> None:
        """Replace the content atomically: a reader sees the old or the new content.

        Raises:
            OSError: The file cannot be written.
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
        """Delete the file if it exists."""
        self.path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Hold an exclusive lock across processes in the block; wait until the lock is free.

        Raises:
            OSError: The folder cannot be written to.
        """
        try:
            import fcntl
        except ImportError:  # Windows: of two concurrent writes, the last one wins
            yield
            return
        with self._lock_file("lock") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            try:
                yield
            finally:
                _release(handle)

    @contextlib.asynccontextmanager
    async def turn(self, patience_seconds: float) -> AsyncIterator[None]:
        """Keep other processes out during slow work, without blocking the event loop.

        This lock differs from the lock of `hold_lock`, which may be acquired inside the block. The
        lock of a process that ends is released. After `patience_seconds` the block runs unlocked.
        """
        with contextlib.ExitStack() as stack:
            try:
                handle = stack.enter_context(self._lock_file("turn"))
            except OSError:  # nobody can write there, so a lock is not needed
                yield
                return
            stack.callback(_release, handle)
            until = time.monotonic() + patience_seconds
            # No notification is sent when another process releases the lock.
            while not _try_lock(handle) and time.monotonic() < until:  # noqa: ASYNC110 - see above
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            yield

    @contextlib.contextmanager
    def _lock_file(self, kind: str) -> Iterator[int]:
        """Open a lock file next to this file; keep it afterwards, as others may have it open."""
        self._make_folder()
        lock = self.path.with_name(f"{self.path.name}.{kind}")
        # A link would create a file at its target; Windows has no such flag.
        own = getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | own, 0o600)
        try:
            yield handle
        finally:
            os.close(handle)

    def _make_folder(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def _try_lock(handle: int) -> bool:
    """Try to acquire a lock; return `True` also if the system has no locks."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return True
    return True


def _release(handle: int) -> None:
    """Unlock explicitly: a forked process may still have the file open after it is closed."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_UN)
