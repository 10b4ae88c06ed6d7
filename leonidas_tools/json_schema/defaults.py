"""Fill in the defaults of a schema for omitted arguments."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from leonidas_tools.json_schema.document import Document

from leonidas_tools.errors import SchemaError
from leonidas_tools.json_schema.keywords import accepted_types, type_of

_MAX_NESTED: Final = 8
"""Limit of nested defaults, which may be endless otherwise."""
_MAX_VALUES: Final = 100_000
"""Limit of the values in all defaults together: a list may repeat a default thousands of times."""


class TooManyDefaultsError(Exception):
    """Raised if arguments omit more values than may be filled in."""


class _Room:
    """Counts the values that may still be filled in."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _MAX_VALUES

    def spend(self, values: int) -> None:
        self.left -= values
        if self.left < 0:
            raise TooManyDefaultsError


_Fill: TypeAlias = Callable[[Any, int, _Room], Any]
"""Returns a value with its defaults filled in; the same object if no value is missing. The number
limits nested defaults."""


def fill_of(document: Document) -> Callable[[Any], Any] | None:
    """Return a function that fills in the defaults of a schema; `None` if it has none.

    The function raises `TooManyDefaultsError`.

    Raises:
        SchemaError: The references lead too far.
    """
    try:
        fill = _FillCompiler(document).fill(document.schema) if document.has_defaults else None
    except RecursionError:
        raise SchemaError("The schema has a too long chain of references") from None
    return None if fill is None else lambda value: fill(value, _MAX_NESTED, _Room())


class _FillCompiler:
    """Compiles a schema into one `_Fill`, and a recursive schema into a recursive one."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._made: dict[int, _Fill | None] = {}

    def fill(self, schema: Any) -> _Fill | None:
        if not isinstance(schema, dict):
            return None
        if id(schema) in self._made:
            return self._made[id(schema)]
        self._made[id(schema)] = lambda value, more, room: (
            made(value, more, room) if (made := self._made[id(schema)]) else value
        )
        fills = [fill for fill in self._fills(schema) if fill is not None]
        self._made[id(schema)] = _chain(fills)
        return self._made[id(schema)]

    def _fills(self, schema: Mapping[str, Any]) -> list[_Fill | None]:
        target = self._document.target(schema.get("$ref"))
        parts = [target[1]] if target else []
        parts.extend(schema.get("allOf", ()))
        return [self._properties(schema), self._items(schema), *(self.fill(part) for part in parts)]

    def _properties(self, schema: Mapping[str, Any]) -> _Fill | None:
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            return None
        defaults = {
            name: inner["default"]
            for name, inner in properties.items()
            if isinstance(inner, dict) and "default" in inner and _is_of_type(inner)
        }
        fills = {name: self.fill(inner) for name, inner in properties.items()}
        return _of_object(defaults, {name: fill for name, fill in fills.items() if fill})

    def _items(self, schema: Mapping[str, Any]) -> _Fill | None:
        fill = self.fill(schema.get("items"))
        return fill and _of_array(fill)


def _is_of_type(schema: Mapping[str, Any]) -> bool:
    """Return whether a default has its schema's type: many schemas write null for "no default"."""
    wanted = accepted_types(schema)
    kind = type_of(schema["default"])
    return not wanted or kind in wanted or (kind == "integer" and "number" in wanted)


def _chain(fills: list[_Fill]) -> _Fill | None:
    if len(fills) < 2:  # noqa: PLR2004 - none, or one that needs no chain
        return fills[0] if fills else None

    def fill_all(value: Any, more: int, room: _Room) -> Any:
        for fill in fills:
            value = fill(value, more, room)
        return value

    return fill_all


def _of_object(defaults: Mapping[str, Any], fills: Mapping[str, _Fill]) -> _Fill | None:
    if not defaults and not fills:
        return None
    names = frozenset(defaults)
    fresh = {name: _copier(value) for name, value in defaults.items()}
    sizes = {name: _size(value) for name, value in defaults.items()}

    def fill_object(value: Any, more: int, room: _Room) -> Any:
        if not isinstance(value, dict):
            return value
        made = value
        if not names <= value.keys():
            missing = names - value.keys()
            room.spend(sum(sizes[name] for name in missing))
            made = {**value, **{name: fresh[name]() for name in fresh if name in missing}}
        if not fills:
            return made
        inner = {
            name: fill(made[name], more if name in value else more - 1, room)
            for name, fill in fills.items()
            if name in made and (more or name in value)
        }
        changed = any(made[name] is not part for name, part in inner.items())
        return {**made, **inner} if changed else made

    return fill_object


def _copier(value: Any) -> Callable[[], Any]:
    """Return a function that copies a default, so that no tool can change it for a later call."""
    if isinstance(value, dict | list):
        return lambda: copy.deepcopy(value)
    return lambda: value


def _of_array(fill: _Fill) -> _Fill:
    def fill_array(value: Any, more: int, room: _Room) -> Any:
        if not isinstance(value, list):
            return value
        made = [fill(entry, more, room) for entry in value]
        return value if all(a is b for a, b in zip(made, value, strict=True)) else made

    return fill_array


def _size(value: Any) -> int:
    """Return the number of values in a default."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_size, inner))
