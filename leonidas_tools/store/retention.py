"""Delete rows that are too old or too many, in slices."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, delete, not_, or_, select

from leonidas_tools.errors import LeonidasError
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.store.queries import RESUMABLE_SECONDS
from leonidas_tools.store.schema import (
    approvals,
    cached_results,
    conversations,
    executions,
    results,
    runs,
    tasks,
    usage,
)
from leonidas_tools.tools.metadata import ToolEffect

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Table
    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.store.database import Database

logger = visible_logger(__name__)

_FIRST_SECONDS, _PAUSE_SECONDS = 60.0, 3600.0
_SLICE = 500
_PAGES = 1000
"""The pages returned to the file system in one transaction."""


class Retention:
    """Deletes calls that are older than `keep_seconds`, or beyond the last `keep_calls`.

    With `durable`, calls that a resumed session must not repeat are kept beyond `keep_calls`.
    """

    def __init__(
        self, database: Database, *, keep_seconds: float, keep_calls: int, durable: bool
    ) -> None:
        self._database = database
        self._durable = durable
        self._keep_seconds = keep_seconds
        self._keep_calls = keep_calls
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to delete in the background, after a minute and then every hour."""
        self._task = asyncio.get_running_loop().create_task(self._prune_on(), name="store-pruning")

    async def close(self) -> None:
        """Stop deleting."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def prune(self) -> int:
        """Delete rows that are too old or too many, in slices, and return their number.

        Preferences are never deleted, nor is a question that can still be answered.
        Raise `StoreError` if the database cannot be written to.
        """
        oldest = time.time() - self._keep_seconds
        deleted = await self._delete(results, results.c.expires < time.time())
        deleted += await self._delete(cached_results, cached_results.c.expires < time.time())
        deleted += await self._delete(executions, executions.c.started < oldest)
        deleted += await self._delete_surplus()
        deleted += await self._delete(approvals, approvals.c.requested < oldest, not_(_is_open()))
        deleted += await self._delete(tasks, tasks.c.updated < oldest)
        deleted += await self._delete(conversations, conversations.c.started < oldest)
        day_ago = time.time() - RESUMABLE_SECONDS  # limits count a day, and resumed sessions
        deleted += await self._delete(usage, usage.c.at < min(oldest, day_ago))
        deleted += await self._delete(runs, runs.c.seen < oldest)
        if deleted and self._database.is_file:
            await self._shrink()
        return deleted

    async def _prune_on(self) -> None:
        pause = _FIRST_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = _PAUSE_SECONDS
            try:
                await self.prune()
            except LeonidasError as error:
                logger.debug("Nothing was deleted: %s", error)

    async def _delete_surplus(self) -> int:
        last = (
            select(executions.c.started, executions.c.id)
            .order_by(executions.c.started.desc(), executions.c.id.desc())
            .offset(self._keep_calls)
            .limit(1)
        )
        async with self._database.reading() as connection:
            found = (await connection.execute(last)).one_or_none()
        if found is None:
            return 0
        started, id_ = executions.c.started, executions.c.id
        older = (started < found.started) | ((started == found.started) & (id_ <= found.id))
        if not self._durable:
            return await self._delete(executions, older)
        may_repeat = executions.c.effect.is_distinct_from(ToolEffect.ONCE.value)
        is_over = started <= time.time() - RESUMABLE_SECONDS
        return await self._delete(executions, older, may_repeat | is_over)

    async def _delete(self, table: Table, *which: ColumnElement[Any]) -> int:
        key = next(iter(table.primary_key.columns))
        some = select(key).where(*which).limit(_SLICE)
        deleted = 0
        while True:
            async with self._database.writing() as connection:
                count = (
                    await connection.execute(delete(table).where(key.in_(some), *which))
                ).rowcount
            deleted += count
            if count < _SLICE:
                return deleted

    async def _shrink(self) -> None:
        """Return free pages to the file system."""
        left = None
        while left != 0:
            async with self._database.writing() as connection:
                before = await _free_pages(connection)
                # Directly, since SQLAlchemy stops after the first page.
                driver: Any = (await connection.get_raw_connection()).driver_connection
                await driver.execute_fetchall(f"PRAGMA incremental_vacuum({_PAGES})")
                left = await _free_pages(connection)
            if left >= before:
                return


def _is_open() -> ColumnElement[bool]:
    """Return the condition for questions that wait for an answer and have not expired."""
    in_time = or_(approvals.c.expires.is_(None), approvals.c.expires > time.time())
    return and_(approvals.c.decision.is_(None), in_time)


async def _free_pages(connection: AsyncConnection) -> int:
    return int((await connection.exec_driver_sql("PRAGMA freelist_count")).scalar_one())
