"""Memories of a user, and the keeper that a session has for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from leonidas_tools.errors import LeonidasError, ToolError
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.embeddings import Embedder

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


class MemoryKeeper(Protocol):
    """Keeps memories; `None` for a user stands for sessions without one."""

    async def remember(
        self,
        user: str | None,
        texts: Sequence[str],
        embedder: Embedder,
        *,
        source: str = "",
        created: float | None = None,
    ) -> list[Memory]:
        """Keep texts; one that is known already is not kept twice."""

    async def recall(
        self, user: str | None, query: str, embedder: Embedder, *, limit: int = 10
    ) -> list[Memory]:
        """Return the memories of the user that are nearest to a query, the nearest first."""

    async def forget(self, user: str | None, memory_id: str) -> Memory | None:
        """Delete a memory of the user, and return it."""

    async def forget_source(self, user: str | None, source: str) -> int:
        """Delete all memories of the user that were read from a file; return how many."""

    async def sources(self, user: str | None, embedder: Embedder) -> dict[str, float]:
        """Return the files that memories of the user were read from, and when each was read."""


class Memories:
    """The memories that a session reaches: those of a store, where it has one."""

    def __init__(self) -> None:
        self.store: MemoryKeeper | None = None

    @property
    def keeper(self) -> MemoryKeeper:
        """Return the keeper of memories.

        Raises:
            ToolError: The session has no store.
        """
        if self.store is None:
            said = say("memories_need_store")
            raise ToolError(said, status="unavailable", reason_code="no_store")
        return self.store
