"""The agent's task lists."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select

from leonidas_tools.session.tasks import Task, TaskStatus
from leonidas_tools.store.recorder import owner_of
from leonidas_tools.store.schema import tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.store.database import Database
    from leonidas_tools.store.outbox import Write


class TaskTable:
    """Stores a list of tasks for each session of each user; may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, session: str, *, user: str | None = None) -> list[Task]:
        """Return the tasks of a session, in order."""
        async with self._database.reading() as connection:
            return await _read(connection, *_of(session, user))

    async def find(self, session: str, *, user: str | None = None) -> list[Task]:
        """Return the tasks of all sessions with an id, those of each user in order.

        `user` has the form of `Execution.user`.
        """
        where = [tasks.c.session == session]
        if user is not None:
            where.append(tasks.c.user == user)
        async with self._database.reading() as connection:
            return await _read(connection, *where)

    def writing(self, session: str, list_: Sequence[Task], *, user: str | None) -> Write:
        """Return the write that replaces all tasks of a session."""
        owner = owner_of(user)
        rows = [_row(session, task, position, owner) for position, task in enumerate(list_)]

        async def write(connection: AsyncConnection) -> None:
            await connection.execute(delete(tasks).where(*_of(session, user)))
            if rows:
                await connection.execute(insert(tasks), rows)

        return write


def _of(session: str, user: str | None) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that select the tasks of a session of a user."""
    return tasks.c.session == session, tasks.c.user == owner_of(user)


async def _read(connection: AsyncConnection, *where: ColumnElement[bool]) -> list[Task]:
    query = select(tasks).where(*where).order_by(tasks.c.user, tasks.c.position)
    return [
        Task(
            id=row.id,
            title=row.title,
            status=TaskStatus(row.status),
            **_unpacked(row.calls),
        )
        for row in await connection.execute(query)
    ]


def _packed(task: Task) -> str:
    """Return the calls of a task as JSON; a plain list if it names no tools."""
    calls = list(task.calls)
    if not task.tools:
        return json.dumps(calls)
    return json.dumps({"calls": calls, "tools": list(task.tools), "done": list(task.done)})


def _unpacked(kept: Any) -> dict[str, tuple[str, ...]]:
    kept = {"calls": kept} if isinstance(kept, list) else kept
    return {key: tuple(kept.get(key, ())) for key in ("calls", "tools", "done")}


def _row(session: str, task: Task, position: int, owner: str) -> dict[str, Any]:
    return {
        "session": session,
        "id": task.id,
        "title": task.title,
        "status": TaskStatus(task.status).value,
        "position": position,
        "calls": _packed(task),
        "updated": time.time(),
        "user": owner,
    }
