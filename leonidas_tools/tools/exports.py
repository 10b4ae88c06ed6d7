"""Tool definitions in the formats of OpenAI, of a prompt, and as a list."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from leonidas_tools.redaction import without_presets
from leonidas_tools.tools.names import undotted_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leonidas_tools.tools.registry import AnyTool, ToolRegistry
    from leonidas_tools.tools.tool import Scheduling


def describe(registry: ToolRegistry, tool: AnyTool) -> dict[str, Any]:
    """Return a description of a tool as plain JSON."""
    metadata = tool.metadata
    return {
        "name": metadata.name,
        "declared_name": registry.declared_name(metadata.name),
        "description": metadata.description,
        "category": str(metadata.category),
        "priority": metadata.priority.name.lower(),
        "effect": metadata.effect.value,
        "status": metadata.status.value if metadata.quarantine is None else "quarantined",
        "parameters": without_presets(metadata.parameters),
        "timeout_seconds": metadata.timeout_seconds,
        "deadline_seconds": metadata.deadline_seconds,
        "retry_attempts": metadata.retry_attempts,
        "fallback_tools": list(metadata.fallback_tools),
        "dependencies": list(metadata.dependencies),
        "tags": list(metadata.tags),
        "behavior": None if metadata.behavior is None else metadata.behavior.lower(),
        "scheduling": _words(metadata.scheduling),
        "on_cancel": None if metadata.on_cancel is None else metadata.on_cancel.value,
        "filler_after_seconds": metadata.filler_after_seconds,
        "filler": metadata.filler,
        "repeat_after_resume": metadata.repeat_after_resume,
    }


def _words(scheduling: Scheduling | None) -> dict[str, str]:
    said = {} if scheduling is None else asdict(scheduling)
    return {answer: when.lower() for answer, when in said.items() if when is not None}


def openai_tools(registry: ToolRegistry, tools: Iterable[AnyTool]) -> list[dict[str, Any]]:
    """Return tool definitions in OpenAI's format; `openai_names` maps their names back.

    Source: https://platform.openai.com/docs/guides/function-calling, which allows only letters,
    digits, underscores and dashes in names.
    """
    own_names = openai_names(registry)
    names = {own: name for name, own in own_names.items()}
    return [
        {
            "type": "function",
            "function": {
                "name": names[tool.name],
                "description": tool.metadata.description,
                "parameters": without_presets(tool.declared_parameters[0]),
            },
        }
        for tool in tools
    ]


def openai_names(registry: ToolRegistry) -> dict[str, str]:
    """Return the tools' own names by their names in the definitions for OpenAI."""
    own = {registry.declared_name(tool.name): tool.name for tool in registry}
    return {name: own[declared] for declared, name in undotted_names(own).items()}


def find(registry: ToolRegistry, name: str) -> AnyTool | None:
    """Return the tool with that own or declared name, or that name for OpenAI."""
    tool = registry.get(name) or registry.find(name)
    if tool is not None:
        return tool
    own = openai_names(registry).get(name)
    return None if own is None else registry.get(own)


def prompt_text(registry: ToolRegistry, tools: Iterable[AnyTool]) -> str:
    """Return the tools as text for a prompt, one after another."""
    return "\n\n".join(_prompt_entry(registry.declared_name(t.name), t) for t in tools)


def _prompt_entry(name: str, tool: AnyTool) -> str:
    parameters = without_presets(tool.declared_parameters[0])
    required = set(parameters.get("required", ()))
    lines = [f"{name}: {tool.metadata.description}".rstrip()]
    for key, said in parameters.get("properties", {}).items():
        schema = said if isinstance(said, dict) else {}  # else true or false
        need = "required" if key in required else "optional"
        if "default" in schema:
            need += f", default {json.dumps(schema['default'], ensure_ascii=False, default=repr)}"
        what = schema.get("description", "")
        lines.append(f"  - {key} ({_type_text(schema)}, {need}){': ' + what if what else ''}")
    return "\n".join(lines)


def _type_text(schema: dict[str, Any] | bool) -> str:
    """Return a schema's type in a few words."""
    if isinstance(schema, bool):
        return "any" if schema else "none"
    if "enum" in schema:
        return "one of " + ", ".join(repr(value) for value in schema["enum"])
    if "const" in schema:
        return repr(schema["const"])
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return " or ".join(_type_text(option) for option in options)
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)
