"""Tools as Gemini declares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
        parameters_json_schema=without_const(tool.declared_parameters[0]),
        behavior=None if behavior is None else types.Behavior(behavior.value),
    )


def without_const(schema: Any) -> Any:
    """The schema with each `const` as an `enum` of one, which is what Gemini knows.

    Source: the keywords listed at https://ai.google.dev/gemini-api/docs/structured-output.

    Example:
        >>> without_const({"properties": {"kind": {"const": "cat"}}})
        {'properties': {'kind': {'enum': ['cat']}}}
    """
    if isinstance(schema, list):
        return [without_const(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        "enum" if key == "const" else key: [value] if key == "const" else _inside(key, value)
        for key, value in schema.items()
    }


def _inside(key: str, value: Any) -> Any:
    """What stands under a keyword: values are no schemas, and properties may be named `const`."""
    if key in ("enum", "default", "examples"):
        return value
    if key in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
        return {name: without_const(schema) for name, schema in value.items()}
    return without_const(value)
