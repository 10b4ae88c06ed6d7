"""Notes of a user, and the access of a session to their table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.session.table_access import TableAccess

if TYPE_CHECKING:
    from leonidas_tools.store.notes import NoteTable

MAX_NOTES = 10_000
"""Maximum number of notes of one user."""


class TooManyNotesError(Exception):
    """Raised when a user has the maximum number of notes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A note of a user."""

    id: str
    title: str
    text: str
    tags: tuple[str, ...] = ()  # sorted, in lower case
    created: float  # in seconds since the epoch, like `updated`
    updated: float

    def to_json(self) -> dict[str, Any]:
        """Return the note as plain JSON."""
        return {**asdict(self), "tags": list(self.tags)}


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundNotes:
    """The notes of a user that match a query, up to a limit."""

    notes: tuple[Note, ...]  # the best or latest first
    total: int  # the number of all matching notes


_Table: TypeAlias = "NoteTable"


class Notes(TableAccess[_Table]):
    """The access of a session to notes."""

    missing = "notes_need_store"
