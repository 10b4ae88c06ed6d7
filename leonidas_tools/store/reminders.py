"""Reminders of users."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, select, update

from leonidas_tools.calls.listeners import Listeners
from leonidas_tools.session.user_data import MAX_REMINDERS, Reminder
from leonidas_tools.store.recorder import owner_of
from leonidas_tools.store.schema import reminders
from leonidas_tools.store.user_table import UserTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import ColumnElement, Select

    from leonidas_tools.store.database import Database

_MAX_AT_ONCE = 100


class ReminderTable(UserTable[Reminder]):
    """Stores reminders."""

    table, entry, max_entries = reminders, Reminder, MAX_REMINDERS

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._changed: Listeners[[]] = Listeners("reminders")

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after this process stores or snoozes a reminder.

        Return a function that unsubscribes it.
        """
        return self._changed.subscribe(listener)

    async def create(
        self, user: str | None, *, title: str, message: str, zone: str, start: float, rrule: str
    ) -> Reminder:
        """Store a new reminder; raise `TooManyEntriesError` if the user has too many."""
        reminder = Reminder(
            id=uuid.uuid4().hex[:12],
            user=owner_of(user),
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
            await self._add(connection, user, reminder)
        self._changed.notify()
        return reminder

    async def restore(self, user: str | None, entry: Reminder) -> None:
        """Store a reminder as it was, even if it was changed or deleted since."""
        await super().restore(user, entry)
        self._changed.notify()

    async def coming(self, user: str | None) -> list[Reminder]:
        """Return the reminders of the user that will fire, the next first."""
        query = select(reminders).where(reminders.c.user == owner_of(user))
        return await self._list(query.where(reminders.c.due.is_not(None)))

    async def snooze(self, user: str | None, reminder_id: str, due: float) -> Reminder | None:
        """Let a reminder of the user fire once at another time, and return it."""
        async with self._database.writing() as connection:
            values = {"due": due, "undelivered": None, "updated": time.time()}
            where = self._where(user, reminder_id)
            await connection.execute(update(reminders).where(*where).values(values))
            found = await self._find(connection, user, reminder_id)
        self._changed.notify()
        return found

    async def due(self, now: float) -> list[Reminder]:
        """Return the reminders of all users that are due, at most 100."""
        query = select(reminders).where(reminders.c.due <= now).limit(_MAX_AT_ONCE)
        return await self._list(query)

    async def next_due(self) -> float | None:
        """Return the time at which the next reminder of any user fires."""
        async with self._database.reading() as connection:
            found = await connection.execute(select(func.min(reminders.c.due)))
            first: float | None = found.scalar_one()
            return first

    async def fire(self, reminder: Reminder, *, at: float, due: float | None) -> bool:
        """Record that a reminder has fired; return `False` if another process has fired it.

        `at` is the next time by its rule, or the last.
        """
        undelivered = reminder.due if reminder.undelivered is None else reminder.undelivered
        values = {"at": at, "due": due, "undelivered": undelivered, "updated": time.time()}
        return await self._change_from(reminders.c.due == reminder.due, reminder, values)

    async def undelivered(self, user: str | None) -> list[Reminder]:
        """Return the reminders that have fired, but have not been delivered to the user."""
        query = select(reminders).where(reminders.c.user == owner_of(user))
        return await self._list(query.where(reminders.c.undelivered.is_not(None)))

    async def mark_delivered(self, reminder: Reminder) -> bool:
        """Record that a reminder is delivered; return `False` if another process delivers it."""
        values = {"undelivered": None, "updated": time.time()}
        return await self._change_from(
            reminders.c.undelivered == reminder.undelivered, reminder, values
        )

    async def forget(self, before: float) -> None:
        """Delete the delivered reminders without a next time that last changed before that time."""
        is_over = (reminders.c.due.is_(None), reminders.c.undelivered.is_(None))
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

    async def _list(self, query: Select[Any]) -> list[Reminder]:
        async with self._database.reading() as connection:
            return await self._fetch(connection, query.order_by(reminders.c.due, reminders.c.id))
