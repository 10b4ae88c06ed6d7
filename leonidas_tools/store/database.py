"""The database: connections, transactions, and the recovery from a damaged file."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import (
    DatabaseError,
    DBAPIError,
    OperationalError,
    SQLAlchemyError,
    StatementError,
)
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from leonidas_tools.errors import StoreError
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.store.schema import UPGRADES, prepare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from sqlalchemy import URL, Connection, Table
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

    from leonidas_tools.store.schema import Upgrade

logger = visible_logger(__name__)

_CORRUPT = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_BUSY = ("SQLITE_BUSY",)
_DRIVERS = ("aiosqlite", "asyncpg", "sqlite3")
_BESIDE = ("", "-wal", "-shm")
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
_READS = "leonidas_reads"
_CONNECTING_SECONDS = 5.0
_BUSY_PAUSE_SECONDS = 0.02

_LOG_NAME = "leonidas_tools"
_DISCREET: Mapping[str, Any] = {"hide_parameters": True, "logging_name": _LOG_NAME}


def _without_values(record: logging.LogRecord) -> bool:
    """Remove statements and their values from a log record of the driver."""
    if record.levelno <= logging.INFO and isinstance(record.args, tuple):
        record.args = tuple(type(each).__name__ for each in record.args)
    return True


def _without_rows(record: logging.LogRecord) -> bool:
    """Drop the engine's log records of rows, which contain arguments and results."""
    return record.levelno > logging.DEBUG


