"""Memories of a user, and the access of a session to their table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from leonidas_tools.errors import LeonidasError
from leonidas_tools.session.table_access import TableAccess

if TYPE_CHECKING:
    from leonidas_tools.store.memories import MemoryTable

MAX_MEMORIES = 200_000
"""Maximum number of memories of one user."""


class TooManyMemoriesError(LeonidasError):
    """Raised when a user would have too many memories."""


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


_Table: TypeAlias = "MemoryTable"


class Memories(TableAccess[_Table]):
    """The access of a session to memories."""

    missing = "memories_need_store"
