"""Search for tools that are not declared to the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from leonidas_tools.calls.call import ToolResult
from leonidas_tools.calls.context import ToolContext
from leonidas_tools.results.texts import say
from leonidas_tools.tools.preferred import PreferredTools
from leonidas_tools.tools.registry import AnyTool, ToolRegistry
from leonidas_tools.tools.tool import tool


class ToolSearch:
    """Finds tools that are not declared to the model, and declares them in the session."""

    def __init__(self, registry: ToolRegistry, can_be_called: Callable[[AnyTool], bool]) -> None:
        self._registry = registry
        self._can_be_called = can_be_called

    @tool(category="system", effect="read")
    async def find_tools(
        self, ctx: ToolContext, query: str, limit: Annotated[int, Field(ge=1, le=20)] = 5
    ) -> ToolResult:
        """Find more tools: there are many that are not shown. Those found can be called then.

        Args:
            query: What is to be done, in a few English words.
            limit: How many to find at most.
        """
        found = [
            each
            for each in self._registry.search(query, limit=len(self._registry))
            if self._can_be_called(each)
        ][:limit]
        if not found:
            return ToolResult.no_results(say("no_tool_found"))
        ctx.session.get(PreferredTools).prefer(each.name for each in found)
        shown: list[dict[str, Any]] = [
            {
                "name": self._registry.declared_name(each.name),
                "description": each.metadata.description,
            }
            for each in found
        ]
        return ToolResult(result=shown)
