"""Lessons of agents in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.approvals.session_policy import user_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.embeddings import Embedder
    from leonidas_tools.store.memories import MemoryTable

SOURCE = "agent"
"""The source of memories that agents have learned."""
_OWN_SOURCES = ("", SOURCE)
_MAX_LOOKED_AT = 100
"""Number of nearest memories to read, before those read from files are left out."""
_MAX_LENGTH = 2_000


class StoredMemory:
    """Keeps the lessons of an agent among the memories of its user, and recalls them for a task.

    The toolbox `memory` uses the same memories, if its embeddings are the same. A task recalls
    what the user has asked to remember, and the tool `recall` finds the lessons of agents. Only
    `recall` returns text read from files: others may have written it, and only the result of a
    tool can be marked untrusted.

    Args:
        keeper: The table of memories, such as `store.memories`.
        embedder: Turns texts into vectors.
        limit: The maximum number of memories for a task.
        least_similarity: The minimum cosine similarity of a memory to the task.

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
            raise ValueError(f"limit must be 1 or more, not {limit!r}")
        self._keeper = keeper
        self._embedder = embedder
        self._limit = limit
        self._least_similarity = least_similarity

    async def recall(self, task: str, *, session: ToolSession) -> Sequence[str]:
        """Return the memories of the user that are relevant to a task, the nearest first.

        Args:
            task: The task.
            session: The session of the run, which has the user.

        Raises:
            ModelError: The task cannot be embedded.
            StoreError: The memories cannot be read.
        """
        user, least = user_of(session), self._least_similarity
        found = await self._keeper.recall(user, task, self._embedder, limit=_MAX_LOOKED_AT)
        texts = [
            each.text
            for each in found
            if each.source in _OWN_SOURCES and (each.similarity or 0.0) >= least
        ]
        return texts[: self._limit]

    async def learn(self, lesson: str, *, session: ToolSession) -> None:
        """Keep a lesson for the user; do not keep a known lesson twice.

        Args:
            lesson: The lesson.
            session: The session of the run.

        Raises:
            TooManyMemoriesError: The user already has the maximum number of memories.
            ModelError: The lesson cannot be embedded.
            StoreError: The lesson cannot be written.
        """
        text = lesson.strip()[:_MAX_LENGTH]
        if text:
            await self._keeper.remember(user_of(session), [text], self._embedder, source=SOURCE)
