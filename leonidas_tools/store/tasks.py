"""The agent's task lists."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, or_, select, update

from leonidas_tools.errors import StoreError
from leonidas_tools.session.tasks import Task, TaskStatus
from leonidas_tools.store.schema import tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.store.database import Database
    from leonidas_tools.store.write_queue import Write


class TaskTable:
    """Stores a list of tasks for each session."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, session: str, *, user: str | None = None) -> list[Task]:
        """Return the tasks of a session, in order.

        Args:
            session: The id of the session.
            user: Only tasks of this user, or without a user; `None` for all.

        Raises:
            StoreError: The tasks cannot be read.
        """
        async with self._database.reading() as connection:
            return await _read(connection, session, user)

    async def write(self, session: str, list_: Sequence[Task], *, user: str | None = None) -> None:
        """Replace all tasks of a session.

        Args:
            session: The id of the session.
            list_: The tasks, in order, with unique ids.
            user: The owner of the tasks.

        Raises:
            StoreError: The tasks cannot be written.
        """
        async with self._database.writing() as connection:
            await self.writing(session, list_, user=user)(connection)

    def writing(self, session: str, list_: Sequence[Task], *, user: str | None) -> Write:
        """Return the write that replaces all tasks of a session."""
        rows = [_row(session, task, position, user) for position, task in enumerate(list_)]

        async def write(connection: AsyncConnection) -> None:
            await connection.execute(delete(tasks).where(tasks.c.session == session))
            if rows:
                await connection.execute(insert(tasks), rows)

        return write

    async def change(
        self,
        session: str,
        task_id: str,
        *,
        title: str | None = None,
        status: TaskStatus | None = None,
        call: str | None = None,
    ) -> list[Task]:
        """Change one task.

        Args:
            session: The id of the session.
            task_id: The id of the task.
            title: The new title; by default unchanged.
            status: The new status; by default unchanged.
            call: The trace id of a call to add to the task.

        Returns:
            All tasks of the session, in order.

        Raises:
            StoreError: There is no such task, or it cannot be written.
        """
        async with self._database.writing() as connection:
            list_ = await _read(connection, session)
            task = next((task for task in list_ if task.id == task_id), None)
            if task is None:
                known = ", ".join(repr(task.id) for task in list_) or "none"
                raise StoreError(
                    f"There is no task {task_id!r} in {session!r}; known tasks: {known}"
                )
            calls = task.calls if call is None or call in task.calls else [*task.calls, call]
            packed = _packed(replace(task, calls=calls))
            values: dict[str, Any] = {"calls": packed, "updated": time.time()}
            values |= {} if title is None else {"title": title}
            values |= {} if status is None else {"status": TaskStatus(status).value}
            where = (tasks.c.session == session, tasks.c.id == task_id)
            await connection.execute(update(tasks).where(*where).values(values))
            return await _read(connection, session)


async def _read(connection: AsyncConnection, session: str, user: str | None = None) -> list[Task]:
    query = select(tasks).where(tasks.c.session == session).order_by(tasks.c.position)
    if user is not None:
        query = query.where(or_(tasks.c.user == user, tasks.c.user.is_(None)))
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


def _unpacked(text: str) -> dict[str, tuple[str, ...]]:
    kept = json.loads(text)
    kept = {"calls": kept} if isinstance(kept, list) else kept
    return {key: tuple(kept.get(key, ())) for key in ("calls", "tools", "done")}


def _row(session: str, task: Task, position: int, user: str | None) -> dict[str, Any]:
    return {
        "session": session,
        "id": task.id,
        "title": task.title,
        "status": TaskStatus(task.status).value,
        "position": position,
        "calls": _packed(task),
        "updated": time.time(),
        "user": user,
    }
