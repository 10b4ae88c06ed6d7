"""The JSON Schema types of values, and those that a schema takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def wanted_types(schema: Mapping[str, Any]) -> frozenset[str]:
    """The types that a schema takes, by its `type` or else by the values it lists."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return frozenset((kind,))
    if isinstance(kind, list):
        return frozenset(kind)
    values = [schema["const"]] if "const" in schema else schema.get("enum", ())
    return frozenset(type_of(value) for value in values)


def type_of(value: Any) -> str:
    """The JSON Schema type of a plain value, the narrowest one."""
    if isinstance(value, bool):
        return "boolean"
    if value is None:
        return "null"
    names = {str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return names.get(type(value), "string")
