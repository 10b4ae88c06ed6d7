"""Types whose JSON form is their Python value, and the JSON Schema of the most common of them.

pydantic needs about 40 µs to build a type and 40 µs to describe it, too much for 10,000 functions.
The schemas here are the same as those of pydantic.
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Annotated, Any, Literal, NewType, Union, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

JsonSchema = dict[str, Any]

_SCALARS: Mapping[Any, str] = types.MappingProxyType(
    {
        str: "string",
        int: "integer",
        float: "number",
        bool: "boolean",
        type(None): "null",
        None: "null",
    }
)
_CONSTRAINTS = (
    str,
    annotated_types.Interval,
    annotated_types.Ge,
    annotated_types.Gt,
    annotated_types.Le,
    annotated_types.Lt,
    annotated_types.Len,
    annotated_types.MinLen,
    annotated_types.MaxLen,
    annotated_types.MultipleOf,
)


def plain_schema(annotation: Any) -> JsonSchema | None:
    """Return the JSON Schema of a common plain type; `None` if pydantic is needed.

    Example:
        >>> plain_schema(list[int])
        {'items': {'type': 'integer'}, 'type': 'array'}
    """
    if annotation is Any or annotation is object:
        return {}
    if annotation is None or (isinstance(annotation, type) and annotation in _SCALARS):
        return {"type": _SCALARS[annotation]}
    if isinstance(annotation, NewType):
        return plain_schema(annotation.__supertype__)
    kind = annotation if annotation is list or annotation is dict else get_origin(annotation)
    read = _COMPOSED.get(kind)
    return read(get_args(annotation)) if read else None


def literal_schema(values: tuple[Any, ...]) -> JsonSchema | None:
    """Return the JSON Schema of a choice of strings or of integers, else `None`."""
    kind = type(values[0])
    if kind not in (str, int) or any(type(value) is not kind for value in values):
        return None
    if len(values) == 1:
        return {"const": values[0], "type": _SCALARS[kind]}
    return {"enum": list(values), "type": _SCALARS[kind]}


def _union(members: tuple[Any, ...]) -> JsonSchema | None:
    options: list[JsonSchema] = []
    for member in members:
        schema = plain_schema(member)
        if not schema:  # pydantic describes unions with Any differently
            return None
        options.append(schema)
    return {"anyOf": options}


def _container(kind: type, arguments: tuple[Any, ...]) -> JsonSchema | None:
    if kind is dict and arguments and arguments[0] is not str:
        return None
    inner = plain_schema(arguments[-1]) if arguments else {}
    if inner is None:
        return None
    if kind is list:
        return {"items": inner, "type": "array"}
    return {"additionalProperties": inner or True, "type": "object"}


def is_plain(annotation: Any) -> bool:
    """Return whether a value of the type is the same in Python as in JSON, constraints included."""
    if get_origin(annotation) is not Annotated:
        return plain_schema(annotation) is not None
    kind, *metadata = get_args(annotation)
    return plain_schema(kind) is not None and all(_is_constraint(entry) for entry in metadata)


def _is_constraint(entry: Any) -> bool:
    """Return whether metadata only narrows a type, in a way that JSON Schema can express."""
    if isinstance(entry, FieldInfo):
        return all(_is_constraint(inner) or _is_pattern(inner) for inner in entry.metadata)
    return isinstance(entry, _CONSTRAINTS)


def _is_pattern(entry: Any) -> bool:
    """Return whether pydantic's general metadata has a pattern and nothing else."""
    return set(getattr(entry, "__dict__", {"other": 1})) == {"pattern"}


_COMPOSED: Mapping[Any, Callable[[tuple[Any, ...]], JsonSchema | None]] = types.MappingProxyType(
    {
        Literal: literal_schema,
        Union: _union,
        types.UnionType: _union,
        list: functools.partial(_container, list),
        dict: functools.partial(_container, dict),
    }
)
