"""`ToolChoice`: choose the few tools relevant to a task from very many tools."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from leonidas_tools.tools.relevance import Relevance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.embeddings import Embedder
    from leonidas_tools.embeddings.embedder import Vectors
    from leonidas_tools.runtime.declared import Declaration

_SEPARATORS = re.compile(r"[._/\-]+")
_MAX_LENGTH = 1_000
_RANKED = 100
_EVEN = 30.0
"""Constant of the reciprocal rank fusion: the lower, the more the first ranks count."""
_WORDS = 0.3
"""Weight of the ranking by words, relative to the ranking by meaning."""


class ToolChoice:
    """Chooses the tools that are relevant to an intent, by meaning and by words.

    Tools are compared by their names and descriptions. Their vectors are computed once, and kept
    as long as this object.

    Args:
        embedder: Turns texts into vectors.
        most: The number of tools to choose.

    Raises:
        ValueError: `most` is below 1.

    Example:
        >>> from leonidas_tools import ToolRuntime, tool
        >>> from leonidas_tools.embeddings import LocalEmbedder
        >>> @tool(effect="read")
        ... def forecast(city: str) -> str:
        ...     '''Weather of the next days.'''
        >>> @tool
        ... def transfer(amount: int) -> str:
        ...     '''Send money to somebody.'''
        >>> tools = ToolRuntime([forecast, transfer], builtin_tools=False).declared()
        >>> choice = ToolChoice(LocalEmbedder(), most=1)
        >>> [each.name for each in asyncio.run(choice.choose("Will it rain?", tools))]
        ['forecast']
    """

    def __init__(self, embedder: Embedder, *, most: int = 10) -> None:
        if most < 1:
            raise ValueError(f"most must be 1 or more, not {most!r}")
        self._embedder = embedder
        self.most = most
        self._vectors: dict[str, Any] = {}

    async def prepare(self, tools: Sequence[Declaration]) -> None:
        """Compute the vectors of tools before the first choice.

        Args:
            tools: The tools.

        Raises:
            ModelError: The texts cannot be embedded; the error says why.
        """
        texts = dict.fromkeys(_text(tool) for tool in tools)
        new = [text for text in texts if text not in self._vectors]
        if new:
            made = await self._embedder.embed(new, "passage")
            self._vectors |= zip(new, made, strict=True)

    async def choose(self, intent: str, tools: Sequence[Declaration]) -> Sequence[Declaration]:
        """Return the most relevant tools, in the given order.

        Args:
            intent: The task, in words.
            tools: The tools to choose from.

        Raises:
            ModelError: The texts cannot be embedded; the error says why.
        """
        if len(tools) <= self.most:
            return tools
        await self.prepare(tools)
        vectors = [self._vectors[_text(tool)] for tool in tools]
        asked = await self._embedder.embed([intent], "query")
        chosen = await asyncio.to_thread(self._best, intent, tools, vectors, asked)
        return [tool for tool in tools if tool.name in chosen]

    def _best(
        self, intent: str, tools: Sequence[Declaration], vectors: Sequence[Any], asked: Vectors
    ) -> set[str]:
        similar = [float(vector @ asked[0]) for vector in vectors]
        order = sorted(range(len(tools)), key=similar.__getitem__, reverse=True)
        by_words = Relevance({tool.name: ("", tool.description) for tool in tools})
        scores: dict[str, float] = defaultdict(float)
        ranked = [tools[at].name for at in order]
        for weight, names in ((1.0, ranked), (_WORDS, by_words.best(intent))):
            for place, name in enumerate(names[:_RANKED]):
                scores[name] += weight / (_EVEN + place)
        return set(sorted(scores, key=scores.__getitem__, reverse=True)[: self.most])


def _text(tool: Declaration) -> str:
    """Return the name and description of a tool; its parameters would not improve the choice."""
    return f"{_SEPARATORS.sub(' ', tool.name)}: {tool.description}"[:_MAX_LENGTH]
