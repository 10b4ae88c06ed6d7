"""Read JSON Schemas of older drafts as the current draft."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TYPES = {
    "int": "integer",
    "float": "number",
    "str": "string",
    "bool": "boolean",
    "dict": "object",
    "list": "array",
}
_KNOWN_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_SUBSCHEMAS = frozenset({
    "additionalItems", "additionalProperties", "contains", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAPPINGS = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)
_NULLABLE = frozenset({"const", "default"})
_MAX_DEPTH = 200


def upgrade_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema in draft 2020-12; one that is in it already is returned equal.

    Drafts 3 to 7 write tuples, exclusive limits and required properties in other ways. A keyword
    with null says nothing, and an unknown type is no constraint.

    Example:
        >>> upgrade_schema({"items": [{"type": "int"}], "additionalItems": False})
        {'prefixItems': [{'type': 'integer'}], 'items': False}
        >>> upgrade_schema({"minimum": 0, "exclusiveMinimum": True})
        {'exclusiveMinimum': 0}
        >>> upgrade_schema({"properties": {"a": {"type": "string", "required": True}}})
        {'properties': {'a': {'type': 'string'}}, 'required': ['a']}
    """
    return dict(_upgrade(schema, 0))


def _upgrade(schema: Any, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return schema
    upgraded = {
        key: _upgrade_value(key, value, depth + 1)
        for key, value in schema.items()
        if value is not None or key in _NULLABLE
    }
    _upgrade_tuple(upgraded)
    _upgrade_limits(upgraded)
    _upgrade_required(upgraded, schema)
    _upgrade_type(upgraded)
    return upgraded


def _upgrade_value(key: str, value: Any, depth: int) -> Any:
    if isinstance(value, list) and (key in _LISTS or key == "items"):
        return [_upgrade(each, depth) for each in value]
    if isinstance(value, Mapping) and key in _MAPPINGS:
        return {name: _upgrade(each, depth) for name, each in value.items() if each is not None}
    return _upgrade(value, depth) if key in _SUBSCHEMAS else value


def _upgrade_tuple(schema: dict[str, Any]) -> None:
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
        if "additionalItems" in schema:
            schema["items"] = schema.pop("additionalItems")


def _upgrade_limits(schema: dict[str, Any]) -> None:
    for limit in ("minimum", "maximum"):
        exclusive = f"exclusive{limit.title()}"
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and limit in schema:
            schema[exclusive] = schema.pop(limit)


def _upgrade_required(schema: dict[str, Any], written: Mapping[str, Any]) -> None:
    if isinstance(schema.get("required"), bool):
        del schema["required"]
    properties = written.get("properties")
    if not isinstance(properties, Mapping):
        return
    required = [
        name
        for name, each in properties.items()
        if isinstance(each, Mapping) and each.get("required") is True
    ]
    listed = schema.get("required", [])
    if required and isinstance(listed, list):
        schema["required"] = list(dict.fromkeys([*listed, *required]))


def _upgrade_type(schema: dict[str, Any]) -> None:
    written = schema.get("type")
    names = written if isinstance(written, list) else [written]
    known = [_TYPES.get(name, name) for name in names if isinstance(name, str)]
    if "type" not in schema or (known == names and _KNOWN_TYPES.issuperset(known)):
        return
    if known and _KNOWN_TYPES.issuperset(known):
        schema["type"] = known if isinstance(written, list) else known[0]
    else:
        del schema["type"]
