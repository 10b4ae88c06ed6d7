"""Arguments that the settings fix: the model neither sees nor sets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leonidas_tools.errors import ConfigurationError, ToolValidationError
from leonidas_tools.json_schema import ArgumentValidator

_MAX_REFERENCES = 32
_SAME_OBJECT_LISTS = ("allOf", "anyOf", "oneOf")
_SAME_OBJECT = ("not", "if", "then", "else")
_DEFINITIONS = ("$defs", "definitions")
_BESIDE = ("$schema", "$id", *_DEFINITIONS)


def fix(
    parameters: Mapping[str, Any], fixed: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of the other arguments, and the fixed values converted by the schema.

    The constraints on a fixed argument are resolved here: a constraint that accepts the value is
    removed, and an alternative that rejects the value is dropped.

    Raises:
        ConfigurationError: The schema has no such argument, or rejects the value.

    Example:
        >>> schema = {
        ...     "type": "object",
        ...     "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}},
        ...     "required": ["path", "depth"],
        ... }
        >>> fix(schema, {"depth": "2"})
        ({'type': 'object', 'properties': {'path': {'type': 'string'}}, 'required': ['path']}, \
{'depth': 2})
    """
    fixing = _ArgumentFixer(parameters, fixed)
    schema = fixing.rest(parameters)
    unknown = [name for name in fixed if name not in fixing.known]
    if unknown:
        known = sorted(fixing.names)
        raise ConfigurationError(
            f"the tool has no argument {unknown[0]!r}, and is left out: it has {known!r}"
        )
    if schema is False:
        raise ConfigurationError(
            f"the tool does not accept the fixed values of {sorted(fixed)!r}, and is left out"
        )
    return drop_unused_definitions(schema), fixing.values


class _ArgumentFixer:
    def __init__(self, document: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
        self._beside = {key: document[key] for key in _BESIDE if key in document}
        self._document = document
        self.values = dict(fixed)
        self.known: set[str] = set()
        self.names: set[str] = set()

    def rest(self, schema: Any, depth: int = 0) -> Any:
        """Return the part of a schema about arguments that are not fixed."""
        if not isinstance(schema, Mapping):
            return schema
        if "$ref" in schema:
            return self._resolve_reference(schema, depth)
        left = dict(schema)
        if not self._takes(left):
            return False
        self._settle_names(left)
        self._settle_dependencies(left)
        left |= {key: self.rest(left[key], depth) for key in _SAME_OBJECT if key in left}
        lists = [key for key in _SAME_OBJECT_LISTS if isinstance(left.get(key), list)]
        return left if all(self._settle(left, key, depth) for key in lists) else False

    def _resolve_reference(self, schema: Mapping[str, Any], depth: int) -> Any:
        """Return the schema with the target of its reference merged in."""
        target = self._target(schema["$ref"])
        if target is None or depth > _MAX_REFERENCES:
            raise ConfigurationError(
                f"the tool's arguments cannot be fixed because its schema refers to "
                f"{schema['$ref']!r}, and it is left out"
            )
        inner = self.rest(target, depth + 1)
        own = {key: value for key, value in schema.items() if key != "$ref"}
        if inner is False or not isinstance(inner, Mapping):
            return inner if inner is False else own
        if not own.keys() - {"type", "description", "title", *_BESIDE}:
            return {**inner, **own}
        return self.rest({**own, "allOf": [*own.get("allOf", ()), target]}, depth + 1)

    def _target(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return None
        found: Any = self._document
        for token in reference[2:].split("/"):
            key = token.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or key not in found:
                return None
            found = found[key]
        return found

    def _takes(self, left: dict[str, Any]) -> bool:
        """Remove the fixed arguments from the properties; return `False` if one is invalid."""
        properties = left.get("properties")
        if not isinstance(properties, Mapping):
            return True
        self.names |= properties.keys()
        for name in self.values.keys() & properties.keys():
            self.known.add(name)
            schema = {"type": "object", **self._beside, "properties": {name: properties[name]}}
            try:
                self.values[name] = ArgumentValidator(schema)({name: self.values[name]})[name]
            except (ToolValidationError, KeyError):  # a null that counts as missing is no value
                return False
        rest = {name: each for name, each in properties.items() if name not in self.values}
        left["properties"] = rest
        return True

    def _settle_names(self, left: dict[str, Any]) -> None:
        """Remove the fixed arguments from the lists of names."""
        for key in ("required", "propertyOrdering"):
            if isinstance(left.get(key), list):
                left[key] = [name for name in left[key] if name not in self.values]
                if not left[key]:
                    del left[key]

    def _settle_dependencies(self, left: dict[str, Any]) -> None:
        """Apply constraints that depend on a fixed argument to all calls."""
        for key in ("dependentRequired", "dependentSchemas", "dependencies"):
            depends = left.get(key)
            if not isinstance(depends, Mapping):
                continue
            kept = {}
            for name, what in depends.items():
                settled: Any = {"required": what} if isinstance(what, list) else what
                if name in self.values:
                    left["allOf"] = [*left.get("allOf", ()), settled]
                elif isinstance(what, list):
                    kept[name] = [each for each in what if each not in self.values]
                else:
                    kept[name] = self.rest(what)
            left[key] = kept
            if not kept:
                del left[key]

    def _settle(self, left: dict[str, Any], key: str, depth: int) -> bool:
        """Drop the impossible alternatives; return `False` if the schema cannot match."""
        parts = [self.rest(part, depth) for part in left[key]]
        possible = [part for part in parts if part is not False]
        if (key == "allOf" and len(possible) < len(parts)) or not possible:
            return False
        if all(part in ({}, True) for part in possible) and (key != "oneOf" or len(possible) == 1):
            del left[key]
        else:
            left[key] = possible
        return True


def drop_unused_definitions(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema without its unused definitions.

    Example:
        >>> drop_unused_definitions({"type": "object", "$defs": {"Key": {"type": "string"}}})
        {'type': 'object'}
    """
    used: set[tuple[str, str]] = set()
    waiting: list[Any] = [{k: v for k, v in schema.items() if k not in _DEFINITIONS}]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting.extend(part)
        elif isinstance(part, Mapping):
            waiting.extend(part.values())
            found = _definition(part.get("$ref"))
            if found is not None and found not in used:
                used.add(found)
                waiting.append(schema.get(found[0], {}).get(found[1]))
    kept = dict(schema)
    for where in _DEFINITIONS:
        if isinstance(schema.get(where), Mapping):
            kept[where] = {n: each for n, each in schema[where].items() if (where, n) in used}
            if not kept[where]:
                del kept[where]
    return kept


def _definition(reference: Any) -> tuple[str, str] | None:
    """Return the section and the name of the definition that a reference points to."""
    if not isinstance(reference, str):
        return None
    start, where, name = (*reference.split("/", 3), "", "")[:3]
    if start != "#" or where not in _DEFINITIONS:
        return None
    return where, name.replace("~1", "/").replace("~0", "~")
