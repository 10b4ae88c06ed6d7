"""Which openings of the store, by whatever process, have not ended."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import select

from leonidas_tools.store.tables import runs

with contextlib.suppress(ImportError):  # Windows has none: the heartbeat decides there
    import fcntl

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

HEARTBEAT_SECONDS = 10.0
"""How often a process says that it lives, while calls are under way or questions are open."""
_CAN_LOCK = os.name == "posix"
_SILENT_SECONDS = 4 * HEARTBEAT_SECONDS


class RunLock:
    """A locked file beside the database, which says that the process of one opening lives.

    The system gives the lock free when the process dies, however it dies. So a process that has
    the id of a dead one, as the first in a container, is not taken for it.

    Args:
        database: The file of the database.
        run: Names the opening.
    """

    def __init__(self, database: Path, run: str) -> None:
        self._path = _lock_file(database, run)
        self._file: int | None = None

    def hold(self) -> None:
        """Take the lock, unless it is held.

        Raises:
            OSError: The file cannot be made.
        """
        if self._file is not None or not _CAN_LOCK:
            return
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def release(self) -> None:
        """Give the lock free, and remove its file."""
        file, self._file = self._file, None
        if file is not None:
            self._path.unlink(missing_ok=True)
            os.close(file)


async def living_runs(connection: AsyncConnection) -> list[str]:
    """Return the openings of the store, by whatever process, that have not ended."""
    now, host = time.time(), socket.gethostname()
    query = select(runs.c.id, runs.c.host, runs.c.process, runs.c.seen).where(
        runs.c.ended.is_(None)
    )
    url = connection.engine.url
    file = Path(url.database or "") if url.get_backend_name() == "sqlite" else None
    alive = []
    for row in await connection.execute(query):
        is_locked = None if file is None else _is_locked(_lock_file(file, row.id))
        if is_locked is None:
            seen = row.seen >= now - _SILENT_SECONDS
            is_locked = seen and (row.host != host or _may_live(row.process))
        if is_locked:
            alive.append(row.id)
    return alive


def _lock_file(database: Path, run: str) -> Path:
    return database.with_name(f"{database.name}.run-{run}")


def _is_locked(path: Path) -> bool | None:
    """Whether a process holds the lock; `None` where there is no lock to tell."""
    if not _CAN_LOCK:
        return None
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return None
    finally:
        os.close(file)
    return False


def _may_live(process: int) -> bool:
    """Whether there is such a process on this machine, where that can be told."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
