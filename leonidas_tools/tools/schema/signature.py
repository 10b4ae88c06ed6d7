"""Read a function's signature and docstring, to describe it and to call it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from leonidas_tools.errors import SchemaError
from leonidas_tools.json_schema import ArgumentValidator
from leonidas_tools.tools.schema.annotations import adapter_of, describe
from leonidas_tools.tools.schema.conversion import ArgumentConversion, json_default
from leonidas_tools.tools.schema.parameters import Parameter, innermost, read_parameters
from leonidas_tools.tools.schema.plain_types import JsonSchema, plain_schema

_REST = r"^\s*:(?:param|parameter|arg|argument|key|keyword|type|returns?|rtype|raises?)\b"
_GOOGLE = (
    r"^(?:Args|Arguments|Parameters|Params|Attributes|Returns?|Yields?|Raises|Examples?|Notes?"
    r"|Warnings?|See Also|References|Todo):\s*$"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """The description of a function for a model, and how it is called.

    Args:
        name: The function's name.
        description: The docstring without its sections.
        parameters: A JSON Schema of type `object`.
        context_parameter: The parameter that receives the `ToolContext`, if any.
        convert: Converts validated arguments from plain JSON to keyword arguments; `None` if they
            are the same. Raises `ToolValidationError`.
        positional: Names of positional-only parameters, in order.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    context_parameter: str | None = None
    convert: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    positional: tuple[str, ...] = ()


def read_signature(function: Callable[..., Any]) -> Signature:
    """Read a function's signature and docstring.

    Raises:
        SchemaError: The signature cannot be read, or has a type without a JSON Schema.

    Example:
        >>> def add(a: int, b: int = 1) -> int:
        ...     '''Adds two numbers.'''
        >>> read_signature(add).parameters["required"]
        ['a']
    """
    name, inner = innermost(function)
    where = f"The function {name!r}"
    every = read_parameters(function, where=where)
    contexts = [parameter.name for parameter in every if parameter.is_context]
    if len(contexts) > 1:
        raise SchemaError(f"{where} takes a ToolContext twice, as {contexts!r}; keep one of them")
    parameters = [parameter for parameter in every if not parameter.is_context]
    docstring = read_docstring(inspect.getdoc(inner))
    schema, convert = _described(parameters, docstring.parameters, where=where)
    return Signature(
        name=name,
        description=docstring.description,
        parameters=schema,
        context_parameter=contexts[0] if contexts else None,
        convert=convert,
        positional=tuple(parameter.name for parameter in every if parameter.is_positional),
    )


def read_json_schema(
    function: Callable[..., Any], parameters: Mapping[str, Any], *, description: str
) -> Signature:
    """Return the signature of a tool that is described by a JSON Schema alone.

    Raises:
        SchemaError: The schema is not valid, has an unknown reference, or is not of an object.
    """
    name, _ = innermost(function)
    where = f"The schema of {name!r}"
    if not isinstance(parameters, Mapping):
        raise SchemaError(f"{where} is {parameters!r}; give a JSON Schema of type 'object'")
    schema = {"type": "object", **parameters}
    if schema["type"] not in ("object", ["object"]):
        raise SchemaError(
            f"{where} is of type {schema['type']!r}; arguments come as an object: use 'object'"
        )
    ArgumentValidator(schema)
    return Signature(
        name=name,
        description=description,
        parameters=schema,
        context_parameter=_context_of(function),
    )


def _context_of(function: Callable[..., Any]) -> str | None:
    """Return the parameter that receives the `ToolContext`; ignore other types."""
    try:
        parameters = read_parameters(function, where="", only_context=True)
    except SchemaError:  # a function without a readable signature receives no context
        return None
    return next((parameter.name for parameter in parameters if parameter.is_context), None)


def _described(
    parameters: list[Parameter], descriptions: Mapping[str, str], *, where: str
) -> tuple[JsonSchema, ArgumentConversion | None]:
    """Return the JSON Schema of all parameters, and the conversion of the arguments."""
    adapters = {
        parameter.argument: adapter_of(
            parameter.annotation, where=f"{where}: its parameter {parameter.name!r}"
        )
        for parameter in parameters
        if not parameter.is_described_plainly
    }
    schemas, definitions = describe(adapters, where=where)
    conversion = ArgumentConversion.of(parameters, adapters)
    properties: dict[str, JsonSchema] = {}
    rest: Any = False
    for parameter in parameters:
        schema = schemas.get(parameter.argument) or plain_schema(parameter.annotation) or {}
        if parameter.is_rest:
            rest = schema or True
            continue
        schema.pop("default", None)
        _add_description(schema, parameter, descriptions)
        if not parameter.is_required:
            schema.update(json_default(parameter, schema, adapters.get(parameter.argument)))
        properties[parameter.argument] = schema
    whole: JsonSchema = {"type": "object", "properties": properties}
    required = [parameter.argument for parameter in parameters if parameter.is_required]
    if required:
        whole["required"] = required
    whole["additionalProperties"] = rest
    if definitions:
        whole["$defs"] = definitions
    return whole, conversion


def _add_description(
    schema: JsonSchema, parameter: Parameter, descriptions: Mapping[str, str]
) -> None:
    """Set a parameter's description, by its annotation, docstring or type, in this order."""
    text = parameter.description or descriptions.get(parameter.name)
    if text:
        schema["description"] = text


@dataclass(frozen=True, kw_only=True, slots=True)
class Docstring:
    """The parts of a docstring that a model reads."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


def read_docstring(text: str | None) -> Docstring:
    """Parse a docstring; without a known style, all of it is the description.

    Example:
        >>> read_docstring('''Adds.
        ...
        ...     Args:
        ...         a: The first.
        ... ''')
        Docstring(description='Adds.', parameters={'a': 'The first.'})
    """
    if not text:
        return Docstring()
    text = inspect.cleandoc(text)
    lines = text.splitlines()
    start, style = _first_section(lines)
    if style is None:
        return Docstring(description=text)
    description = "\n".join(lines[:start]).strip()
    return Docstring(description=description, parameters=_parameters(text, style))


def _first_section(lines: list[str]) -> tuple[int, str | None]:
    """Return the line at which the first section begins, and its style."""
    for number, line in enumerate(lines):
        if line.startswith(":") and re.match(_REST, line):
            return number, "REST"
        if number and lines[number - 1].strip() and _is_underline(line):
            return number - 1, "NUMPYDOC"
        if line.endswith(":") and re.match(_GOOGLE, line):
            return number, "GOOGLE"
    return len(lines), None


def _is_underline(line: str) -> bool:
    return line.startswith("---") and not line.rstrip().strip("-")


def _parameters(text: str, style: str) -> dict[str, str]:
    """Return the parameters that the sections describe."""
    import docstring_parser as parser

    try:
        parsed = parser.parse(text, style=parser.DocstringStyle[style])
    except parser.ParseError:
        return {}
    return {
        name.strip().lstrip("*"): " ".join(entry.description.split())
        for entry in parsed.params
        if entry.description
        for name in entry.arg_name.split(",")
    }
