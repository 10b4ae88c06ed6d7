"""Convert the declarations of a runtime's tools to Gemini's function declarations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from google.genai import types

from leonidas_tools.redaction import is_marked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leonidas_tools.runtime.declared import Declaration
    from leonidas_tools.tools.registry import AnyTool

_MARKS = frozenset({"writeOnly", "x-secret", "format"})
"""Keys left out of the schema of a secret."""
_NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
"""Keywords whose value is an object with names chosen by the author."""


class GeminiDeclarations:
    """Converts declarations to Gemini's form, and caches the result for each tool."""

    def __init__(self) -> None:
        self._written: WeakKeyDictionary[AnyTool, tuple[object, types.FunctionDeclaration]] = (
            WeakKeyDictionary()
        )

    def write(self, declarations: Iterable[Declaration]) -> list[types.Tool]:
        """Return one new `types.Tool` with all functions, or an empty list."""
        functions = [self._function(each).model_copy() for each in declarations]
        return [types.Tool(function_declarations=functions)] if functions else []

    def _function(self, declared: Declaration) -> types.FunctionDeclaration:
        # Not the declaration itself, which would keep its tool alive.
        made_of = (declared.name, declared.description, declared.parameters, declared.behavior)
        written = self._written.get(declared.tool)
        if written is None or written[0] != made_of:
            written = self._written[declared.tool] = (made_of, _function(declared))
        return written[1]


def _function(declared: Declaration) -> types.FunctionDeclaration:
    behavior = declared.behavior
    return types.FunctionDeclaration(
        name=declared.name,
        description=declared.description,
        parameters_json_schema=for_gemini(declared.parameters),
        behavior=None if behavior is None else types.Behavior(behavior.value),
    )


def for_gemini(schema: Any) -> Any:
    """Return a schema in Gemini's form: each `const` as an `enum` of one, and no marks of secrets.

    Sources: the keywords listed at https://ai.google.dev/gemini-api/docs/structured-output. The
    server has rejected a whole request as `INVALID_ARGUMENT` because of an unknown keyword, or an
    unknown `format` of a string.

    Example:
        >>> for_gemini({"properties": {"kind": {"const": "cat"}, "pin": {"writeOnly": True}}})
        {'properties': {'kind': {'enum': ['cat']}, 'pin': {}}}
    """
    if isinstance(schema, list):
        return [for_gemini(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    hidden = _MARKS if is_marked(schema) else ()
    return {
        "enum" if key == "const" else key: [value] if key == "const" else _inside(key, value)
        for key, value in schema.items()
        if key not in hidden
    }


def _inside(key: str, value: Any) -> Any:
    """Convert the value of a keyword; keep data, and keep property names such as `const`."""
    if key in ("enum", "default", "examples"):
        return value
    # An unknown keyword may hold anything, also an object with a member `properties`.
    if key in _NAMED and isinstance(value, Mapping):
        return {name: for_gemini(schema) for name, schema in value.items()}
    return for_gemini(value)
