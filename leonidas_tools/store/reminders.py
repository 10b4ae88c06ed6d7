"""Reminders of users."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, insert, select, update

from leonidas_tools.calls.listeners import Listeners
from leonidas_tools.session.reminders import MAX_REMINDERS, Reminder, TooManyRemindersError
from leonidas_tools.store.recorder import owner_of
from leonidas_tools.store.schema import reminders

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import ColumnElement, Select
    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.store.database import Database

_MAX_AT_ONCE = 100


class ReminderTable:
    """Stores reminders; the user `None` means sessions without a user."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changed: Listeners[[]] = Listeners("reminders")

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after this process stores or snoozes a reminder.

        Return a function that unsubscribes it.
        """
        return self._changed.subscribe(listener)

    async def create(
        self, user: str | None, *, title: str, message: str, zone: str, start: float, rrule: str
    ) -> Reminder:
        """Store a new reminder.

        Raises:
            TooManyRemindersError: The user has the maximum number of reminders.
            StoreError: The reminder cannot be written.
        """
        owner = owner_of(user)
        reminder = Reminder(
            id=uuid.uuid4().hex[:12],
            owner=owner,
            title=title,
            message=message,
            zone=zone,
            start=start,
            rrule=rrule,
            at=start,
            due=start,
            undelivered=None,
            updated=time.time(),
        )
        async with self._database.writing() as connection:
            count = select(func.count()).select_from(reminders).where(reminders.c.user == owner)
            if (await connection.execute(count)).scalar_one() >= MAX_REMINDERS:
                raise TooManyRemindersError
            await connection.execute(insert(reminders), _row(reminder))
        self._changed.notify()
        return reminder

    async def read(self, user: str | None, reminder_id: str) -> Reminder | None:
        """Return a reminder of the user.

        Raises:
            StoreError: The reminder cannot be read.
        """
        found = await self._fetch(select(reminders).where(*_conditions_of(user, reminder_id)))
        return found[0] if found else None

    async def coming(self, user: str | None) -> list[Reminder]:
        """Return the reminders of the user that will fire, the next first.

        Raises:
            StoreError: The reminders cannot be read.
        """
        query = select(reminders).where(reminders.c.user == owner_of(user))
        return await self._fetch(query.where(reminders.c.due.is_not(None)))

    async def delete(self, user: str | None, reminder_id: str) -> Reminder | None:
        """Delete a reminder of the user, and return it.

        Raises:
            StoreError: The reminder cannot be written.
        """
        async with self._database.writing() as connection:
            where = _conditions_of(user, reminder_id)
            found = await _read(connection, select(reminders).where(*where))
            await connection.execute(delete(reminders).where(*where))
        return found[0] if found else None

    async def restore(self, reminder: Reminder) -> None:
        """Store a reminder as it was.

        Raises:
            StoreError: The reminder cannot be written.
        """
        async with self._database.writing() as connection:
            await connection.execute(delete(reminders).where(reminders.c.id == reminder.id))
            await connection.execute(insert(reminders), _row(reminder))
        self._changed.notify()

    async def snooze(self, user: str | None, reminder_id: str, due: float) -> Reminder | None:
        """Let a reminder of the user fire once at another time, and return it.

        Raises:
            StoreError: The reminder cannot be written.
        """
        async with self._database.writing() as connection:
            where = _conditions_of(user, reminder_id)
            values = {"due": due, "untold": None, "updated": time.time()}
            await connection.execute(update(reminders).where(*where).values(values))
            found = await _read(connection, select(reminders).where(*where))
        self._changed.notify()
        return found[0] if found else None

    async def due(self, now: float) -> list[Reminder]:
        """Return the reminders of all users that are due, at most 100.

        Raises:
            StoreError: The reminders cannot be read.
        """
        query = select(reminders).where(reminders.c.due <= now).limit(_MAX_AT_ONCE)
        return await self._fetch(query)

    async def next_due(self) -> float | None:
        """Return the time at which the next reminder of any user fires.

        Raises:
            StoreError: The reminders cannot be read.
        """
        async with self._database.reading() as connection:
            found = await connection.execute(select(func.min(reminders.c.due)))
            first: float | None = found.scalar_one()
            return first

    async def fire(self, reminder: Reminder, *, at: float, due: float | None) -> bool:
        """Record that a reminder has fired; return `False` if another process has fired it.

        `at` is the next time by its rule, or the last.

        Raises:
            StoreError: The reminder cannot be written.
        """
        undelivered = reminder.due if reminder.undelivered is None else reminder.undelivered
        values = {"at": at, "due": due, "untold": undelivered, "updated": time.time()}
        return await self._change_from(reminders.c.due == reminder.due, reminder, values)

    async def undelivered(self, user: str | None) -> list[Reminder]:
        """Return the reminders that have fired, but have not been delivered to the user.

        Raises:
            StoreError: The reminders cannot be read.
        """
        query = select(reminders).where(reminders.c.user == owner_of(user))
        return await self._fetch(query.where(reminders.c.untold.is_not(None)))

    async def mark_delivered(self, reminder: Reminder) -> bool:
        """Record that a reminder is delivered; return `False` if another process delivers it.

        Raises:
            StoreError: The reminder cannot be written.
        """
        values = {"untold": None, "updated": time.time()}
        return await self._change_from(reminders.c.untold == reminder.undelivered, reminder, values)

    async def forget(self, before: float) -> None:
        """Delete the delivered reminders without a next time that last changed before that time.

        Raises:
            StoreError: The database cannot be written to.
        """
        is_over = (reminders.c.due.is_(None), reminders.c.untold.is_(None))
        async with self._database.writing() as connection:
            await connection.execute(
                delete(reminders).where(*is_over, reminders.c.updated < before)
            )

    async def _change_from(
        self, state: ColumnElement[bool], reminder: Reminder, values: dict[str, Any]
    ) -> bool:
        """Change a reminder if it is still in `state`; return whether it is."""
        change = update(reminders).where(reminders.c.id == reminder.id, state).values(values)
        async with self._database.writing() as connection:
            return (await connection.execute(change)).rowcount == 1

    async def _fetch(self, query: Select[Any]) -> list[Reminder]:
        async with self._database.reading() as connection:
            return await _read(connection, query)


def _conditions_of(user: str | None, reminder_id: str) -> tuple[ColumnElement[bool], ...]:
    return reminders.c.user == owner_of(user), reminders.c.id == reminder_id


async def _read(connection: AsyncConnection, query: Select[Any]) -> list[Reminder]:
    rows = await connection.execute(query.order_by(reminders.c.due, reminders.c.id))
    return [
        Reminder(
            id=row.id,
            owner=row.user,
            title=row.title,
            message=row.message,
            zone=row.zone,
            start=row.start,
            rrule=row.rrule,
            at=row.at,
            due=row.due,
            undelivered=row.untold,
            updated=row.updated,
        )
        for row in rows
    ]


def _row(reminder: Reminder) -> dict[str, Any]:
    return {
        "id": reminder.id,
        "user": reminder.owner,
        "title": reminder.title,
        "message": reminder.message,
        "zone": reminder.zone,
        "start": reminder.start,
        "rrule": reminder.rrule,
        "at": reminder.at,
        "due": reminder.due,
        "untold": reminder.undelivered,
        "updated": reminder.updated,
    }
