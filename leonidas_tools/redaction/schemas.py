"""Mask secrets in a JSON Schema that others have written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leonidas_tools.redaction.known import KnownSecrets

_TEXTS = frozenset({"description", "title", "$comment"})
_SAMPLES = frozenset({"default", "examples"})
_NEEDED = frozenset({"const", "type", "$ref", "$id", "$anchor"})
"""Keywords with a text that the schema is not the same without."""
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value has names of the author's choice for keys."""


def schema_without(
    secrets: KnownSecrets, schema: Mapping[str, Any], *, fewer_options: bool = False
) -> dict[str, Any]:
    """Return a schema whose texts are masked, without other keywords that are secret.

    A masked default would be sent as it is; without it, the receiver takes its own. Names and the
    values that an argument may have stay: a schema with a secret in them is not to be used. With
    `fewer_options` a secret one among others is left out, unless a list beside them names each.

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
