"""The background task that writes the queues to the database."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import bindparam, update
from sqlalchemy.dialects import postgresql, sqlite

from leonidas_tools.errors import LeonidasError, StoreError, log_level
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.store.database import may_be_invalid_values
from leonidas_tools.store.runs import HEARTBEAT_SECONDS, AdvisoryLock, FileLock
from leonidas_tools.store.schema import executions, runs
from leonidas_tools.store.write_queue import PendingWrites

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence

    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.store.database import Database
    from leonidas_tools.store.write_queue import CallWrite, CallWriteQueue, PendingWrite, Write

T = TypeVar("T")

logger = visible_logger(__name__)

_BATCH = 64
"""Rows per batch: to prepare them blocks the event loop for a third of a millisecond."""
_GATHERING_SECONDS = 0.05
_LAST_TRY_SECONDS = 1.0
"""Seconds that `close` waits for a database that was not writable before."""
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.25, 15.0
_ENDING_COLUMNS = (
    "status", "ending", "result", "message", "reason",
    "ended", "seconds", "approval_id", "cached", "steps",
)  # fmt: skip
_UPDATE = (
    update(executions)
    .where(executions.c.id == bindparam("row_id"))
    .values({name: bindparam(f"new_{name}") for name in _ENDING_COLUMNS})
)


class Writer:
    """Writes the queues to the database, in batches of one transaction each.

    `run` identifies this opening of the store.
    """

    def __init__(
        self,
        database: Database,
        calls: CallWriteQueue,
        records: PendingWrites | None = None,
        *,
        run: str,
    ) -> None:
        self.written = 0
        """The number of starts and ends that were written."""
        self.refused = 0
        """The number of calls that the database refused."""
        self.error: str | None = None
        """The error that prevents all writes."""
        self._database = database
        self._calls = calls
        self._records = PendingWrites(most=0, max_bytes=0) if records is None else records
        self.questions = 0
        """The number of open questions; while there are any, the heartbeat is written."""
        self.conversations = 0
        """The number of running conversations; the heartbeat is written for them, too."""
        self._run = run
        self._lock = (
            FileLock(database.path, run)
            if database.is_file
            else AdvisoryLock(database.session_engine, run, self._schedule_heartbeat)
        )
        self._started = time.time()
        self._seen = 0.0
        self._seen_in = 0
        self._is_registered = False
        self._work = asyncio.Event()
        self._urgent = asyncio.Event()
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to write in the background."""
        self._task = asyncio.get_running_loop().create_task(
            self._write_until_closed(), name="store-writer"
        )

    def wake(self) -> None:
        """Wake the background task, so that it writes soon."""
        self._work.set()

    def put(self, write: Write, *, key: Hashable | None = None, size: int = 0) -> bool:
        """Queue another write; see `PendingWrites.put`."""
        self._work.set()
        return self._records.put(write, key=key, size=size)

    async def register(self, connection: AsyncConnection) -> None:
        """Write the heartbeat, unless it was written a moment ago."""
        if self._is_heartbeat_due():
            await self._write_heartbeat(connection)
        self._work.set()

    def expedite(self) -> None:
        """Write at once, since a caller waits."""
        self._work.set()
        self._urgent.set()

    def fail(self, error: LeonidasError) -> None:
        """Record the error that prevents all writes; log it once until the database is back."""
        if self.error is None:
            logger.log(
                log_level(error), "%s; calls continue, and are stored once it is available", error
            )
        self.error = str(error)

    async def flush(self, timeout_seconds: float) -> bool:
        """Wait until the queues are empty; return whether they are in time."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while self._has_entries:
                    self._idle.clear()
                    self.expedite()
                    await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def close(self, timeout_seconds: float) -> None:
        """Write the queues until the timeout, and stop the background task."""
        if self.error is not None:
            timeout_seconds = min(timeout_seconds, _LAST_TRY_SECONDS)
        if not await self.flush(timeout_seconds):
            left = len(self._calls) + len(self._records)
            logger.warning("%d calls or records could not be stored", left)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        is_ended = self._is_registered and await self._record_end(timeout_seconds)
        if is_ended or not self._database.is_file:
            await self._lock.release()

    async def _record_end(self, timeout_seconds: float) -> bool:
        """Record the end of this opening of the store; return whether it is written."""
        try:
            async with asyncio.timeout(timeout_seconds), self._database.writing() as connection:
                ended = update(runs).where(runs.c.id == self._run).values(ended=time.time())
                await connection.execute(ended)
        except (StoreError, TimeoutError) as error:
            logger.debug("The end of this run was not stored: %s", error)
            return False
        return True

    async def _write_until_closed(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            await self._wait_for_work()
            try:
                await self._write()
            except LeonidasError as error:
                self.fail(error)
                self._calls.report_failure()
                self._urgent.clear()
                await self._wait(pause)
                pause = min(pause * 2, _MAX_PAUSE_SECONDS)
                continue
            except Exception as error:  # noqa: BLE001 - the writer must continue
                logger.warning("Calls are not stored: %s", type(error).__name__)
                self._give_up()
                continue
            if self.error is not None:
                logger.warning("The store is writable again")
                self.error = None
            pause = _FIRST_PAUSE_SECONDS
            if not self._has_entries:
                self._idle.set()

    @property
    def _has_entries(self) -> bool:
        """Return whether the queues have entries."""
        return bool(len(self._calls) or len(self._records))

    async def _wait_for_work(self) -> None:
        """Wait for an entry, then a moment for more; or for the next heartbeat."""
        if self._has_entries:
            return
        self._work.clear()
        self._urgent.clear()
        lives = self._calls.open_calls or self.questions or self.conversations
        await self._wait(HEARTBEAT_SECONDS if lives else None, self._work)
        await self._wait(_GATHERING_SECONDS, self._urgent)

    async def _wait(self, seconds: float | None, until: asyncio.Event | None = None) -> None:
        """Wait for an event, by default that of `expedite`, at most for `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await (until or self._urgent).wait()
        except TimeoutError:
            pass

    async def _write(self) -> None:
        """Write one batch, and the heartbeat."""
        entries = self._calls.take(_BATCH)
        if entries or self._is_heartbeat_due():
            await self._write_calls(entries)
        batch = self._records.first_batch()
        if batch:
            async for records, is_written in _write_batch(batch, self._write_records_together):
                if not is_written:
                    logger.warning("A record was not stored: the database rejected it")
                self._records.done(records, is_written=is_written)

    async def _write_calls(self, entries: Sequence[CallWrite]) -> None:
        refused: list[str] = []
        async for some, is_written in _write_batch(entries, self._write_calls_together):
            if not is_written:
                async with self._database.writing() as connection:  # raises if nothing is writable
                    await self._write_heartbeat(connection)
                logger.warning("A call was not stored: the database rejected it")
                refused += [entry.id for entry in some]
        self.written += len(entries) - len(refused)
        self.refused += len(refused)
        self._calls.written(refused)

    def _give_up(self) -> None:
        """Discard the current batch, since it cannot be written."""
        self._records.done(self._records.first_batch(), is_written=False)
        refused = [entry.id for entry in self._calls.take(0)]
        self.refused += len(refused)
        self._calls.written(refused)

    async def _write_records_together(self, batch: Sequence[PendingWrite]) -> None:
        async with self._database.writing() as connection:
            for record in batch:
                await record.write(connection)

    async def _write_calls_together(self, entries: Sequence[CallWrite]) -> None:
        rows = [entry.row for entry in entries if entry.row is not None]
        endings = [_ending(entry) for entry in entries if entry.row is None]
        async with self._database.writing() as connection:
            if self._is_heartbeat_due():
                await self._write_heartbeat(connection)
            if rows:
                await connection.execute(self._insert(executions), rows)
            if endings:
                await connection.execute(_UPDATE, endings)

    def _is_heartbeat_due(self) -> bool:
        new_file = self._seen_in != self._database.files
        return new_file or time.time() - self._seen >= HEARTBEAT_SECONDS

    def _schedule_heartbeat(self) -> None:
        """Write the heartbeat at once."""
        self._seen = 0.0
        self._work.set()

    async def _write_heartbeat(self, connection: AsyncConnection) -> None:
        """Write that this process is alive."""
        try:
            await self._lock.hold()
        except OSError as error:
            logger.debug("This process has no lock of the store: %s", error)
        now = time.time()
        row = {"id": self._run, "host": socket.gethostname(), "process": os.getpid()}
        row |= {"started": self._started, "seen": now, "lock": self._lock.session}
        await connection.execute(self._insert(runs), row)
        seen = {"seen": now} | ({"lock": None} if self._lock.session is None else {})
        await connection.execute(update(runs).where(runs.c.id == self._run).values(seen))
        self._seen, self._seen_in, self._is_registered = now, self._database.files, True

    def _insert(self, table: Any) -> Any:
        """Return an insert that skips existing rows, since a retry may repeat it."""
        dialect: Any = sqlite if self._database.is_file else postgresql
        return dialect.insert(table).on_conflict_do_nothing()


async def _write_batch(
    batch: Sequence[T], write: Callable[[Sequence[T]], Awaitable[None]]
) -> AsyncIterator[tuple[Sequence[T], bool]]:
    """Write a batch in one transaction, or one by one if one is invalid.

    Yield the items of each attempt, and whether they are written. Raise `StoreError` if the
    database is not writable.
    """
    try:
        await write(batch)
    except StoreError as error:
        if not may_be_invalid_values(error):
            raise
    else:
        yield batch, True
        return
    for each in batch:
        try:
            await write([each])
        except StoreError as error:
            if not may_be_invalid_values(error):
                raise
            yield [each], False
        else:
            yield [each], True


def _ending(entry: CallWrite) -> dict[str, Any]:
    ending = entry.ending or {}
    return {"row_id": entry.id, **{f"new_{name}": ending[name] for name in _ENDING_COLUMNS}}