class Database:
    """Opens the database on first use, and again after its file was lost.

    With `durable`, a transaction ends once its data is on disk. It waits at most `busy_seconds`
    for another process that writes.
    """

    def __init__(
        self,
        url: URL,
        *,
        durable: bool = False,
        busy_seconds: float = 5.0,
        upgrades: Sequence[Upgrade] = UPGRADES,
    ) -> None:
        self.url = url
        self.set_aside: Path | None = None
        """The new path of a file that could not be read."""
        self.files = 1
        """The number of files so far: a new one replaces a lost one."""
        self.lost: str | None = None
        """A message if the file was removed or replaced while it was open."""
        self._identity: tuple[int, int] | None = None
        self._has_lost = False
        self._durable = durable
        self._busy_seconds = busy_seconds
        self._upgrades = upgrades
        self._engine: AsyncEngine | None = None
        self._opening = asyncio.Lock()
        self._writing = asyncio.Lock()

    @property
    def is_file(self) -> bool:
        """Return whether the database is an SQLite file."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def shown(self) -> str:
        """Return the URL without its password and its options, which may contain one too."""
        return self.url.set(query={}).render_as_string(hide_password=True)

    @property
    def has_lost(self) -> bool:
        """Return whether records were lost: the file was moved aside, removed or replaced."""
        return self._has_lost

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """Open a write transaction, one at a time; raise `StoreError` if that fails."""
        async with self._writing:
            engine = await self._current_engine()
            async with self._as_store_error(engine), engine.begin() as connection:
                yield connection

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Open a read transaction, concurrent with writes; raise `StoreError` if that fails."""
        engine = await self._current_engine()
        reader = engine.execution_options(**{_READS: True})
        async with self._as_store_error(engine), reader.begin() as connection:
            yield connection

    async def open(self) -> AsyncEngine:
        """Return the engine with the current schema.

        Raises:
            StoreError: The database cannot be reached.
            ConfigurationError: The database has a newer version than this library.
        """
        async with self._opening:
            if self._engine is None:
                async with self._as_store_error():
                    self._engine = await self._opened()
            return self._engine

    async def _current_engine(self) -> AsyncEngine:
        """Return the engine; raise `StoreError` if its file was removed or replaced.

        The next transaction opens the new file.
        """
        engine = await self.open()
        if self._identity is None or (identity := _identity_of(self.path)) == self._identity:
            return engine
        async with self._opening:
            if self._engine is engine:
                self._engine = None
                what = "removed" if identity is None else "emptied or replaced"
                self.lost = f"The file {str(self.path)!r} was {what} while it was open"
                self._has_lost = True
                self.files += 1
                logger.error("%s: its records are lost to this process", self.lost)
                await engine.dispose()
                if identity is None:
                    await asyncio.to_thread(self._remove_rest)
        raise StoreError(self.lost or "The file of the store was replaced")

    def _remove_rest(self) -> None:
        """Remove the WAL files of a missing file, so that a new file does not use them."""
        for ending in _BESIDE[1:]:
            Path(f"{self.path}{ending}").unlink(missing_ok=True)

    async def close(self) -> None:
        """Close all connections; the next transaction opens a new one."""
        async with self._opening:
            engine, self._engine = self._engine, None
            if engine is not None:
                await engine.dispose()

    async def _opened(self) -> AsyncEngine:
        if self.is_file:
            await asyncio.to_thread(_make_private, self.path)
            self._has_lost |= await asyncio.to_thread(_was_moved_aside, self.path)
        try:
            engine = await self._prepared()
        except SQLAlchemyError as error:
            if not _is_corrupt(error):
                raise
            await asyncio.to_thread(self._move_aside)
            engine = await self._prepared()
        self._identity = _identity_of(self.path) if self.is_file else None
        return engine

    async def _prepared(self) -> AsyncEngine:
        """Return an engine whose database is prepared, once no other process holds the file.

        SQLite does not wait for another process that makes the same new file: the change to WAL
        fails at once.
        """
        deadline = asyncio.get_running_loop().time() + self._busy_seconds
        while True:
            try:
                return await self._prepared_now()
            except SQLAlchemyError as error:
                if not _is_busy(error) or asyncio.get_running_loop().time() > deadline:
                    raise
            await asyncio.sleep(_BUSY_PAUSE_SECONDS)

    async def _prepared_now(self) -> AsyncEngine:
        engine = self._made_engine()
        try:
            async with engine.begin() as connection:
                await connection.run_sync(prepare, self._upgrades)
        except BaseException:
            await engine.dispose()
            raise
        return engine

    def session_engine(self) -> AsyncEngine:
        """Return an engine for a long-lived session, in any event loop."""
        return create_async_engine(
            self.url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args={"timeout": _CONNECTING_SECONDS},
            **_DISCREET,
        )

    def _made_engine(self) -> AsyncEngine:
        logging.getLogger(f"sqlalchemy.engine.Engine.{_LOG_NAME}").addFilter(_without_rows)
        if not self.is_file:
            return create_async_engine(self.url, pool_pre_ping=True, pool_size=3, **_DISCREET)
        logging.getLogger("aiosqlite").addFilter(_without_values)
        engine = create_async_engine(self.url, pool_size=3, **_DISCREET)
        event.listen(engine.sync_engine, "connect", self._set_up)
        event.listen(engine.sync_engine, "begin", _begin)
        return engine

    def _set_up(self, connection: Any, _: Any) -> None:
        """Set up a new connection to a file."""
        connection.isolation_level = None  # else the driver opens its own transactions
        cursor = connection.cursor()
        try:
            cursor.execute(f"PRAGMA busy_timeout = {int(self._busy_seconds * 1000)}")
            cursor.execute("PRAGMA page_count")
            if cursor.fetchone() == (0,):  # before WAL, which writes the first page
                cursor.execute("PRAGMA auto_vacuum = INCREMENTAL")
            cursor.execute("PRAGMA journal_mode = WAL")
            cursor.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
        except BaseException:
            connection.close()  # the engine does not own it yet
            raise
        cursor.close()

    @asynccontextmanager
    async def _as_store_error(self, engine: AsyncEngine | None = None) -> AsyncIterator[None]:
        """Raise errors of the database as `StoreError`, and move a damaged file aside.

        `engine` is `None` while the engine is created.
        """
        try:
            yield
        except Exception as error:
            if not _is_of_database(error):
                raise
            if _is_corrupt(error) and engine is not None:
                await self._give_up(engine)
            said = _described(error, opening=engine is None)
            message = f"The store {self.shown!r} cannot be used: {said}"
            raise StoreError(message) from error

    async def _give_up(self, engine: AsyncEngine) -> None:
        """Close the engine and move its damaged file aside, unless another task has done so."""
        async with self._opening:
            if self._engine is engine:
                self._engine = None
                await engine.dispose()
                await asyncio.to_thread(self._move_aside)

    @property
    def path(self) -> Path:
        """Return the path of the SQLite file."""
        return Path(self.url.database or "")

    def _move_aside(self) -> None:
        """Move the unreadable file aside, and create a new one."""
        path = self.path
        aside = path.with_name(f"{path.name}.corrupt-{time.time_ns() // 1_000_000}")
        for ending in _BESIDE:
            beside = Path(f"{path}{ending}")
            if beside.exists():
                beside.rename(f"{aside}{ending}")
        self.set_aside = aside
        self.files += 1
        self._has_lost = True
        _make_private(path)
        logger.error("The store %s cannot be read: moved to %s; a new one is created", path, aside)


