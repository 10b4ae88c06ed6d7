"""Mask secrets in a JSON Schema of another party."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leonidas_tools.redaction.known import KnownSecrets

_TEXTS = frozenset({"description", "title", "$comment"})
_SAMPLES = frozenset({"default", "examples"})
_NEEDED = frozenset({"const", "type", "$ref", "$id", "$anchor"})
"""Keywords with a text that the schema needs."""
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value is an object with names chosen by the author."""


def schema_without(
    secrets: KnownSecrets, schema: Mapping[str, Any], *, fewer_options: bool = False
) -> dict[str, Any]:
    """Return a schema with its texts masked, without optional keywords that contain a secret.

    A masked default would be sent literally; without it, the receiver uses its own. Names and
    allowed values remain: do not use a schema with a secret in them. With `fewer_options`, secret
    values of an `enum` are removed. They remain if all values are secret, or if a list beside the
    `enum` has one item for each value.

    Example:
        >>> from leonidas_tools.redaction import KnownSecrets
        >>> schema = {"properties": {"key": {"default": "s3cr3t-zebra", "title": "s3cr3t-zebra"}}}
        >>> schema_without(KnownSecrets(["s3cr3t-zebra"]), schema)
        {'properties': {'key': {'title': '***'}}}
    """
    if not secrets:
        return dict(schema)
    if fewer_options:
        schema = _with_fewer_options(secrets, schema)
    made: dict[str, Any] = _without(secrets, schema)
    return made


def _without(secrets: KnownSecrets, schema: Any, *, has_names: bool = False) -> Any:
    if isinstance(schema, list):
        return [_without(secrets, each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    if has_names:
        return {name: _without(secrets, each) for name, each in schema.items()}
    return {
        key: secrets.text(value)
        if key in _TEXTS and isinstance(value, str)
        else _without(secrets, value, has_names=key in _NAMED)
        for key, value in schema.items()
        if not _may_be_left_out(key, value) or secrets(value) == value
    }


def _with_fewer_options(secrets: KnownSecrets, schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_fewer_options(secrets, each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {key: _with_fewer_options(secrets, value) for key, value in schema.items()}
    options = schema.get("enum")
    if isinstance(options, list) and secrets(options) != options:
        others = (schema[key] for key in schema.keys() - _SAMPLES - {"enum", "type"})
        if not any(isinstance(other, list) and len(other) == len(options) for other in others):
            made["enum"] = [each for each in options if secrets([each]) == [each]] or options
    return made


def _may_be_left_out(key: str, value: Any) -> bool:
    return key in _SAMPLES or (isinstance(value, str) and key not in _TEXTS | _NEEDED)
