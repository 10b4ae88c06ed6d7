"""What an agent has learned, in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.approvals.session_policy import user_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.embeddings import Embedder
    from leonidas_tools.store.memories import MemoryTable

SOURCE = "agent"
"""The source of what agents have learned, among the memories of a user."""
_OWN_SOURCES = ("", SOURCE)
_MOST_LOOKED_AT = 100
"""The nearest memories, of which those read from files are left out."""
_LONGEST = 2_000


class StoredMemory:
    """Keep what an agent learns among the memories of its user, and recall what fits a task.

    The toolbox `memory` has the same memories: what the user has said is recalled for a task, and
    what an agent has learned is found by `recall`, if both use the same embeddings. What was read
    from files is left to the tool `recall`, since others may have written it and only a tool's
    result can be marked untrusted.

    Args:
        keeper: Keeps the memories, such as `store.memories`.
        embedder: Turns texts into vectors.
        limit: How many memories a task is given at most.
        least_similarity: The cosine below which a memory does not fit a task.

    Raises:
        ValueError: `limit` is below 1.

    Example:
        >>> from leonidas_tools.embeddings import LocalEmbedder
        >>> from leonidas_tools.store import Store
        >>> store = Store("agent.db")
        >>> memory = StoredMemory(store.memories, LocalEmbedder())
    """

    def __init__(
        self,
        keeper: MemoryTable,
        embedder: Embedder,
        *,
        limit: int = 5,
        least_similarity: float = 0.0,
    ) -> None:
        if limit < 1:
            raise ValueError(f"limit is 1 or more, not {limit!r}")
        self._keeper = keeper
        self._embedder = embedder
        self._limit = limit
        self._least_similarity = least_similarity

    async def recall(self, task: str, *, session: ToolSession) -> Sequence[str]:
        """Return the memories of the user that fit a task, the nearest first.

        Args:
            task: The task.
            session: The session of the run, which says who the user is.

        Raises:
            ModelError: There is no vector of the task.
            StoreError: The memories cannot be read.
        """
        user, least = user_of(session), self._least_similarity
        found = await self._keeper.recall(user, task, self._embedder, limit=_MOST_LOOKED_AT)
        texts = [
            each.text
            for each in found
            if each.source in _OWN_SOURCES and (each.similarity or 0.0) >= least
        ]
        return texts[: self._limit]

    async def learn(self, lesson: str, *, session: ToolSession) -> None:
        """Keep a lesson for the user; one that is known already is not kept twice.

        Args:
            lesson: What was learned.
            session: The session of the run.

        Raises:
            TooManyMemoriesError: The user has as many memories as are kept.
            ModelError: There is no vector of the lesson.
            StoreError: It cannot be written.
        """
        text = lesson.strip()[:_LONGEST]
        if text:
            await self._keeper.remember(user_of(session), [text], self._embedder, source=SOURCE)
