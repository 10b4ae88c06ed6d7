"""Annotations → JSON Schema, by pydantic where a type is not a plain one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from leonidas_tools.errors import SchemaError
from leonidas_tools.tools.schema.readable import readable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.tools.schema.plain_types import JsonSchema

_PREFIX = "#/$defs/"


class _Untitled(GenerateJsonSchema):
    """Says nothing by `title` that the name does not say."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the base's name
        return False


def adapter_of(annotation: Any, *, where: str) -> TypeAdapter[Any]:
    """Return what converts JSON to the type.

    Raises:
        SchemaError: No JSON can be made of the type.
    """
    try:
        return TypeAdapter(readable(annotation))
    except PydanticUserError as error:
        reason = error.message.splitlines()[0]
        raise SchemaError(
            f"{where} is annotated {annotation!r}, of which no JSON Schema can be made ({reason}); "
            "use a type that pydantic knows"
        ) from error


def describe(
    adapters: Mapping[str, TypeAdapter[Any]], *, where: str
) -> tuple[dict[str, JsonSchema], JsonSchema]:
    """Return the JSON Schema of each type, and the definitions that they share.

    Raises:
        SchemaError: Some type cannot be described.
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
            f"{where} has a parameter of which no JSON Schema can be made: {reason}"
        ) from error
    inlining = _Inlining(shared.get("$defs", {}))
    return {name: inlining.of(schema) for (name, _), schema in made.items()}, inlining.recursive


class _Inlining:
    """Puts definitions where they are referred to, except those that contain themselves.

    Gemini ignores what stands beside a `$ref`, which is where a parameter has its description.
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
