"""Reminders of users, and the access of a session to their table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from leonidas_tools.session.table_access import TableAccess

if TYPE_CHECKING:
    from leonidas_tools.store.reminders import ReminderTable

MAX_REMINDERS = 500
"""Maximum number of reminders of one user."""


class TooManyRemindersError(Exception):
    """Raised when a user has the maximum number of reminders."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reminder:
    """A reminder of a user; times are seconds since the epoch."""

    id: str
    owner: str  # the user, in the form of `Execution.user`
    title: str
    message: str
    zone: str
    start: float  # the first time
    rrule: str  # empty for once
    at: float  # the time by the rule that comes next, or came last
    # the next firing: `at`, or the time it is snoozed to; `None` if there is none
    due: float | None
    # the first firing that was not delivered to the user; `None` if all were
    undelivered: float | None
    updated: float


_Table: TypeAlias = "ReminderTable"


class Reminders(TableAccess[_Table]):
    """The access of a session to reminders."""

    missing = "reminders_need_store"
