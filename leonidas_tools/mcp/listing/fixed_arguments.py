"""Arguments that the settings fix: the model neither sees nor sets them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from leonidas_tools.errors import ConfigurationError, ToolValidationError
from leonidas_tools.json_schema import ArgumentValidator

_DEFINITIONS = ("$defs", "definitions")
_COMBINING = (
    "allOf", "anyOf", "oneOf", "not", "if", "then", "else",
    "dependencies", "dependentRequired", "dependentSchemas",
)  # fmt: skip


def fix(
    parameters: Mapping[str, Any], fixed: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of the other arguments, and the fixed values converted by the schema.

    An argument can be fixed if it stands under the `properties` of the schema itself. A condition
    on several arguments that names a fixed one is dropped: the server still checks it.

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
    properties = parameters.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    unknown = [name for name in fixed if name not in properties]
    if unknown:
        raise ConfigurationError(
            f"the tool has no argument {unknown[0]!r}, and is left out: it has "
            f"{sorted(properties)!r}"
        )
    definitions = {key: parameters[key] for key in _DEFINITIONS if key in parameters}
    own = {name: properties[name] for name in fixed}
    try:
        values = ArgumentValidator({"type": "object", **definitions, "properties": own})(fixed)
    except ToolValidationError:
        values = {}
    if values.keys() != fixed.keys():  # a null that counts as missing is no value
        raise ConfigurationError(
            f"the tool does not accept the fixed values of {sorted(fixed)!r}, and is left out"
        )
    return _without(parameters, properties, fixed), dict(values)


def _without(
    parameters: Mapping[str, Any], properties: Mapping[str, Any], fixed: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the schema without the fixed arguments, and without conditions that name them."""
    rest = dict(parameters)
    rest["properties"] = {name: each for name, each in properties.items() if name not in fixed}
    for key in ("required", "propertyOrdering"):
        if isinstance(rest.get(key), list):
            rest[key] = [name for name in rest[key] if name not in fixed]
    if rest.get("required") == []:
        del rest["required"]
    for key in _COMBINING:
        if any(json.dumps(name) in json.dumps(rest.get(key)) for name in fixed):
            del rest[key]
    if '"$ref"' not in json.dumps({k: v for k, v in rest.items() if k not in _DEFINITIONS}):
        rest = {key: value for key, value in rest.items() if key not in _DEFINITIONS}
    return rest
