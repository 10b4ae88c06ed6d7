"""Find the parameters that a JSON Schema declares to be secret."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from leonidas_tools.redaction.names import is_secret_name

_HOLDERS = ("items", "additionalProperties", "then", "else")
_PRESETS = frozenset({"default", "examples"})
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAX_INDEX_LENGTH = 8


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
    return frozenset(marks.names()), marks.marked(schema)


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
    """Finds the marked parts of a JSON Schema of any form, in linear time."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._parts = {id(part): part for part in _objects_in(root)}
        anchored = (part for part in self._parts.values() if isinstance(part.get("$anchor"), str))
        self._anchors = {f"#{part['$anchor']}": part for part in anchored}
        holders: defaultdict[int, list[int]] = defaultdict(list)
        for key, part in self._parts.items():
            for held in self._inline_schemas(part):
                holders[id(held)].append(key)
        self._marked: set[int] = set()
        marked = [key for key, part in self._parts.items() if is_marked(part)]
        while marked:
            if (key := marked.pop()) not in self._marked:
                self._marked.add(key)
                marked.extend(holders[key])

    def names(self) -> Iterator[str]:
        """Yield the names of the marked properties at any depth."""
        for part in self._parts.values():
            properties = part.get("properties")
            if isinstance(properties, Mapping):
                yield from (name for name, each in properties.items() if self.marked(each))

    def marked(self, schema: Any) -> bool:
        """Return whether a value of the schema is secret, or contains a secret without a name."""
        return id(schema) in self._marked

    def _inline_schemas(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the schemas of the same value, and of the parts of it that have no names."""
        yield from (schema.get(key) for key in _HOLDERS)
        for key in _LISTS:
            each = schema.get(key)
            yield from each if isinstance(each, list) else ()
        patterns = schema.get("patternProperties")
        yield from patterns.values() if isinstance(patterns, Mapping) else ()
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield self._target(reference)

    def _target(self, reference: str) -> Any:
        """Resolve a reference within the schema; `None` if it points elsewhere."""
        if reference in self._anchors:
            return self._anchors[reference]
        place: Any = self._root
        for step in unquote(reference.removeprefix("#")).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(place, list) and name.isdecimal() and len(name) < _MAX_INDEX_LENGTH:
                place = place[int(name)] if int(name) < len(place) else None
            else:
                place = place.get(name) if isinstance(place, Mapping) else None
        return place


def _objects_in(root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield every object in a schema once."""
    seen, waiting = set[int](), list[Any]([root])
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting.extend(part)
        elif isinstance(part, Mapping) and id(part) not in seen:
            seen.add(id(part))
            yield part
            waiting.extend(part.values())
