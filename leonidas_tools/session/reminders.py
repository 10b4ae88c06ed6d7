"""Reminders of users, and the keeper that a session has for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from leonidas_tools.session.kept import Kept

if TYPE_CHECKING:
    from leonidas_tools.store.reminders import ReminderTable

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


_Table: TypeAlias = "ReminderTable"


class Reminders(Kept[_Table]):
    """The reminders that a session reaches."""

    missing = "reminders_need_store"
