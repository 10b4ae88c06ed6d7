"""Find the parameters that a JSON Schema declares to be secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from leonidas_tools.redaction.names import is_secret_name

_HOLDERS = ("items", "additionalProperties", "then", "else")
_PRESETS = frozenset({"default", "examples"})
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")


class Secret:
    """Marks a tool's parameter as secret: the tool receives it, and it is not stored or shown.

    For secrets in a result, name them: `@tool(secrets=["iban"])`.

    Example:
        >>> from typing import Annotated
        >>> from leonidas_tools import Secret, tool
        >>> @tool
        ... def unlock(door: str, code: Annotated[str, Secret]) -> str:
        ...     return f"{door} is open"
        >>> unlock.metadata.parameters["properties"]["code"]
        {'type': 'string', 'writeOnly': True}
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(core_schema), "writeOnly": True}


def secret_marks(schema: Mapping[str, Any]) -> tuple[frozenset[str], bool]:
    """Return the property names that a JSON Schema marks as secret, and whether all of it is.

    The marks are `format: password`, `writeOnly` and `x-secret`. A name that is marked in one
    place counts as marked everywhere.

    Example:
        >>> secret_marks({"properties": {"code": {"type": "string", "format": "password"}}})
        (frozenset({'code'}), False)
    """
    marks = _Marks(schema)
    return frozenset(marks.names(schema, 0)), marks.marked(schema)


def is_marked(schema: Mapping[str, Any]) -> bool:
    """Return whether a JSON Schema itself, rather than a part of it, is marked as secret."""
    if schema.get("format") == "password" or schema.get("writeOnly") is True:
        return True
    return schema.get("x-secret") not in (None, False)


def without_presets(schema: Any) -> Any:
    """Return a copy of a JSON Schema without the defaults and examples of secrets.

    Example:
        >>> without_presets({"properties": {"pin": {"writeOnly": True, "default": "4711"}}})
        {'properties': {'pin': {'writeOnly': True}}}
    """
    if isinstance(schema, list):
        return [without_presets(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    hidden = _PRESETS if is_marked(schema) else ()
    return {
        key: _properties(value)
        if key == "properties" and isinstance(value, Mapping)
        else value
        if key in _PRESETS
        else without_presets(value)
        for key, value in schema.items()
        if key not in hidden
    }


def _properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties; one with the name of a secret counts as secret."""
    shown = {name: without_presets(schema) for name, schema in properties.items()}
    for name, schema in shown.items():
        if is_secret_name(name) and isinstance(schema, dict):
            shown[name] = {key: value for key, value in schema.items() if key not in _PRESETS}
    return shown


class _Marks:
    """Finds the marked parts of a JSON Schema."""

    _DEEPEST = 64

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def names(self, schema: Any, depth: int) -> Iterator[str]:
        """Yield the names of the marked properties at any depth."""
        if depth > self._DEEPEST:
            return
        if isinstance(schema, list):
            for each in schema:
                yield from self.names(each, depth + 1)
        elif isinstance(schema, Mapping):
            properties = schema.get("properties")
            if isinstance(properties, Mapping):
                yield from (name for name, each in properties.items() if self.marked(each))
            for each in schema.values():
                yield from self.names(each, depth + 1)

    def marked(self, schema: Any, seen: tuple[str, ...] = ()) -> bool:
        """Return whether a value of the schema is secret, or contains a secret without a name."""
        if not isinstance(schema, Mapping):
            return False
        if is_marked(schema):
            return True
        parts = [schema.get(key) for key in _HOLDERS]
        for key in _LISTS:
            parts.extend(schema.get(key) or ())
        parts.extend((schema.get("patternProperties") or {}).values())
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in seen:
            seen = (*seen, reference)
            parts.append(self._target(reference))
        return any(self.marked(part, seen) for part in parts)

    def _target(self, reference: str) -> Any:
        """Resolve a reference within the schema; `None` if it points elsewhere."""
        place: Any = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            place = place.get(name) if isinstance(place, Mapping) else None
        return place