def insert_new(connection: AsyncConnection, table: Table) -> Any:
    """Return an insert that skips existing rows, since a retry may repeat it."""
    dialect: Any = sqlite if connection.dialect.name == "sqlite" else postgresql
    return dialect.insert(table).on_conflict_do_nothing()


def may_be_invalid_values(error: StoreError) -> bool:
    """Return whether the written values may be invalid, rather than the database unusable."""
    cause = error.__cause__
    if isinstance(cause, DBAPIError):
        lost = isinstance(cause, OperationalError) or type(cause) is DatabaseError
        return not lost and not cause.connection_invalidated
    return isinstance(cause, StatementError | UnicodeEncodeError)


def _begin(connection: Connection) -> None:
    """Begin a transaction; lock the database for a write, since a later lock could deadlock."""
    reads = connection.get_execution_options().get(_READS)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _is_of_database(error: Exception) -> bool:
    """Return whether the error is one of the database, not of the code that uses it."""
    drivers = type(error).__module__.partition(".")[0] in _DRIVERS  # raised while connecting
    own = SQLAlchemyError | OSError | TimeoutError
    # The driver of SQLite raises the last one for a lone surrogate.
    return drivers or isinstance(error, own | UnicodeEncodeError)


def _described(error: Exception, *, opening: bool) -> str:
    """Return the text of the error, or only its type if the text may contain values to write."""
    cause = getattr(error, "orig", None) or error
    has_values = isinstance(error, SQLAlchemyError) and not isinstance(error, OperationalError)
    if has_values and not opening and not _is_corrupt(error):
        return type(cause).__name__
    return " ".join(str(cause).split()) or type(cause).__name__


def _is_corrupt(error: Exception) -> bool:
    return _is_of_sqlite(error, _CORRUPT)


def _is_busy(error: Exception) -> bool:
    return _is_of_sqlite(error, _BUSY)


def _is_of_sqlite(error: Exception, names: tuple[str, ...]) -> bool:
    """Return whether SQLite's name of the error begins with one of these."""
    cause = getattr(error, "orig", None)
    while cause is not None:
        if str(getattr(cause, "sqlite_errorname", "")).startswith(names):
            return True
        cause = cause.__cause__
    return False


def _identity_of(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file; `None` if missing, `(0, 0)` if empty."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status.st_size else (0, 0)


def _was_moved_aside(path: Path) -> bool:
    """Return whether an unreadable file of this name was moved aside earlier."""
    prefix = f"{path.name}.corrupt-"
    return any(beside.name.startswith(prefix) for beside in path.parent.iterdir())


def _make_private(path: Path) -> None:
    """Create the file if it does not exist, readable and writable by its owner only."""
    path.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, _PRIVATE_FILE))
