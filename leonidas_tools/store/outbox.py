"""The outbox: what waits to be written, and the background task that writes it."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import bindparam, update

from leonidas_tools.errors import LeonidasError, StoreError, log_level
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.store.database import insert_new, may_be_invalid_values
from leonidas_tools.store.runs import HEARTBEAT_SECONDS, AdvisoryLock, FileLock
from leonidas_tools.store.schema import executions, runs

if TYPE_CHECKING:
    from asyncio import Future

    from sqlalchemy import Executable
    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.store.database import Database

logger = visible_logger(__name__)

Row: TypeAlias = dict[str, Any]
Write: TypeAlias = Callable[["AsyncConnection"], Awaitable[object]]
"""Writes in the transaction of the connection; called again if the transaction fails."""

_ENDING_BYTES = 512
"""The bytes reserved for the end of each open call, which may be stored without long texts."""
_ENTRY_BYTES = 1024
"""The bytes of an entry without its long texts."""
_BATCH = 64
"""Entries per batch: to prepare them blocks the event loop for a third of a millisecond."""
_BATCH_BYTES = 4 * 1024 * 1024
_LONG_TEXTS = ("arguments", "result", "message", "steps")
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


@dataclass(slots=True, eq=False)
class Entry:
    """What waits to be written: the row of a call, or any other write."""

    key: Hashable  # of a call, the id of its row
    size: int = 0  # in bytes
    write: Write | None = None
    row: Row | None = None  # all columns of a new row; `None` once it is written
    ending: Row | None = None  # the columns that the end of the call sets in a written row
    is_open: bool = False  # while the call has begun and not ended
    waiting: list[Future[bool]] = field(default_factory=list)  # for the row to be written

    def resolve(self, *, is_written: bool) -> None:
        """Tell those who wait for the row."""
        for future in self.waiting:
            if not future.done():
                future.set_result(is_written)
        self.waiting.clear()


class Lane:
    """A part of the outbox: ordered, with limits of number and bytes.

    An entry stays until it is written, or refused by the database. Beyond a limit, a new entry is
    dropped, which is counted, and logged once until the lane is empty.
    """

    def __init__(self, noun: str, *, max_entries: int, max_bytes: int) -> None:
        self.noun = noun
        self.entries = 0
        """The number of entries, including those of open calls."""
        self.size = 0
        """Their bytes, including those reserved for the ends of calls."""
        self.written = 0
        """The number of writes so far."""
        self.refused = 0
        """The number of writes that the database refused."""
        self.dropped = 0
        """The number of entries beyond a limit."""
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._waiting: dict[Hashable, Entry] = {}
        self._taken: list[Entry] = []
        self._is_dropping = False

    def __len__(self) -> int:
        """Return the number of entries to write."""
        return len(self._waiting) + len(self._taken)

    def put(self, entry: Entry, size: int) -> bool:
        """Queue an entry in the place of one with its key; return `False` beyond a limit."""
        before = self._waiting.get(entry.key)
        grown = size - (0 if before is None else before.size)
        if (before is None and self.entries >= self._max_entries) or not self._has_room(grown):
            return False
        if before is None:
            self.entries += 1
        else:
            self._resize(before, 0)
        self._resize(entry, size)
        self._waiting[entry.key] = entry
        return True

    def drop(self) -> None:
        """Count an entry beyond a limit."""
        self.dropped += 1
        if not self._is_dropping:
            self._is_dropping = True
            logger.warning("Some %ss are not stored: the store is too slow for them", self.noun)

    def take(self, most: int = _BATCH) -> list[Entry]:
        """Return the first entries in order, the same ones until they are done."""
        size = sum(entry.size for entry in self._taken)
        while self._waiting and len(self._taken) < most:
            entry = next(iter(self._waiting.values()))
            size += entry.size
            if self._taken and size > _BATCH_BYTES:
                break
            self._taken.append(self._waiting.pop(entry.key))
        return list(self._taken)

    def done(self, batch: Sequence[Entry], *, is_written: bool) -> None:
        """Remove taken entries, which are written or refused."""
        gone = set(batch)
        self._taken = [entry for entry in self._taken if entry not in gone]
        self.written += len(batch) * is_written
        self.refused += len(batch) * (not is_written)
        for entry in batch:
            entry.resolve(is_written=is_written)
            was_row, entry.row = entry.row is not None, None
            if was_row and (entry.is_open or entry.ending is not None):
                self._resize(entry, _ENDING_BYTES + _text_bytes(entry.ending or {}))
                if entry.ending is not None:
                    self._waiting[entry.key] = entry
            else:
                self._resize(entry, 0)
                self.entries -= 1
        self._is_dropping &= len(self) > 0

    def report_failure(self) -> None:
        """Tell those who wait that nothing is written yet."""
        for entry in (*self._taken, *self._waiting.values()):
            entry.resolve(is_written=False)

    async def write(self, connection: AsyncConnection, batch: Sequence[Entry]) -> None:
        """Write entries in the transaction of a connection."""
        for entry in batch:
            if entry.write is not None:
                await entry.write(connection)

    def _has_room(self, grown: int) -> bool:
        return grown <= self._max_bytes - self.size

    def _resize(self, entry: Entry, size: int) -> None:
        self.size += size - entry.size
        entry.size = size


class CallLane(Lane):
    """The lane of calls: a call has one entry from its start to its end.

    So the end of a call whose start was queued is never lost. A call whose start exceeded a limit
    may be queued when it ends. Open calls count towards `max_entries`.

    Example:
        >>> calls = CallLane(max_entries=1, max_bytes=10_000)
        >>> calls.begin("first", {"id": "1", "arguments": "{}"})
        True
        >>> calls.begin("second", {"id": "2", "arguments": "{}"})
        False
        >>> calls.end("first", {"status": "ok", "result": "3"})
        True
        >>> [(entry.row["id"], entry.row["status"]) for entry in calls.take()]
        [('1', 'ok')]
    """

    def __init__(self, *, max_entries: int, max_bytes: int) -> None:
        super().__init__("call", max_entries=max_entries, max_bytes=max_bytes)
        self.cut = 0
        """The number of calls whose long texts exceeded a limit at their end."""
        self._open: dict[Hashable, Entry] = {}

    @property
    def open_calls(self) -> int:
        """Return the number of open calls."""
        return len(self._open)

    def find(self, key: Hashable) -> Entry | None:
        """Return the entry of an open call."""
        return self._open.get(key)

    def is_open(self, id_: str) -> bool:
        """Return whether the call of that row has begun and not ended."""
        return any(entry.key == id_ for entry in self._open.values())

    def begin(self, key: Hashable, row: Row) -> bool:
        """Queue the start of a call, with all columns of its row; return `False` beyond a limit."""
        entry = Entry(row["id"], row=row, is_open=True)
        is_queued = self.put(entry, _ENTRY_BYTES + _text_bytes(row) + _ENDING_BYTES)
        if is_queued:
            self._open[key] = entry
        return is_queued

    def add(self, row: Row) -> None:
        """Queue a call whose start is not queued."""
        if not self.put(Entry(row["id"], row=row), _ENTRY_BYTES + _text_bytes(row)):
            self.drop()

    def end(self, key: Hashable, ending: Row) -> bool:
        """Queue the end of an open call, without its long texts if they exceed the limit.

        Return whether there is such a call.
        """
        entry = self._open.pop(key, None)
        if entry is None:
            return False
        grown = _text_bytes(ending)
        if not self._has_room(grown):
            ending = {name: None if name in _LONG_TEXTS else ending[name] for name in ending}
            grown = 0
            self.cut += 1
        entry.is_open = False
        self._resize(entry, entry.size + grown)
        if entry.key in self._waiting and entry.row is not None:
            entry.row.update(ending)
        else:
            entry.ending = ending
            if entry not in self._taken:
                self._waiting[entry.key] = entry
        return True

    async def write(self, connection: AsyncConnection, batch: Sequence[Entry]) -> None:
        """Write new rows, and the ends of the calls whose rows are written."""
        rows = [entry.row for entry in batch if entry.row is not None]
        endings = [_ending(entry) for entry in batch if entry.row is None]
        if rows:
            await connection.execute(insert_new(connection, executions), rows)
        if endings:
            await connection.execute(_UPDATE, endings)


class Outbox:
    """Writes what waits to the database, in batches of one transaction each.

    Calls and other records (questions and answers, task lists, long results) have limits of their
    own, so that many calls do not displace answers. `run` identifies this opening of the store.
    """

    def __init__(self, database: Database, *, run: str, max_entries: int, max_bytes: int) -> None:
        self.calls = CallLane(max_entries=max_entries, max_bytes=max_bytes)
        self.records = Lane("record", max_entries=max_entries, max_bytes=max_bytes)
        self.error: str | None = None
        """The error that prevents all writes."""
        self.questions = 0
        """The number of open questions; while there are any, the heartbeat is written."""
        self.conversations = 0
        """The number of running conversations; the heartbeat is written for them, too."""
        self._database = database
        self._run = run
        self._lock = (
            FileLock(database.path, run)
            if database.is_file
            else AdvisoryLock(database.session_engine, run, self._schedule_heartbeat)
        )
        self._started = time.time()
        self._seen = 0.0
        self._seen_in = 0
        self._work = asyncio.Event()
        self._urgent = asyncio.Event()
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Return the number of entries to write."""
        return len(self.calls) + len(self.records)

    def start(self) -> None:
        """Start to write in the background."""
        self._task = asyncio.get_running_loop().create_task(
            self._write_until_closed(), name="store-writer"
        )

    def put(self, write: Write, *, key: Hashable = None, size: int = 0) -> None:
        """Queue a write with `size` bytes of content, in place of a waiting one with its key."""
        if not self.records.put(
            Entry(object() if key is None else key, write=write), size + _ENTRY_BYTES
        ):
            self.records.drop()
        self.wake()

    def wake(self) -> None:
        """Wake the background task, so that it writes soon."""
        self._work.set()

    def expedite(self) -> None:
        """Write at once, since a caller waits."""
        self._work.set()
        self._urgent.set()

    async def register(self, connection: AsyncConnection) -> None:
        """Write the heartbeat, unless it was written a moment ago."""
        if self._is_heartbeat_due():
            await self._write_heartbeat(connection)
        self.wake()

    def fail(self, error: LeonidasError) -> None:
        """Record the error that prevents all writes; log it once until the database is back."""
        if self.error is None:
            logger.log(
                log_level(error), "%s; calls continue, and are stored once it is available", error
            )
        self.error = str(error)

    async def flush(self, timeout_seconds: float) -> bool:
        """Wait until all is written; return whether it is in time."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while len(self):
                    self._idle.clear()
                    self.expedite()
                    await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def close(self, timeout_seconds: float) -> None:
        """Write until the timeout, and stop the background task."""
        if self.error is not None:
            timeout_seconds = min(timeout_seconds, _LAST_TRY_SECONDS)
        if not await self.flush(timeout_seconds):
            logger.warning("%d calls or records could not be stored", len(self))
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        is_ended = self._seen_in > 0 and await self._record_end(timeout_seconds)
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
                for lane in (self.calls, self.records):
                    await self._write_batch(lane, lane.take())
            except LeonidasError as error:
                self.fail(error)
                self.calls.report_failure()
                self._urgent.clear()
                await self._wait(pause, self._urgent)
                pause = min(pause * 2, _MAX_PAUSE_SECONDS)
                continue
            except Exception as error:  # noqa: BLE001 - the task must continue
                logger.warning("Calls are not stored: %s", type(error).__name__)
                for lane in (self.calls, self.records):
                    lane.done(lane.take(0), is_written=False)
                continue
            if self.error is not None:
                logger.warning("The store is writable again")
                self.error = None
            pause = _FIRST_PAUSE_SECONDS
            if not len(self):
                self._idle.set()

    async def _wait_for_work(self) -> None:
        """Wait for an entry, then a moment for more; or for the next heartbeat."""
        if len(self):
            return
        self._work.clear()
        self._urgent.clear()
        lives = self.calls.open_calls or self.questions or self.conversations
        await self._wait(HEARTBEAT_SECONDS if lives else None, self._work)
        await self._wait(_GATHERING_SECONDS, self._urgent)

    async def _wait(self, seconds: float | None, until: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(seconds):
                await until.wait()
        except TimeoutError:
            pass

    async def _write_batch(self, lane: Lane, batch: Sequence[Entry]) -> None:
        """Write a batch in one transaction, or one by one if an entry is invalid.

        Raise `StoreError` if the database is not writable.
        """
        if await self._is_valid(lane, batch):
            lane.done(batch, is_written=True)
            return
        for entry in batch:
            is_written = await self._is_valid(lane, [entry])
            if not is_written:
                async with self._database.writing() as connection:  # raises if nothing is writable
                    await self._write_heartbeat(connection)
                logger.warning("A %s was not stored: the database rejected it", lane.noun)
            lane.done([entry], is_written=is_written)

    async def _is_valid(self, lane: Lane, batch: Sequence[Entry]) -> bool:
        """Write entries in one transaction; return `False` if the database refuses a value."""
        if not batch and not self._is_heartbeat_due():
            return True
        try:
            async with self._database.writing() as connection:
                if self._is_heartbeat_due():
                    await self._write_heartbeat(connection)
                await lane.write(connection, batch)
        except StoreError as error:
            if not may_be_invalid_values(error):
                raise
            return False
        return True

    def _is_heartbeat_due(self) -> bool:
        new_file = self._seen_in != self._database.files
        return new_file or time.time() - self._seen >= HEARTBEAT_SECONDS

    def _schedule_heartbeat(self) -> None:
        """Write the heartbeat at once."""
        self._seen = 0.0
        self.wake()

    async def _write_heartbeat(self, connection: AsyncConnection) -> None:
        """Write that this process is alive."""
        try:
            await self._lock.hold()
        except OSError as error:
            logger.debug("This process has no lock of the store: %s", error)
        now = time.time()
        row = {"id": self._run, "host": socket.gethostname(), "process": os.getpid()}
        row |= {"started": self._started, "seen": now, "lock": self._lock.session}
        await connection.execute(insert_new(connection, runs), row)
        seen = {"seen": now} | ({"lock": None} if self._lock.session is None else {})
        await connection.execute(update(runs).where(runs.c.id == self._run).values(seen))
        self._seen, self._seen_in = now, self._database.files


def executes(statement: Executable) -> Write:
    """Return the write that executes a statement."""
    return lambda connection: connection.execute(statement)


def _text_bytes(row: Row) -> int:
    """Return the bytes of the long texts; an upper bound if they are not ASCII."""
    size = 0
    for name in _LONG_TEXTS:  # not a generator, which would take a twentieth of the sink's time
        text = row.get(name)
        if text is not None:
            size += len(text) if text.isascii() else 4 * len(text)
    return size


def _ending(entry: Entry) -> dict[str, Any]:
    ending = entry.ending or {}
    return {"row_id": entry.key, **{f"new_{name}": ending[name] for name in _ENDING_COLUMNS}}
