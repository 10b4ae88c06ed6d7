"""Convert JSON Schema to the subset of OpenAPI that Gemini's `Schema` has.

Sources: the fields of `Schema` at https://ai.google.dev/api/caching#Schema, and what the server
refuses in it: unknown fields such as `additionalProperties` and `const`, and a list as a `type`
(https://github.com/taylorwilsdon/google_workspace_mcp/issues/1099, 2026-09); an array without
`items`; an `enum` of anything but non-empty strings; fields next to `anyOf`; a required property
that is not defined (https://github.com/Kilo-Org/kilocode/pull/11955, 2026-07).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

MAX_REF_DEPTH: Final = 2
"""How often a definition is expanded inside itself; deeper values are declared without a shape."""
MAX_EXPANDED_SCHEMAS: Final = 2_000
MAX_DEPTH: Final = 50
_KEPT: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("description", "pattern"), (str,)),
    **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength"), (int,)),
    **dict.fromkeys(("minimum", "maximum"), (int, float)),
    "nullable": (bool,),
}
_FORMATS: Final = frozenset({"date-time", "float", "double", "int32", "int64"})
_ANYTHING: Final = {"type": "STRING"}


def openapi_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema in the subset of OpenAPI.

    It may allow more than the schema: the arguments of a call are validated against the schema
    itself. Keywords that cannot be expressed are described in words, such as an `enum` of numbers.

    Example:
        >>> openapi_schema({"type": ["integer", "null"], "enum": [1, 2, None]})
        {'type': 'INTEGER', 'nullable': True, 'description': 'One of: 1, 2'}
        >>> openapi_schema({"type": "array", "additionalProperties": False})
        {'type': 'ARRAY', 'items': {'type': 'STRING'}}
    """
    return _Converter(schema).convert(schema, ())


