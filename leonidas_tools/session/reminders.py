"""Reminders of users, and the access of a session to their table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from leonidas_tools.session.table_access import TableAccess

if TYPE_CHECKING:
    from leonidas_tools.store.reminders import ReminderTable

MOST_REMINDERS = 500
"""The reminders of one user."""


class TooManyRemindersError(Exception):
    """Raised when a user has as many reminders as are kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reminder:
    """A reminder of a user; times are seconds since the epoch."""

    id: str
    owner: str  # the user, as the store names him
    title: str
    message: str
    zone: str
    start: float  # the first time
    rrule: str  # empty for once
    at: float  # the time by the rule that comes next, or came last
    # when it fires next: `at`, or later where it is snoozed; `None` where none is left
    due: float | None
    # its first firing that the user has not been told of; `None` where he knows of all
    untold: float | None
    updated: float


_Table: TypeAlias = "ReminderTable"


class Reminders(TableAccess[_Table]):
    """The reminders that a session reaches."""

    missing = "reminders_need_store"
