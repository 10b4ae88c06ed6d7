"""Ours: `GeminiLiveProcessor` in a `LiveToolSession`, with its defaults."""

from collections.abc import AsyncGenerator, AsyncIterable
from typing import Self

from genai_processors import processor

from leonidas_tools import AdvancedToolProcessor, GeminiLiveProcessor, LiveToolSession, Tool
from leonidas_tools.live.live_events import LIVE_EVENT
from tests.benchmarks.adapter import Part
from tests.benchmarks.live.agent import MODEL, Brief

_SETTLE_SECONDS = 0.05


class Ours:
    """Our session around a model, which is our connection unless `_model` makes another."""

    def __init__(self, brief: Brief) -> None:
        self._brief = brief
        tools = [
            Tool(function, name=name, effect="read", behavior="NON_BLOCKING")
            for name, function in brief.functions.items()
        ]
        self.tools = AdvancedToolProcessor(tools=tools, config=brief.config, builtin_tools=False)

    async def __aenter__(self) -> Self:
        await self.tools.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.tools.__aexit__(None, None, None)

    async def talk(self, says: AsyncIterable[Part]) -> AsyncGenerator[bytes, None]:
        """One conversation."""
        agent = LiveToolSession(self._model(), self.tools, settle_seconds=_SETTLE_SECONDS)
        async for part in agent(says):
            blob = part.part.inline_data
            if blob is not None:
                yield blob.data or b""
            elif part.metadata.get(LIVE_EVENT) and "connection_lost" in part.text:
                self._brief.lost()

    def _model(self) -> processor.Processor:
        return GeminiLiveProcessor(MODEL, tools=self.tools)


def make(brief: Brief) -> Ours:
    """Our agent."""
    return Ours(brief)
