"""`typing.TypedDict` as pydantic reads it: before Python 3.12 that of typing_extensions."""

from __future__ import annotations

import sys
import types
import typing
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

import typing_extensions


def readable(annotation: Any) -> Any:
    """The same type with each `typing.TypedDict` in it made again where pydantic refuses it.

    One that contains itself stays as it is.
    """
    if sys.version_info >= (3, 12):
        return annotation
    return _rebuilt(annotation, frozenset())


def _rebuilt(annotation: Any, inside: frozenset[Any]) -> Any:
    if type(annotation) is typing._TypedDictMeta:  # type: ignore[attr-defined]  # noqa: SLF001 - what pydantic refuses
        return annotation if annotation in inside else _made_again(annotation, inside)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is None or origin is Literal:
        return annotation
    if origin is Annotated:
        return Annotated[(_rebuilt(arguments[0], inside), *arguments[1:])]
    made = tuple(_rebuilt(argument, inside) for argument in arguments)
    if all(a is b for a, b in zip(made, arguments, strict=True)):
        return annotation
    if origin in (Union, types.UnionType):
        return Union[made]  # noqa: UP007 - members known at run time only
    return annotation.copy_with(made) if hasattr(annotation, "copy_with") else origin[made]


def _made_again(kind: Any, inside: frozenset[Any]) -> Any:
    fields: dict[str, Any] = {}
    for name, annotation in typing.get_type_hints(kind, include_extras=True).items():
        inner, needed = annotation, name in kind.__required_keys__
        if get_origin(annotation) in (Required, NotRequired):
            needed = get_origin(annotation) is Required
            (inner,) = get_args(annotation)
        rebuilt = _rebuilt(inner, inside | {kind})
        fields[name] = Required[rebuilt] if needed else NotRequired[rebuilt]
    made = typing_extensions.TypedDict(kind.__name__, fields)  # type: ignore[misc]  # made at run time
    made.__doc__ = kind.__doc__
    made.__module__ = kind.__module__
    return made
