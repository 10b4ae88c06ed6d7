"""Schemas of a server without what a person cannot see in them, but a model would read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leonidas_tools.errors import SchemaError
from leonidas_tools.redaction.visible import hides, revealed, without_unseen

_TEXTS = frozenset({"description", "title", "$comment"})


def visible_schema(schema: Any) -> Any:
    r"""Return the schema with visible descriptions only.

    Raises:
        SchemaError: A name or a value in it, which cannot be changed, hides something.

    Example:
        >>> visible_schema({"properties": {"a": {"description": "A\u200b number."}}})
        {'properties': {'a': {'description': 'A number.'}}}
    """
    if isinstance(schema, Mapping):
        return {_honest(key): _inside(key, value) for key, value in schema.items()}
    if isinstance(schema, list):
        return [visible_schema(item) for item in schema]
    return _honest(schema)


def _inside(key: str, value: Any) -> Any:
    if isinstance(value, str):
        if key in _TEXTS:
            return without_unseen(value)
        return value if key == "pattern" else _honest(value)
    return visible_schema(value)


def _honest(value: Any) -> Any:
    if isinstance(value, str) and hides(value):
        raise SchemaError(
            f"its schema has hidden characters in {revealed(value)!r}, as no honest server does"
        )
    return value
