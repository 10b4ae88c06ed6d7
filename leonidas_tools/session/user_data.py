"""Store the memories, notes and reminders of a user, and access them from a session."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from leonidas_tools.errors import LeonidasError, ToolError
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from leonidas_tools.store.memories import MemoryTable
    from leonidas_tools.store.notes import NoteTable
    from leonidas_tools.store.reminders import ReminderTable

T = TypeVar("T")

MAX_MEMORIES, MAX_NOTES, MAX_REMINDERS = 200_000, 10_000, 500
"""Maximum numbers for one user."""


class TooManyEntriesError(LeonidasError):
    """Raised when a user would have too many memories, notes or reminders."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """A text that is found by its meaning.

    Args:
        id: The id of the memory.
        text: The text.
        source: The file that the text was read from; empty if a user said it.
        created: The time of its creation, in seconds since the epoch.
        similarity: The cosine similarity to the query; `None` if there was no query.
    """

    id: str
    text: str
    source: str = ""
    created: float
    similarity: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A note of a user."""

    id: str
    title: str
    text: str
    tags: tuple[str, ...] = ()  # sorted, in lower case
    created: float  # in seconds since the epoch, like `updated`
    updated: float


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundNotes:
    """The notes of a user that match a query, up to a limit."""

    notes: tuple[Note, ...]  # the best or latest first
    total: int  # the number of all matching notes


@dataclass(frozen=True, kw_only=True, slots=True)
class Reminder:
    """A reminder of a user; times are seconds since the epoch."""

    id: str
    user: str  # in the form of `Execution.user`
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


class UserData:
    """The tables with the data of a session's user; `None` if the session has no store."""

    def __init__(self) -> None:
        self.memories: MemoryTable | None = None
        self.notes: NoteTable | None = None
        self.reminders: ReminderTable | None = None


def require_table(table: T | None, missing: str) -> T:
    """Return the table; raise `ToolError` with the text of that key if there is none."""
    if table is None:
        raise ToolError(say(missing), status="unavailable", reason_code="no_store")
    return table
