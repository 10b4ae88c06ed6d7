"""What an agent has learned, in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.approvals.session_policy import user_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.embeddings import Embedder
    from leonidas_tools.session.memories import MemoryKeeper

SOURCE = "agent"
"""The source of what agents have learned, among the memories of a user."""
_LONGEST = 2_000


class StoredMemory:
    """Keep what an agent learns among the memories of its user, and recall what fits a task.

    The toolbox `memory` has the same memories: what the user has said is recalled for a task, and
    what an agent has learned is found by `recall`, if both use the same embeddings.

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
        keeper: MemoryKeeper,
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
        found = await self._keeper.recall(user_of(session), task, self._embedder, limit=self._limit)
        return [each.text for each in found if (each.similarity or 0.0) >= self._least_similarity]

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
