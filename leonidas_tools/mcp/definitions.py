"""An MCP tool's definition → `Tool`."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.calls import ToolResult
from leonidas_tools.context import ToolContext
from leonidas_tools.errors import SchemaError
from leonidas_tools.tool import Tool, ToolCategory, ToolEffect, ToolOrigin

if TYPE_CHECKING:
    import mcp_types

logger = logging.getLogger(__name__)

_SLICE = 64
"""How many schemas are read before the loop gets a turn: each takes some 50 microseconds."""

AnyTool: TypeAlias = Tool[..., Any]
CallTool: TypeAlias = Callable[
    [str, Mapping[str, Any], ToolContext, ToolEffect], Awaitable[ToolResult]
]
"""Calls a tool of a server: its name, its arguments, the context and its effect."""


class Definitions:
    """The tools of one server; one whose definition is the same stays the same `Tool`.

    Args:
        server: The server's name.
        call: How its tools are called.
    """

    def __init__(self, server: str, call: CallTool) -> None:
        self._server = server
        self._call = call
        self._known: dict[str, tuple[mcp_types.Tool, AnyTool | None]] = {}

    async def read(self, definitions: Iterable["mcp_types.Tool"]) -> list[AnyTool]:
        """The tools that can be used; the others are skipped with a warning."""
        known: dict[str, tuple[mcp_types.Tool, AnyTool | None]] = {}
        for definition in definitions:
            name = definition.name
            if len(known) % _SLICE == 0:
                await asyncio.sleep(0)
            if name in known:
                logger.warning("MCP server %r lists %r twice; the first counts", self._server, name)
                continue
            before = self._known.get(name)
            known[name] = (
                before
                if before is not None and before[0] == definition
                else (definition, self._made(definition))
            )
        self._known = known
        return [tool for _, tool in known.values() if tool is not None]

    def _made(self, definition: "mcp_types.Tool") -> AnyTool | None:
        try:
            return self._tool(definition)
        except SchemaError as error:
            logger.warning(
                "MCP server %r: the tool %r is left out: %s", self._server, definition.name, error
            )
            return None

    def _tool(self, definition: "mcp_types.Tool") -> AnyTool:
        name, effect, call = definition.name, _effect(definition.annotations), self._call

        # The parameter's name is one that no MCP tool has an argument of.
        async def run(leonidas_tool_context: ToolContext, **arguments: Any) -> ToolResult:
            return await call(name, arguments, leonidas_tool_context, effect)

        return Tool.from_json_schema(
            name=name,
            description=definition.description or definition.title or "",
            parameters=definition.input_schema,
            function=run,
            category=ToolCategory.MCP,
            effect=effect,
            lane=f"mcp:{self._server}",
            tags=("mcp", self._server),
            origin=ToolOrigin(server=self._server, tool=name),
        )


def _effect(annotations: "mcp_types.ToolAnnotations | None") -> ToolEffect:
    """What a call changes, as far as the server says."""
    if annotations is None:
        return ToolEffect.ONCE
    if annotations.read_only_hint:
        return ToolEffect.READ
    return ToolEffect.IDEMPOTENT if annotations.idempotent_hint else ToolEffect.ONCE
