"""Notes of a user, and the access of a session to their table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.session.table_access import TableAccess

if TYPE_CHECKING:
    from leonidas_tools.store.notes import NoteTable

MOST_NOTES = 10_000
"""The notes of one user."""


class TooManyNotesError(Exception):
    """Raised when a user has as many notes as are kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A note of a user."""

    id: str
    title: str
    text: str
    tags: tuple[str, ...] = ()  # sorted, in lower case
    created: float  # in seconds since the epoch, as the next
    updated: float

    def to_json(self) -> dict[str, Any]:
        """Return the note as plain JSON."""
        return {**asdict(self), "tags": list(self.tags)}


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundNotes:
    """Some notes of a user."""

    notes: tuple[Note, ...]  # the best or latest first
    total: int  # of all notes that fit


_Table: TypeAlias = "NoteTable"


class Notes(TableAccess[_Table]):
    """The notes that a session reaches."""

    missing = "notes_need_store"
