"""Texts of a server without what a person cannot see in them, but a model would read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from leonidas_tools.errors import SchemaError

_ESCAPES = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours and the like of a terminal
    "|(?:\x1b\\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"  # titles and links of one
    "|\x1b[ -/]*[0-~]?"
)
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tabs and ends of lines
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0"  # fillers
    "\u200b-\u200f\u2060-\u206f\ufeff"  # of no width
    "\u202a-\u202e"  # what turns the direction of writing
    "\ufe00-\ufe0f\U000e0100-\U000e01ef"  # variation selectors
    "\ufff0-\ufffb\U000e0000-\U000e00ff]"  # tags, which spell ASCII unseen
)
_NEVER_DATA = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
"""What stands in no name and no value for an honest reason, which emoji and scripts may have."""
_TEXTS = frozenset({"description", "title", "$comment"})


def visible(text: str) -> str:
    r"""The text with nothing but what a person sees.

    Args:
        text: A description, for example.

    Example:
        >>> visible("Adds\u200b \x1b[8mand tells\x1b[0m two\U000e0041\U000e0042 numbers.")
        'Adds and tells two numbers.'
    """
    return _UNSEEN.sub("", _ESCAPES.sub("", text))


def revealed(text: str) -> str:
    r"""The text with what a person does not see written out, to be shown to one.

    Example:
        >>> revealed("Adds\u200b numbers\x1b[8m.")
        'Adds<U+200B> numbers<U+001B>[8m.'
    """
    return _UNSEEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)


def visible_schema(schema: Any) -> Any:
    r"""The schema with visible descriptions only.

    Args:
        schema: A JSON Schema, or a part of one.

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
            return visible(value)
        return value if key == "pattern" else _honest(value)
    return visible_schema(value)


def _honest(value: Any) -> Any:
    if isinstance(value, str) and _NEVER_DATA.search(value):
        raise SchemaError(
            f"its schema hides characters in {revealed(value)!r}, which nobody would do honestly"
        )
    return value
