"""Memories of a user, and the access of a session to their table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from leonidas_tools.errors import LeonidasError
from leonidas_tools.session.table_access import TableAccess

if TYPE_CHECKING:
    from leonidas_tools.store.memories import MemoryTable

MOST_MEMORIES = 200_000
"""The memories of one user."""


class TooManyMemoriesError(LeonidasError):
    """Raised when a user has as many memories as are kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """A text that is found again by its meaning.

    Args:
        id: Identifies it among all memories.
        text: The text.
        source: The file that it was read from; empty for what was said.
        created: The time of its creation, in seconds since the epoch.
        similarity: The cosine to what was asked, where it was found by that.
    """

    id: str
    text: str
    source: str = ""
    created: float
    similarity: float | None = None


_Table: TypeAlias = "MemoryTable"


class Memories(TableAccess[_Table]):
    """The memories that a session reaches."""

    missing = "memories_need_store"
