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

    from sqlalchemy import URL, Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

    from leonidas_tools.store.schema import Upgrade

logger = visible_logger(__name__)

_CORRUPT = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_DRIVERS = ("aiosqlite", "asyncpg", "sqlite3")
_BESIDE = ("", "-wal", "-shm")
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
_READS = "leonidas_reads"
_CONNECTING_SECONDS = 5.0

_LOG_NAME = "leonidas_tools"
_DISCREET: Mapping[str, Any] = {"hide_parameters": True, "logging_name": _LOG_NAME}


def _without_values(record: logging.LogRecord) -> bool:
    """Take out of a record of the driver what it says of statements and their values."""
    if record.levelno <= logging.INFO and isinstance(record.args, tuple):
        record.args = tuple(type(each).__name__ for each in record.args)
    return True


def _without_rows(record: logging.LogRecord) -> bool:
    """Drop what the engine logs of rows: they hold arguments and results."""
    return record.levelno > logging.DEBUG


class Database:
    """Opens the database when it is first needed, and again after it was lost.

    Args:
        url: Where it is.
        durable: Whether what is written is on disk, and not only handed to the system.
        busy_seconds: How long to wait for another process that writes.
        upgrades: What there is between version 1 of the schema and the newest.
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
        """Where a file was moved that could not be read any more."""
        self.files = 1
        """How many files there have been: a new one takes the place of a lost one."""
        self.lost: str | None = None
        """What became of a file that was removed or replaced while it was open."""
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
        """Return whether it is a file of SQLite."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def has_lost(self) -> bool:
        """Return whether records were lost: the file was moved aside, removed or replaced."""
        return self._has_lost

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that writes; one at a time, as SQLite does anyway.

        Raises:
            StoreError: The database cannot be reached or written to.
        """
        async with self._writing:
            engine = await self._opened_still()
            async with self._as_store_error(engine), engine.begin() as connection:
                yield connection

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that reads, beside a writing one.

        Raises:
            StoreError: The database cannot be reached or read.
        """
        engine = await self._opened_still()
        reader = engine.execution_options(**{_READS: True})
        async with self._as_store_error(engine), reader.begin() as connection:
            yield connection

    async def open(self) -> AsyncEngine:
        """Return the engine, once the schema is there.

        Raises:
            StoreError: The database cannot be reached.
            ConfigurationError: It is of a newer version than is known here.
        """
        async with self._opening:
            if self._engine is None:
                async with self._as_store_error():
                    self._engine = await self._opened()
            return self._engine

    async def _opened_still(self) -> AsyncEngine:
        """Return the engine, whose file is still where it was opened.

        Raises:
            StoreError: The file was removed or replaced; the next transaction opens the new one.
        """
        engine = await self.open()
        if self._identity is None or (found := _identity_of(self.path)) == self._identity:
            return engine
        async with self._opening:
            if self._engine is engine:
                self._engine = None
                what = "removed" if found is None else "emptied or replaced"
                self.lost = f"The file {str(self.path)!r} was {what} while it was open"
                self._has_lost = True
                self.files += 1
                logger.error("%s: what it held is lost to this process", self.lost)
                await engine.dispose()
                if found is None:
                    await asyncio.to_thread(self._remove_rest)
        raise StoreError(self.lost or "The file of the store is another one now")

    def _remove_rest(self) -> None:
        """Remove the side files of a missing file, so that no new one uses them."""
        for ending in _BESIDE[1:]:
            Path(f"{self.path}{ending}").unlink(missing_ok=True)

    async def close(self) -> None:
        """End all connections; the next transaction opens a new one."""
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
        engine = self._made_engine()
        try:
            async with engine.begin() as connection:
                await connection.run_sync(prepare, self._upgrades)
        except BaseException:
            await engine.dispose()
            raise
        return engine

    def session_engine(self) -> AsyncEngine:
        """Return an engine for a lasting session, in any event loop."""
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
        connection.isolation_level = None  # else the driver opens transactions of its own making
        cursor = connection.cursor()
        try:
            cursor.execute(f"PRAGMA busy_timeout = {int(self._busy_seconds * 1000)}")
            cursor.execute("PRAGMA page_count")
            if cursor.fetchone() == (0,):  # before WAL, which begins the file
                cursor.execute("PRAGMA auto_vacuum = INCREMENTAL")
            cursor.execute("PRAGMA journal_mode = WAL")
            cursor.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
        except BaseException:
            connection.close()  # it is in no other hands yet
            raise
        cursor.close()

    @asynccontextmanager
    async def _as_store_error(self, engine: AsyncEngine | None = None) -> AsyncIterator[None]:
        """Raise one kind of error, and give up a damaged file.

        Args:
            engine: What is used; `None` while it is made.
        """
        try:
            yield
        except Exception as error:
            if not _is_of_database(error):
                raise
            if _is_corrupt(error) and engine is not None:
                await self._give_up(engine)
            where = self.url.render_as_string(hide_password=True)
            said = f"The store {where!r} cannot be used: {_said(error, opening=engine is None)}"
            raise StoreError(said) from error

    async def _give_up(self, engine: AsyncEngine) -> None:
        """Give up a damaged file, unless another task has done so already."""
        async with self._opening:
            if self._engine is engine:
                self._engine = None
                await engine.dispose()
                await asyncio.to_thread(self._move_aside)

    @property
    def path(self) -> Path:
        """Return the file."""
        return Path(self.url.database or "")

    def _move_aside(self) -> None:
        """Keep the unreadable file beside the new one."""
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
        logger.error("The store %s cannot be read: moved to %s, and a new one begun", path, aside)


def may_be_the_values(error: StoreError) -> bool:
    """Return whether the written values may be at fault, and not the database."""
    cause = error.__cause__
    if isinstance(cause, DBAPIError):
        lost = isinstance(cause, OperationalError) or type(cause) is DatabaseError
        return not lost and not cause.connection_invalidated
    return isinstance(cause, StatementError)


def _begin(connection: Connection) -> None:
    """Begin a transaction; one that writes waits for others here, where waiting can end well."""
    reads = connection.get_execution_options().get(_READS)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _is_of_database(error: Exception) -> bool:
    """Return whether it says something of the database, and not of what is done with it."""
    drivers = type(error).__module__.partition(".")[0] in _DRIVERS  # while it connects
    return drivers or isinstance(error, SQLAlchemyError | OSError | TimeoutError)


def _said(error: Exception, *, opening: bool) -> str:
    """Return what went wrong, without the values that were to be written."""
    cause = getattr(error, "orig", None) or error
    says_values = isinstance(error, SQLAlchemyError) and not isinstance(error, OperationalError)
    if says_values and not opening and not _is_corrupt(error):
        return type(cause).__name__
    return " ".join(str(cause).split()) or type(cause).__name__


def _is_corrupt(error: Exception) -> bool:
    cause = getattr(error, "orig", None)
    while cause is not None:
        if str(getattr(cause, "sqlite_errorname", "")).startswith(_CORRUPT):
            return True
        cause = cause.__cause__
    return False


def _identity_of(path: Path) -> tuple[int, int] | None:
    """Return what identifies a file; `None` if it is missing or empty."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found.st_size else (0, 0)


def _was_moved_aside(path: Path) -> bool:
    """Return whether an earlier file of this name lies beside it, which could not be read."""
    prefix = f"{path.name}.corrupt-"
    return any(beside.name.startswith(prefix) for beside in path.parent.iterdir())


def _make_private(path: Path) -> None:
    """Make the file, for its owner's eyes only, where there is none."""
    path.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, _PRIVATE_FILE))
