"""Tools as Gemini declares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from google.genai import types

from leonidas_tools.redaction import is_marked, without_presets

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping

    from leonidas_tools.settings.models import Settings
    from leonidas_tools.tools.registry import AnyTool, ToolRegistry
    from leonidas_tools.tools.tool import ToolBehavior


def declare(
    registry: ToolRegistry,
    tools: Iterable[AnyTool],
    settings: Settings,
    schemas: MutableMapping[AnyTool, Any],
) -> list[types.Tool]:
    """The declarations for a Live setup: one `types.Tool` with all of them, or none.

    Args:
        registry: Knows the legal names.
        tools: The tools to declare.
        settings: May change a description or a behavior.
        schemas: The schemas that were written before, by tool; a tool never changes its own.
    """
    declared = [_declaration(registry, tool, settings, schemas) for tool in tools]
    return [types.Tool(function_declarations=declared)] if declared else []


def _declaration(
    registry: ToolRegistry,
    tool: AnyTool,
    settings: Settings,
    schemas: MutableMapping[AnyTool, Any],
) -> types.FunctionDeclaration:
    if tool not in schemas:
        schemas[tool] = for_gemini(without_presets(tool.declared_parameters[0]))
    own, configured = tool.metadata, settings.for_tool(tool.name, tool.origin)
    behavior: ToolBehavior | None = configured.behavior or own.behavior
    return types.FunctionDeclaration(
        name=registry.declared_name(own.name),
        description=configured.description or own.description,
        parameters_json_schema=schemas[tool],
        behavior=None if behavior is None else types.Behavior(behavior.value),
    )


def for_gemini(schema: Any) -> Any:
    """The schema as Gemini knows it: each `const` an `enum` of one, and secrets not marked.

    Sources: the keywords listed at https://ai.google.dev/gemini-api/docs/structured-output; of a
    keyword it does not know, and of a `format` of texts that it does not, the server has said
    `INVALID_ARGUMENT` to the whole request.

    Example:
        >>> for_gemini({"properties": {"kind": {"const": "cat"}, "pin": {"writeOnly": True}}})
        {'properties': {'kind': {'enum': ['cat']}, 'pin': {}}}
    """
    if isinstance(schema, list):
        return [for_gemini(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    hidden = _MARKS if is_marked(schema) else ()
    return {
        "enum" if key == "const" else key: [value] if key == "const" else _inside(key, value)
        for key, value in schema.items()
        if key not in hidden
    }


_MARKS = frozenset({"writeOnly", "x-secret", "format"})
"""What is left out of the schema of a secret."""


def _inside(key: str, value: Any) -> Any:
    """What stands under a keyword: values are no schemas, and properties may be named `const`."""
    if key in ("enum", "default", "examples"):
        return value
    if key in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
        return {name: for_gemini(schema) for name, schema in value.items()}
    return for_gemini(value)
