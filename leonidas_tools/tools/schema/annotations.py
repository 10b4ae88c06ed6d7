"""Generate JSON Schemas from annotations, by pydantic unless a type is plain."""

from __future__ import annotations

import enum
import sys
import types
import typing
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
)

import typing_extensions
from pydantic import TypeAdapter, WithJsonSchema
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from leonidas_tools.errors import SchemaError
from leonidas_tools.tools.schema.plain_types import literal_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.tools.schema.plain_types import JsonSchema

_PREFIX = "#/$defs/"
_HAS_TYPED_DICTS = sys.version_info >= (3, 12)


class _Untitled(GenerateJsonSchema):
    """A generator without titles, which would only repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the base's name
        return False


def adapter_of(annotation: Any, *, where: str) -> TypeAdapter[Any]:
    """Return the adapter that converts JSON to the type.

    Raises:
        SchemaError: The type has no JSON form.
    """
    try:
        return TypeAdapter(readable(annotation))
    except PydanticUserError as error:
        reason = error.message.splitlines()[0]
        raise SchemaError(
            f"{where} is annotated {annotation!r}, for which no JSON Schema can be generated "
            f"({reason}); use a type that pydantic knows"
        ) from error


def describe(
    adapters: Mapping[str, TypeAdapter[Any]], *, where: str
) -> tuple[dict[str, JsonSchema], JsonSchema]:
    """Return the JSON Schema of each type, and the definitions that they share.

    Raises:
        SchemaError: A type cannot be described.
    """
    if not adapters:
        return {}, {}
    try:
        made, shared = TypeAdapter.json_schemas(
            [(name, "validation", adapter) for name, adapter in adapters.items()],
            schema_generator=_Untitled,
        )
    except PydanticUserError as error:
        reason = error.message.splitlines()[0]
        raise SchemaError(
            f"{where} has a parameter for which no JSON Schema can be generated: {reason}"
        ) from error
    inlining = _Inlining(shared.get("$defs", {}))
    return {name: inlining.of(schema) for (name, _), schema in made.items()}, inlining.recursive


class _Inlining:
    """Inlines definitions, except recursive ones.

    Gemini ignores the keywords beside a `$ref`, such as the description of a parameter.
    """

    def __init__(self, definitions: Mapping[str, JsonSchema]) -> None:
        self._definitions = definitions
        self._open: list[str] = []
        self.recursive: JsonSchema = {}

    def of(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return [self.of(entry) for entry in schema]
        if not isinstance(schema, dict):
            return schema
        reference = schema.get("$ref")
        beside = {key: self.of(value) for key, value in schema.items() if key != "$ref"}
        if "oneOf" in beside:
            beside.pop("discriminator", None)  # OpenAPI's, and it points at definitions
        if not isinstance(reference, str):
            return beside if reference is None else {"$ref": self.of(reference), **beside}
        return self._resolved(reference, beside)

    def _resolved(self, reference: str, beside: JsonSchema) -> JsonSchema:
        name = reference.removeprefix(_PREFIX)
        if name in self.recursive:
            return {"$ref": reference, **beside}
        if name not in self._definitions:  # the data of a default or an enumeration
            return {"$ref": reference, **beside}
        if name in self._open:
            self.recursive[name] = {}
            return {"$ref": reference, **beside}
        self._open.append(name)
        definition = self.of(self._definitions[name])
        self._open.pop()
        definition.pop("title", None)
        if name not in self.recursive:
            return {**definition, **beside}
        self.recursive[name] = definition
        return {"$ref": reference, **beside}


def readable(annotation: Any) -> Any:
    """Return the same type with each part replaced that pydantic cannot read.

    These are, before Python 3.12, the `TypedDict` of `typing`, and a `Literal` of enumeration
    members, which pydantic compares with the JSON value directly. A recursive `TypedDict` does
    not change.
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
    """Return whether a TypedDict is of `typing`; pydantic reads those of typing_extensions."""
    return type(kind).__module__ == "typing"


def _literal(annotation: Any, members: tuple[Any, ...]) -> Any:
    """Return an enumeration with a schema that allows only these members."""
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
