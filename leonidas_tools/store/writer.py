"""Writes what waits, in one task beside everything else."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, update
from sqlalchemy.dialects import postgresql, sqlite

from leonidas_tools.errors import LeonidasError, StoreError, log_level
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.store.database import may_be_the_values
from leonidas_tools.store.errands import Errands
from leonidas_tools.store.runs import HEARTBEAT_SECONDS, RunLock, SessionLock
from leonidas_tools.store.tables import executions, runs

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.store.backlog import Backlog, Entry
    from leonidas_tools.store.database import Database
    from leonidas_tools.store.errands import Write

logger = visible_logger(__name__)

_BATCH = 64
"""As many rows as SQLAlchemy prepares in a third of a millisecond, which holds the loop."""
_GATHERING_SECONDS = 0.05
_LAST_TRY_SECONDS = 1.0
"""How long the end waits for a database that could not be written to before."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 15.0
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
    """Takes from the backlog, many calls at a time, and writes them in one transaction.

    Args:
        database: Where to.
        backlog: What waits.
        errands: What else waits.
        run: Names this opening of the store.
    """

    def __init__(
        self, database: Database, backlog: Backlog, errands: Errands | None = None, *, run: str
    ) -> None:
        self.written = 0
        """Starts and ends that were written."""
        self.refused = 0
        """Calls that the database would not take."""
        self.error: str | None = None
        """Why nothing can be written."""
        self._database = database
        self._backlog = backlog
        self._errands = Errands(most=0, max_bytes=0) if errands is None else errands
        self.questions = 0
        """The number of open questions; with any, the process reports that it lives."""
        self._run = run
        self._lock = (
            RunLock(database.path, run)
            if database.is_file
            else SessionLock(database.session_engine, run, self._beat_soon)
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
        """Begin to write."""
        self._task = asyncio.get_running_loop().create_task(self._write_on(), name="store-writer")

    def wake(self) -> None:
        """Something waits."""
        self._work.set()

    def put(self, write: Write, *, key: Hashable | None = None, size: int = 0) -> bool:
        """Take something else that is to be written, and returns at once whether it was taken.

        Args:
            write: Writes it.
            key: What it is about: it takes the place of what waits under the same key.
            size: How much it holds, in bytes.
        """
        self._work.set()
        return self._errands.put(write, key=key, size=size)

    def hurry(self) -> None:
        """Somebody waits for it to be written."""
        self._work.set()
        self._urgent.set()

    def fail(self, error: LeonidasError) -> None:
        """Say why nothing can be written, once until it can be again."""
        if self.error is None:
            logger.log(log_level(error), "%s; calls go on, and are kept once it is back", error)
        self.error = str(error)

    async def flush(self, timeout_seconds: float) -> bool:
        """Wait until nothing waits any more.

        Returns:
            Whether all was written in time.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                while self._waits:
                    self._idle.clear()
                    self.hurry()
                    await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def close(self, timeout_seconds: float) -> None:
        """Write what waits, as far as that is possible in time, and ends the task."""
        if self.error is not None:
            timeout_seconds = min(timeout_seconds, _LAST_TRY_SECONDS)
        if not await self.flush(timeout_seconds):
            left = len(self._backlog) + len(self._errands)
            logger.warning("%d calls or records could not be written to the store", left)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        is_ended = self._is_registered and await self._tell_end(timeout_seconds)
        if is_ended or not self._database.is_file:
            await self._lock.release()

    async def _tell_end(self, timeout_seconds: float) -> bool:
        """Write that this opening of the store ends, and says whether that is written."""
        try:
            async with asyncio.timeout(timeout_seconds), self._database.writing() as connection:
                ended = update(runs).where(runs.c.id == self._run).values(ended=time.time())
                await connection.execute(ended)
        except (StoreError, TimeoutError) as error:
            logger.debug("The store was not told of the end: %s", error)
            return False
        return True

    async def _write_on(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            await self._something_to_do()
            try:
                await self._write()
            except LeonidasError as error:
                self.fail(error)
                self._backlog.disappoint()
                self._urgent.clear()
                await self._rest(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
                continue
            except Exception as error:  # noqa: BLE001 - what keeps calls must go on
                logger.warning("Calls are not kept: %s", type(error).__name__)
                self._give_up()
                continue
            if self.error is not None:
                logger.warning("The store is written to again")
                self.error = None
            pause = _FIRST_PAUSE_SECONDS
            if not self._waits:
                self._idle.set()

    @property
    def _waits(self) -> bool:
        """Return whether anything waits to be written."""
        return bool(len(self._backlog) or len(self._errands))

    async def _something_to_do(self) -> None:
        """Wait for something to write, and then a moment for more; or until it is time to beat."""
        if self._waits:
            return
        self._work.clear()
        self._urgent.clear()
        lives = self._backlog.open_calls or self.questions
        await self._rest(HEARTBEAT_SECONDS if lives else None, self._work)
        await self._rest(_GATHERING_SECONDS, self._urgent)

    async def _rest(self, seconds: float | None, until: asyncio.Event | None = None) -> None:
        """Wait for the time, or for what ends the wait; `hurry` always does."""
        try:
            async with asyncio.timeout(seconds):
                await (until or self._urgent).wait()
        except TimeoutError:
            pass

    async def _write(self) -> None:
        """Write one batch, and that this process lives."""
        entries = self._backlog.take(_BATCH)
        if entries or self._is_to_beat():
            await self._write_entries(entries)
        await self._errands.write(self._database)

    async def _write_entries(self, entries: Sequence[Entry]) -> None:
        refused: Collection[str] = ()
        try:
            await self._write_together(entries)
        except StoreError as error:
            if not may_be_the_values(error):
                raise
            refused = await self._write_singly(entries)
        self.written += len(entries) - len(refused)
        self.refused += len(refused)
        self._backlog.written(refused)

    def _give_up(self) -> None:
        """Throw away what was taken, since it cannot be written."""
        self._errands.throw_away()
        refused = [entry.id for entry in self._backlog.take(0)]
        self.refused += len(refused)
        self._backlog.written(refused)

    async def _write_together(self, entries: Sequence[Entry]) -> None:
        rows = [entry.row for entry in entries if entry.row is not None]
        endings = [_ending(entry) for entry in entries if entry.row is None]
        async with self._database.writing() as connection:
            if self._is_to_beat():
                await self._beat(connection)
            if rows:
                await connection.execute(self._insert(executions), rows)
            if endings:
                await connection.execute(_UPDATE, endings)

    async def _write_singly(self, entries: Sequence[Entry]) -> list[str]:
        """Write one by one, since one may be invalid; return the ids of the valid ones.

        Raises:
            StoreError: Nothing can be written.
        """
        refused = []
        for entry in entries:
            try:
                await self._write_together([entry])
            except StoreError as error:
                if not may_be_the_values(error):
                    raise
                async with self._database.writing() as connection:  # or else nothing can be
                    await self._beat(connection)
                logger.warning("A call is not kept, since the database refuses it")
                refused.append(entry.id)
        return refused

    def _is_to_beat(self) -> bool:
        new_file = self._seen_in != self._database.files
        return new_file or time.time() - self._seen >= HEARTBEAT_SECONDS

    def _beat_soon(self) -> None:
        """Have the heartbeat written at once."""
        self._seen = 0.0
        self._work.set()

    async def _beat(self, connection: AsyncConnection) -> None:
        """Say that this process lives."""
        try:
            await self._lock.hold()
        except OSError as error:
            logger.debug("No lock says that this process lives: %s", error)
        now = time.time()
        row = {"id": self._run, "host": socket.gethostname(), "process": os.getpid()}
        row |= {"started": self._started, "seen": now, "lock": self._lock.session}
        await connection.execute(self._insert(runs), row)
        seen = {"seen": now} | ({"lock": None} if self._lock.session is None else {})
        await connection.execute(update(runs).where(runs.c.id == self._run).values(seen))
        self._seen, self._seen_in, self._is_registered = now, self._database.files, True

    def _insert(self, table: Any) -> Any:
        """Insert what is not there: an answer that got lost must not make it twice."""
        dialect: Any = sqlite if self._database.is_file else postgresql
        return dialect.insert(table).on_conflict_do_nothing()


def _ending(entry: Entry) -> dict[str, Any]:
    ending = entry.ending or {}
    return {"row_id": entry.id, **{f"new_{name}": ending[name] for name in _ENDING_COLUMNS}}
