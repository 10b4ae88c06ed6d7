"""Read the keywords of the JSON Schema drafts."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeAlias

import jsonschema_rs

from leonidas_tools.json_schema.document import PATTERN_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping


Keys: TypeAlias = tuple[str | int, ...]


def accepted_types(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the types that a schema accepts, by its `type` or by the values that it lists."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return frozenset((kind,))
    if isinstance(kind, list):
        return frozenset(kind)
    values = [schema["const"]] if "const" in schema else schema.get("enum", ())
    return frozenset(type_of(value) for value in values)


def type_of(value: Any) -> str:
    """Return the JSON Schema type of a plain value, the narrowest one."""
    if isinstance(value, bool):
        return "boolean"
    if value is None:
        return "null"
    names = {str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return names.get(type(value), "string")


def schemas_of_property(schema: Mapping[str, Any], name: str) -> list[tuple[Keys, Any]]:
    """Return the schemas that apply to a property, each with the keys that lead to it."""
    properties = schema.get("properties", {})
    found: list[tuple[Keys, Any]] = []
    if name in properties:
        found.append((("properties", name), properties[name]))
    for pattern, inner in schema.get("patternProperties", {}).items():
        if _matches(pattern, name):
            found.append((("patternProperties", pattern), inner))
    return found or [(("additionalProperties",), schema.get("additionalProperties", True))]


def schema_of_item(schema: Mapping[str, Any], index: int) -> tuple[Keys, Any]:
    """Return the schema of an array item, with the keys that lead to it."""
    heads, rest = "prefixItems", "items"
    if isinstance(schema.get("items"), list):  # drafts up to 2019-09
        heads, rest = "items", "additionalItems"
    first = schema.get(heads, ())
    if index < len(first):
        return (heads, index), first[index]
    return (rest,), schema.get(rest, True)


def _matches(pattern: str, name: str) -> bool:
    """Return whether a name matches a pattern, by an engine with bounded time."""
    try:
        return not _build_name_validator(pattern).is_valid({name: None})
    except (ValueError, UnicodeError):
        return False


@functools.lru_cache(maxsize=256)
def _build_name_validator(pattern: str) -> jsonschema_rs.Validator:
    """Return a validator that refuses names by a pattern; cached, since compiling may take long."""
    unmatched = {"patternProperties": {pattern: False}}
    return jsonschema_rs.validator_for(unmatched, pattern_options=PATTERN_OPTIONS)