class _Converter:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = MAX_EXPANDED_SCHEMAS

    def convert(self, schema: Any, inside: tuple[str, ...]) -> dict[str, Any]:
        """Convert a schema; `inside` has an item for each schema and definition around it."""
        self._left -= 1
        if not isinstance(schema, Mapping) or self._left < 0 or len(inside) > MAX_DEPTH:
            return dict(_ANYTHING)
        inside = (*inside, "")
        while isinstance(reference := schema.get("$ref"), str):
            if inside.count(reference) >= MAX_REF_DEPTH:
                return dict(_ANYTHING)
            inside = (*inside, reference)
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**self._definition(reference), **beside}
        schema = self._merge_all_of(schema, inside)
        kinds = _kinds(schema)
        options = _list(schema.get("anyOf")) or _list(schema.get("oneOf"))
        if not options and len(kinds) > 1:
            options = [{**schema, "type": kind, "description": None} for kind in kinds]
        if options:
            return self._union(schema, options, inside)
        return self._plain(schema, kinds[0] if kinds else "null", inside)

    def _definition(self, reference: str) -> Mapping[str, Any]:
        found: Any = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found if isinstance(found, Mapping) else {}

    def _merge_all_of(
        self, schema: Mapping[str, Any], inside: tuple[str, ...]
    ) -> Mapping[str, Any]:
        """Return a schema with the schemas of its `allOf` merged into it."""
        merged = {key: value for key, value in schema.items() if key != "allOf"}
        for part in _list(schema.get("allOf")):
            if not isinstance(part, Mapping):
                continue
            reference = part.get("$ref")
            if isinstance(reference, str) and inside.count(reference) < MAX_REF_DEPTH:
                part = {**self._definition(reference), **part}  # noqa: PLW2901 - the same part
            merged = {
                **part,
                **merged,
                "properties": {**_dict(part.get("properties")), **_dict(merged.get("properties"))},
                "required": [*_list(merged.get("required")), *_list(part.get("required"))],
            }
            merged.pop("$ref", None)
        return merged

    def _union(
        self, schema: Mapping[str, Any], options: list[Any], inside: tuple[str, ...]
    ) -> dict[str, Any]:
        """Convert a union: `null` is not an option, and `anyOf` is the only field."""
        kept = [each for each in options if not _is_null(each)]
        converted = [self.convert(each, inside) for each in kept]
        nullable = len(kept) < len(options) or "null" in _list(schema.get("type"))
        description = schema.get("description")
        if len(converted) > 1:
            first = converted[0]
            if isinstance(description, str):
                first["description"] = _join(description, first.get("description"))
            if nullable:
                first["nullable"] = True
            return {"anyOf": converted}
        (one,) = converted or [dict(_ANYTHING)]
        if nullable:
            one["nullable"] = True
        if isinstance(description, str):
            one["description"] = description
        return one

    def _plain(
        self, schema: Mapping[str, Any], kind: str, inside: tuple[str, ...]
    ) -> dict[str, Any]:
        converted: dict[str, Any] = {"type": kind.upper() if kind != "null" else "STRING"}
        if schema.get("format") in _FORMATS:
            converted["format"] = schema["format"]
        if kind == "object":
            converted |= self._object(schema, inside)
        elif kind == "array":
            converted |= self._array(schema, inside)
        for key, types in _KEPT.items():
            if type(schema.get(key)) in types and key not in converted:
                converted[key] = schema[key]
        if _is_nullable(schema):
            converted["nullable"] = True
        return _with_enum(converted, schema)

    def _object(self, schema: Mapping[str, Any], inside: tuple[str, ...]) -> dict[str, Any]:
        properties = {
            str(name): self.convert(each, inside)
            for name, each in _dict(schema.get("properties")).items()
        }
        required = [name for name in _list(schema.get("required")) if name in properties]
        if properties:
            found: dict[str, Any] = {"properties": properties}
            return found | ({"required": list(dict.fromkeys(required))} if required else {})
        values = schema.get("additionalProperties")
        if not isinstance(values, Mapping) or not values:
            return {}
        shown = json.dumps(self.convert(values, inside), ensure_ascii=False)
        return {"description": _join(schema.get("description"), f"Any keys; each value: {shown}")}

    def _array(self, schema: Mapping[str, Any], inside: tuple[str, ...]) -> dict[str, Any]:
        places = _list(schema.get("prefixItems")) or _list(schema.get("items"))
        if not places:
            return {"items": self.convert(schema.get("items"), inside)}
        items: list[dict[str, Any]] = []
        for each in (self.convert(place, inside) for place in places):
            if each not in items:
                items.append(each)
        inner = items[0] if len(items) == 1 else {"anyOf": items}
        return {"items": inner, "minItems": len(places), "maxItems": len(places)}


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    """Return the types of a schema but `null`; a schema without a type has the one it implies."""
    given = schema.get("type")
    kinds = [each for each in (given if isinstance(given, list) else [given]) if each != "null"]
    if kinds != [None]:
        return [each for each in kinds if isinstance(each, str)]
    if "properties" in schema or "additionalProperties" in schema:
        return ["object"]
    if "items" in schema or "prefixItems" in schema:
        return ["array"]
    values = [each for each in _list(schema.get("enum")) if each is not None]
    names = {bool: "boolean", int: "integer", float: "number"}
    found = {names.get(type(each), "string") for each in values}
    return list(found) if len(found) == 1 else ["string"]


def _with_enum(converted: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Add the values of an `enum`, in words unless all are non-empty strings."""
    values = [each for each in _list(schema.get("enum")) if each is not None]
    if not values:
        return converted
    if converted["type"] == "STRING" and all(isinstance(each, str) and each for each in values):
        converted["enum"] = values
        return converted
    shown = ", ".join(json.dumps(each, ensure_ascii=False) for each in values)
    converted["description"] = _join(converted.get("description"), f"One of: {shown}")
    return converted


def _is_nullable(schema: Mapping[str, Any]) -> bool:
    enum = schema.get("enum")
    return "null" in _list(schema.get("type")) or (isinstance(enum, list) and None in enum)


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and (
        schema.get("type") == "null" or schema.get("enum") == [None]
    )


def _join(*texts: str | None) -> str:
    return " ".join(text for text in texts if text)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
