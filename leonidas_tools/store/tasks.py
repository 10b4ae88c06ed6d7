"""The agent's task lists."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select, update

from leonidas_tools.errors import StoreError
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
    """Stores a list of tasks for each session of each user."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, session: str, *, user: str | None = None) -> list[Task]:
        """Return the tasks of a session, in order.

        Raises:
            StoreError: The tasks cannot be read.
        """
        async with self._database.reading() as connection:
            return await _read(connection, *_of(session, user))

    async def find(self, session: str, *, user: str | None = None) -> list[Task]:
        """Return the tasks of all sessions with an id, those of each user in order.

        `user` has the form of `Execution.user`.

        Raises:
            StoreError: The tasks cannot be read.
        """
        where = [tasks.c.session == session]
        if user is not None:
            where.append(tasks.c.user == user)
        async with self._database.reading() as connection:
            return await _read(connection, *where)

    async def write(self, session: str, list_: Sequence[Task], *, user: str | None = None) -> None:
        """Replace all tasks of a session.

        Raises:
            StoreError: The tasks cannot be written.
        """
        async with self._database.writing() as connection:
            await self.writing(session, list_, user=user)(connection)

    def writing(self, session: str, list_: Sequence[Task], *, user: str | None) -> Write:
        """Return the write that replaces all tasks of a session."""
        owner = owner_of(user)
        rows = [_row(session, task, position, owner) for position, task in enumerate(list_)]

        async def write(connection: AsyncConnection) -> None:
            await connection.execute(delete(tasks).where(*_of(session, user)))
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
        user: str | None = None,
    ) -> list[Task]:
        """Change one task, and return all tasks of the session, in order.

        Arguments that are `None` change nothing; `call` is added to the calls of the task.

        Raises:
            StoreError: There is no such task, or it cannot be written.
        """
        async with self._database.writing() as connection:
            of_session = _of(session, user)
            list_ = await _read(connection, *of_session)
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
            one = update(tasks).where(*of_session, tasks.c.id == task_id)
            await connection.execute(one.values(values))
            return await _read(connection, *of_session)


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
