"""Types as pydantic reads them from JSON.

Two it does not: before Python 3.12 the `TypedDict` of `typing`, and a `Literal` of enumeration
members, which it compares with the JSON value as they are.
"""

from __future__ import annotations

import enum
import sys
import types
import typing
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

import typing_extensions
from pydantic import WithJsonSchema

from leonidas_tools.tools.schema.plain_types import literal_schema

_HAS_TYPED_DICTS = sys.version_info >= (3, 12)


def readable(annotation: Any) -> Any:
    """Return the same type with each part that pydantic does not read made again.

    A `TypedDict` that contains itself does not change.
    """
    return _rebuilt(annotation, frozenset())


def _rebuilt(annotation: Any, inside: frozenset[Any]) -> Any:
    if typing.is_typeddict(annotation):
        is_fine = _HAS_TYPED_DICTS or annotation in inside or not _is_of_typing(annotation)
        return annotation if is_fine else _typed_dict(annotation, inside)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return _literal(annotation, arguments)
    if origin is Annotated:
        return Annotated[(_rebuilt(arguments[0], inside), *arguments[1:])]
    made = tuple(_rebuilt(argument, inside) for argument in arguments)
    if all(a is b for a, b in zip(made, arguments, strict=True)):
        return annotation
    if origin in (Union, types.UnionType):
        return Union[made]  # noqa: UP007 - its members are known at run time only
    return annotation.copy_with(made) if hasattr(annotation, "copy_with") else origin[made]


def _is_of_typing(kind: Any) -> bool:
    """Return whether a TypedDict is not one of typing_extensions, which pydantic reads."""
    return type(kind).__module__ == "typing"


def _literal(annotation: Any, members: tuple[Any, ...]) -> Any:
    """Return an enumeration that is told as the members named; the schema keeps others out."""
    kind = type(members[0])
    if not issubclass(kind, enum.Enum) or any(type(member) is not kind for member in members):
        return annotation
    values = tuple(member.value for member in members)
    schema = literal_schema(values) or {"enum": list(values)}
    return Annotated[kind, WithJsonSchema(schema)]


def _typed_dict(kind: Any, inside: frozenset[Any]) -> Any:
    fields: dict[str, Any] = {}
    for name, annotation in typing.get_type_hints(kind, include_extras=True).items():
        inner, needed = annotation, name in kind.__required_keys__
        if get_origin(annotation) in (Required, NotRequired):
            needed = get_origin(annotation) is Required
            (inner,) = get_args(annotation)
        rebuilt = _rebuilt(inner, inside | {kind})
        fields[name] = Required[rebuilt] if needed else NotRequired[rebuilt]
    made = typing_extensions.TypedDict(kind.__name__, fields)  # type: ignore[misc]  # at run time
    made.__doc__ = kind.__doc__
    made.__module__ = kind.__module__
    return made
