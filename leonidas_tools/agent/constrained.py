"""The JSON Schema of one answer of a model whose server constrains answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.agent.models.model import Declared

FINAL_ANSWER = "final_answer"


def answer_schema(tools: Sequence[Declared]) -> dict[str, Any]:
    """Return the schema of an answer: a call of one of the tools, or the final answer.

    Example:
        >>> answer_schema([])["anyOf"][0]["required"]
        ['final_answer']
    """
    final = _object({FINAL_ANSWER: {"type": "string"}})
    calls = [
        _object(
            {"name": {"const": tool.name}, "arguments": _move_references(tool.parameters, number)}
        )
        for number, tool in enumerate(tools, start=1)
    ]
    return {"anyOf": [final, *calls]}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _move_references(schema: Any, number: int) -> Any:
    """Return a schema with references to its new place in the schema of the answer."""
    if isinstance(schema, list):
        return [_move_references(each, number) for each in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {key: _move_references(value, number) for key, value in schema.items()}
    if isinstance(place := schema.get("$ref"), str) and place.startswith("#"):
        moved["$ref"] = f"#/anyOf/{number}/properties/arguments{place[1:]}"
    return moved
