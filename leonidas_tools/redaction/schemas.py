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


def schema_without(secrets: KnownSecrets, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema whose texts are masked, without other keywords that are secret.

    A masked default would be sent as it is; without it, the receiver takes its own. Names and the
    values that an argument may have stay: a schema with a secret in them is not to be used.

    Example:
        >>> from leonidas_tools.redaction import KnownSecrets
        >>> schema = {"properties": {"key": {"default": "s3cr3t-zebra", "title": "s3cr3t-zebra"}}}
        >>> schema_without(KnownSecrets(["s3cr3t-zebra"]), schema)
        {'properties': {'key': {'title': '***'}}}
    """
    return _without(secrets, schema) if secrets else dict(schema)


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


def _may_be_left_out(key: str, value: Any) -> bool:
    return key in _SAMPLES or (isinstance(value, str) and key not in _TEXTS | _NEEDED)
