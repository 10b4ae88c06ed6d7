"""The openings of the store by all processes, and whether their processes are alive."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import time
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select, text, update
from sqlalchemy.exc import DBAPIError

from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.store.schema import runs

with contextlib.suppress(ImportError):  # Windows has none: the heartbeat decides there
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from sqlalchemy import Row, Select
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

    from leonidas_tools.store.database import Database

logger = visible_logger(__name__)

HEARTBEAT_SECONDS = 10.0
"""Seconds between heartbeats, while calls or conversations run or questions are open."""
_CAN_LOCK = os.name == "posix"
_SILENT_SECONDS = 4 * HEARTBEAT_SECONDS
LOST_SECONDS = 2.0
"""Seconds that a lock must be missing before its process counts as dead."""
_RETRY_SECONDS = LOST_SECONDS / 4
_ANSWER_SECONDS = 5.0
_TAKING_SECONDS = 1.0
"""Seconds that the first write waits for the lock."""

# Keepalives detect a lost host, since a running one replies even if the process is busy.
_SETTINGS = {
    "tcp_keepalives_idle": "20",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "5",
}
_SERVER = "extract(epoch FROM pg_postmaster_start_time())::text"
_SESSION = text(f"SELECT pg_backend_pid() AS pid, {_SERVER} AS server")
_TAKE = text("SELECT pg_try_advisory_lock_shared(:key)")  # shared: the previous session may linger
_LOCKS = text(
    f"SELECT {_SERVER} AS server, pid, (classid::bigint << 32) | objid::bigint AS key "  # noqa: S608
    "FROM (SELECT oid FROM pg_database WHERE datname = current_database()) AS here "
    "LEFT JOIN pg_locks ON database = here.oid AND locktype = 'advisory' "
    "AND objsubid = 1 AND granted"
)


class FileLock:
    """A locked file beside the database that shows that the process of one opening is alive.

    The system releases the lock when the process dies, however it dies. So a new process with the
    id of a dead one, such as the first in a container, is not mistaken for it.
    """

    def __init__(self, database: Path, run: str) -> None:
        self.session = None
        """Always `None`: the name of the file identifies the opening."""
        self._path = _lock_file(database, run)
        self._file: int | None = None

    async def hold(self) -> None:
        """Acquire the lock, unless it is held; raise `OSError` if the file cannot be created."""
        if self._file is not None or not _CAN_LOCK:
            return
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(file)
            raise
        self._file = file

    async def release(self) -> None:
        """Release the lock, and remove its file."""
        file, self._file = self._file, None
        if file is not None:
            self._path.unlink(missing_ok=True)
            os.close(file)


class AdvisoryLock:
    """A PostgreSQL session with an advisory lock that shows that a process is alive.

    The server releases the lock when the process dies, however it dies. A thread keeps the
    session, so that it is restored at once even if the event loop of the process is busy.
    `on_loss` is called in the event loop when the lock is lost.
    """

    def __init__(
        self, engine: Callable[[], AsyncEngine], run: str, on_loss: Callable[[], None]
    ) -> None:
        self.session: str | None = None
        """Identifies the session with the lock."""
        self._engine = engine
        self._run = run
        self._on_loss = on_loss
        self._process_loop: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._has_tried = threading.Event()
        self._is_ending = False
        self._thread: threading.Thread | None = None

    async def hold(self) -> None:
        """Acquire the lock, and keep it."""
        if self._thread is None:
            self._process_loop = asyncio.get_running_loop()
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._keep, args=(self._loop,), name="store-lock", daemon=True
            )
            self._thread.start()
        if not self._has_tried.is_set():
            await asyncio.to_thread(self._has_tried.wait, _TAKING_SECONDS)

    async def release(self) -> None:
        """Release the lock."""
        if self._thread is None or self._loop is None:
            return
        self._is_ending = True
        with contextlib.suppress(RuntimeError):  # the thread has ended
            self._loop.call_soon_threadsafe(self._news.set)
        await asyncio.to_thread(self._thread.join, _TAKING_SECONDS)

    def _keep(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.closing(loop):
            loop.run_until_complete(self._keep_on())

    async def _keep_on(self) -> None:
        engine, is_possible, had_lock = self._engine(), True, False
        while is_possible and not self._is_ending:
            session = self.session
            try:
                async with engine.connect() as connection:
                    is_possible = await self._keep_session(connection)
            except Exception as error:  # noqa: BLE001 - the heartbeat decides meanwhile
                logger.debug("This process has no lock of the store: %s", type(error).__name__)
            if session is not None and self.session == session:
                self._report_loss()
            had_lock |= self.session is not None
            self._has_tried.set()
            await self._wait(_RETRY_SECONDS if had_lock else HEARTBEAT_SECONDS)
        await engine.dispose()

    def _report_loss(self) -> None:
        """Report the loss; another connection, which may still work, then writes it."""
        self.session = None
        with contextlib.suppress(RuntimeError):  # the loop of the process has ended
            if self._process_loop is not None:
                self._process_loop.call_soon_threadsafe(self._on_loss)

    async def _keep_session(self, connection: AsyncConnection) -> bool:
        """Keep a session with the lock until it is lost; return whether locks are possible."""
        driver: Any = (await connection.get_raw_connection()).driver_connection
        async with asyncio.timeout(_ANSWER_SECONDS):
            pid, server = (await connection.execute(_SESSION)).one()
            if pid != driver.get_server_pid():  # a pooler, which may share the session
                return False
            for name, value in _SETTINGS.items():
                await connection.execute(select(func.set_config(name, value, False)))
            driver.add_termination_listener(lambda _: self._news.set())
            session, key = f"{server}/{pid}", _key(self._run)
            await connection.execute(_TAKE, {"key": key})
            _, locks = await _held_locks(connection)
            if (session, key) not in locks:  # a server that only resembles PostgreSQL
                return False
        self.session = session
        is_mine = runs.c.lock.is_not_distinct_from(self.session)
        noted = update(runs).where(runs.c.id == self._run, ~is_mine).values(lock=self.session)
        while not self._is_ending:
            self._news.clear()
            async with asyncio.timeout(_ANSWER_SECONDS):
                await connection.execute(noted)
            self._has_tried.set()
            await self._wait(HEARTBEAT_SECONDS)
        return True

    async def _wait(self, seconds: float) -> None:
        """Wait for the time, or for the end of the session or of the store."""
        if not self._is_ending:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), seconds)
        self._news.clear()


async def living_runs(connection: AsyncConnection, lost: Collection[str] = ()) -> list[str]:
    """Return the ids of the openings of the store whose process is alive.

    `lost` is the result of `lost_runs`, called before the transaction of the connection.
    """
    rows, are_locked = await _open_runs(connection)
    is_file = _is_file(connection)
    alive = []
    for row in rows:
        is_locked = are_locked.get(row.id)
        if is_locked is None or not (is_locked or is_file or row.id in lost):
            is_locked = _has_recent_heartbeat(row)
        if is_locked:
            alive.append(row.id)
    return alive


async def lost_runs(database: Database, among: Select[tuple[str]]) -> Collection[str]:
    """Return the selected openings whose lock in PostgreSQL is missing, after a wait.

    A living process may lose its lock when the server ends the session, so it gets time to
    acquire it again. The wait is outside of transactions.
    """
    if database.is_file:
        return ()
    async with database.reading() as connection:
        rows, are_locked = await _open_runs(connection, among)
    lost = {
        row.id for row in rows if are_locked.get(row.id) is False and _has_recent_heartbeat(row)
    }
    if lost:
        await asyncio.sleep(LOST_SECONDS)
    return lost


async def _open_runs(
    connection: AsyncConnection, among: Select[tuple[str]] | None = None
) -> tuple[Sequence[Row[Any]], dict[str, bool]]:
    """Return the openings without an end, and for those with a lock whether it is held."""
    query = select(runs).where(runs.c.ended.is_(None))
    if among is not None:
        query = query.where(runs.c.id.in_(among))
    rows = (await connection.execute(query)).all()
    if _is_file(connection):
        file = Path(connection.engine.url.database or "")
        locked = {row.id: _is_locked(_lock_file(file, row.id)) for row in rows}
        return rows, {run: is_locked for run, is_locked in locked.items() if is_locked is not None}
    try:
        async with connection.begin_nested():  # so that an error does not end the transaction
            server, held = await _held_locks(connection)
    except DBAPIError as error:
        logger.debug("The locks of the store cannot be read: %s", type(error.orig).__name__)
        return rows, {}
    return rows, {
        row.id: (row.lock, _key(row.id)) in held
        for row in rows
        if row.lock is not None
        and row.lock.startswith(f"{server}/")  # the server has not restarted since
    }


async def _held_locks(connection: AsyncConnection) -> tuple[str, set[tuple[str, int]]]:
    """Return the id of the server, and the session and the key of each lock."""
    locks = (await connection.execute(_LOCKS)).all()
    return locks[0].server, {(f"{lock.server}/{lock.pid}", lock.key) for lock in locks}


def _is_file(connection: AsyncConnection) -> bool:
    return connection.engine.url.get_backend_name() == "sqlite"


def _has_recent_heartbeat(row: Row[Any]) -> bool:
    """Return whether the heartbeat shows that a process is alive."""
    is_recent = row.seen >= time.time() - _SILENT_SECONDS
    return is_recent and (row.host != socket.gethostname() or _may_live(row.process))


def _key(run: str) -> int:
    """Return the key of the advisory lock of an opening."""
    return int.from_bytes(blake2b(run.encode(), digest_size=8).digest(), signed=True)


def _lock_file(database: Path, run: str) -> Path:
    return database.with_name(f"{database.name}.run-{run}")


def _is_locked(path: Path) -> bool | None:
    """Return whether a process holds the lock; `None` if there is no lock."""
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
    """Return whether the process may be alive on this machine."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
