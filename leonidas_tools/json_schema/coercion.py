"""Safe coercions of arguments that do not fit a schema."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

from leonidas_tools.json_schema.document import MAX_WORK, Document, child
from leonidas_tools.json_schema.keywords import (
    accepted_types,
    schema_of_item,
    schemas_of_property,
    type_of,
)
from leonidas_tools.json_schema.text import NotJsonError, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_DEPTH: Final = 120
MAX_STEPS: Final = 20_000
MAX_COERCION_WORK: Final = MAX_WORK
"""Limit of the work of checks in branches: each level checks all levels below it."""
FIT_WORK: Final = 100
"""The work of finding out how much work a check is, in checks of a plain schema."""

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_CONSTANTS: Final[Mapping[str, tuple[str, bool | None]]] = {
    "true": ("boolean", True),
    "false": ("boolean", False),
    "null": ("null", None),
    "none": ("null", None),
}
"""Types and values of words, as JSON or Python spells them."""


def coerce(document: Document, value: Any) -> Any:
    """Coerce a value to a schema, if it is unambiguous.

    A coerced value is a copy, and is not validated yet.
    """
    return _Coercion(document).coerce("#", document.schema, value, 0)


class _Coercion:
    """A traversal of a value and a schema; after too much work, it coerces no more."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._steps = self._work = 0
        self._wanted: dict[int, frozenset[str]] = {}

    def coerce(self, pointer: str, schema: Any, value: Any, depth: int) -> Any:
        self._steps += 1
        is_done = self._steps > MAX_STEPS or self._work > MAX_COERCION_WORK
        if is_done or not isinstance(schema, dict) or depth > MAX_DEPTH:
            return value
        value = self._convert_type(schema, value)
        for where, inner in self._find_applied(pointer, schema, value):
            value = self.coerce(where, inner, value, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(schema.get(keyword), list):
                value = self._coerce_to_branch(
                    child(pointer, keyword), schema[keyword], value, depth
                )
        if isinstance(value, dict):
            return self._object(pointer, schema, value, depth)
        if isinstance(value, list):
            return self._array(pointer, schema, value, depth)
        return value

    def _convert_type(self, schema: Mapping[str, Any], value: Any) -> Any:
        """Convert a value to the type that a schema names, if possible."""
        if not isinstance(value, str | float):
            return value
        wanted = self._wanted.get(id(schema))
        if wanted is None:  # cached, since a schema may list very many values
            wanted = self._wanted[id(schema)] = accepted_types(schema)
        if not wanted:
            return value
        if isinstance(value, float):
            exact = "integer" in wanted and "number" not in wanted and value.is_integer()
            return int(value) if exact else value
        return value if "string" in wanted else _from_text(value, wanted)

    def _find_applied(
        self, pointer: str, schema: Mapping[str, Any], value: Any
    ) -> list[tuple[str, Any]]:
        """Return the other schemas that apply to the same value."""
        target = self._document.target(schema.get("$ref"))
        applied = [target] if target else []
        for index, inner in enumerate(schema.get("allOf", ())):
            applied.append((child(pointer, "allOf", index), inner))
        if "if" in schema:
            keyword = "then" if self._fits(child(pointer, "if"), schema["if"], value) else "else"
            applied.append((child(pointer, keyword), schema.get(keyword)))
        if isinstance(value, dict):
            for name, inner in schema.get("dependentSchemas", {}).items():
                if name in value:
                    applied.append((child(pointer, "dependentSchemas", name), inner))
        return applied

    def _fits(self, pointer: str, schema: Any, value: Any) -> bool:
        """Return whether a value fits a branch; no more after too much work."""
        validator = self._document.validators.get(pointer)
        if validator is None or self._work > MAX_COERCION_WORK:
            return False
        self._work += FIT_WORK + self._document.work(value, schema)
        return self._work <= MAX_COERCION_WORK and validator.is_valid(value)

    def _coerce_to_branch(self, pointer: str, branches: list[Any], value: Any, depth: int) -> Any:
        """Return the value coerced to one of several schemas, unchanged if possible."""
        where = [child(pointer, index) for index in range(len(branches))]
        fitting = [i for i, each in enumerate(branches) if self._fits(where[i], each, value)]
        candidates = []
        for index in fitting or range(len(branches)):
            candidate = self.coerce(where[index], branches[index], value, depth + 1)
            if candidate is value and fitting:
                return value
            if self._fits(where[index], branches[index], candidate):
                candidates.append(candidate)
        return candidates[0] if candidates else value

    def _object(
        self, pointer: str, schema: Mapping[str, Any], value: dict[str, Any], depth: int
    ) -> dict[str, Any]:
        properties = schema.get("properties", {})
        required = schema.get("required", ())
        made: dict[str, Any] = {}
        for name, inner in value.items():
            where = child(pointer, "properties", name)
            if inner is None and name in properties and name not in required:
                if self._fits(where, properties[name], None):
                    made[name] = None
                continue
            for keys, wanted in schemas_of_property(schema, name):
                inner = self.coerce(child(pointer, *keys), wanted, inner, depth + 1)  # noqa: PLW2901 - each coerces further
            made[name] = inner
        unchanged = len(made) == len(value) and all(made[name] is value[name] for name in made)
        return value if unchanged else made

    def _array(
        self, pointer: str, schema: Mapping[str, Any], value: list[Any], depth: int
    ) -> list[Any]:
        made = []
        for index, inner in enumerate(value):
            keys, wanted = schema_of_item(schema, index)
            made.append(self.coerce(child(pointer, *keys), wanted, inner, depth + 1))
        return value if all(a is b for a, b in zip(made, value, strict=True)) else made


def _from_text(text: str, wanted: frozenset[str]) -> Any:
    kind, constant = _CONSTANTS.get(text.lower(), ("", None))
    if kind in wanted:
        return constant
    if wanted & {"integer", "number"} and _NUMBER.fullmatch(text):
        return _number(text, whole="number" not in wanted)
    if wanted & {"array", "object"} and text.lstrip()[:1] in ("[", "{"):
        try:
            made = read_json(text)
        except NotJsonError:
            return text
        return made if type_of(made) in wanted else text
    return text


def _number(text: str, *, whole: bool) -> Any:
    """Return the number in a text; the text itself if the number is too large."""
    try:
        number = json.loads(text)
    except ValueError:
        return text
    if isinstance(number, float):
        if not math.isfinite(number):
            return text
        if whole:
            return int(number) if number.is_integer() else text
    return number
