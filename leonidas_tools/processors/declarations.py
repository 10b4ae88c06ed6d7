"""Tools as Gemini declares them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.genai import types

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leonidas_tools.registry import AnyTool, ToolRegistry
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.tool import ToolBehavior


def declare(
    registry: ToolRegistry, tools: Iterable[AnyTool], settings: Settings
) -> list[types.Tool]:
    """The declarations for a Live setup: one `types.Tool` with all of them, or none.

    Args:
        registry: Knows the legal names.
        tools: The tools to declare.
        settings: May change a description or a behavior.
    """
    declared = [_declaration(registry, tool, settings) for tool in tools]
    return [types.Tool(function_declarations=declared)] if declared else []


def _declaration(
    registry: ToolRegistry, tool: AnyTool, settings: Settings
) -> types.FunctionDeclaration:
    own, configured = tool.metadata, settings.for_tool(tool.name)
    behavior: ToolBehavior | None = configured.behavior or own.behavior
    return types.FunctionDeclaration(
        name=registry.declared_name(own.name),
        description=configured.description or own.description,
        parameters_json_schema=dict(tool.declared_parameters[0]),
        behavior=None if behavior is None else types.Behavior(behavior.value),
    )
