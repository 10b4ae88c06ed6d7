"""Reminders of users, and the keeper that a session has for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from leonidas_tools.errors import ToolError
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_REMINDERS = 500
"""The reminders of one user."""


class TooManyRemindersError(Exception):
    """Raised when a user has as many reminders as are kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reminder:
    """A reminder of a user; times are seconds since the epoch.

    Args:
        id: Identifies it among all reminders.
        owner: The user, as the store names him.
        title: A few words.
        message: What else to say.
        zone: The time zone in which it repeats.
        start: The first time.
        rrule: The rule by which it repeats; empty for once.
        at: The time by the rule that comes next, or came last.
        due: The time at which it fires next: that time, or later where it is snoozed; `None` where
            none is left.
        untold: The time of the first firing that its user has not been told of; `None` where he
            knows of all.
        updated: The time of its last change.
    """

    id: str
    owner: str
    title: str
    message: str
    zone: str
    start: float
    rrule: str
    at: float
    due: float | None
    untold: float | None
    updated: float


class ReminderKeeper(Protocol):
    """Keeps reminders; `None` for a user stands for sessions without one."""

    async def create(
        self, user: str | None, *, title: str, message: str, zone: str, start: float, rrule: str
    ) -> Reminder:
        """Keep a new reminder."""

    async def read(self, user: str | None, reminder_id: str) -> Reminder | None:
        """Return a reminder of the user."""

    async def coming(self, user: str | None) -> list[Reminder]:
        """Return the reminders of the user that will fire, the next first."""

    async def delete(self, user: str | None, reminder_id: str) -> Reminder | None:
        """Delete a reminder of the user, and return it."""

    async def restore(self, reminder: Reminder) -> None:
        """Keep a reminder as it was."""

    async def snooze(self, user: str | None, reminder_id: str, due: float) -> Reminder | None:
        """Have a reminder of the user fire at another time, this once."""

    async def due(self, now: float) -> list[Reminder]:
        """Return the reminders of all users that are to fire."""

    async def next_due(self) -> float | None:
        """Return the time of the next firing of all."""

    async def fire(self, reminder: Reminder, *, at: float, due: float | None) -> bool:
        """Note a firing; `False` where another process has fired it."""

    async def untold(self, user: str | None) -> list[Reminder]:
        """Return the reminders that have fired, and that the user has not been told of."""

    async def tell(self, reminder: Reminder) -> bool:
        """Note that the user is told; `False` where another process tells him."""

    async def forget(self, before: float) -> None:
        """Delete reminders that were over and told before that time."""

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call back when a reminder is created or snoozed here."""


class Reminders:
    """The reminders that a session reaches: those of a store, where it has one."""

    def __init__(self) -> None:
        self.store: ReminderKeeper | None = None

    @property
    def keeper(self) -> ReminderKeeper:
        """Return the keeper of reminders.

        Raises:
            ToolError: The session has no store.
        """
        if self.store is None:
            said = say("reminders_need_store")
            raise ToolError(said, status="unavailable", reason_code="no_store")
        return self.store
