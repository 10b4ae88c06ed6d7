"""A processor whose calls belong to one conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.processors import stream
from leonidas_tools.processors.stage import Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from genai_processors import processor
    from genai_processors.content_api import ProcessorPart

    from leonidas_tools.calls.call import ToolSession


class InSession(Stage):
    """The tools for one conversation.

    Args:
        tools: What answers function calls.
        session: The conversation.
    """

    def __init__(self, tools: processor.Processor, session: ToolSession) -> None:
        self._tools = tools
        self._session = session

    async def call(self, content: processor.ProcessorStream) -> AsyncIterable[ProcessorPart]:
        """Parts in, parts out."""
        with stream.shared(session=self._session):
            async for part in self._tools(content):
                yield part
