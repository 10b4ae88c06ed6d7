"""Convert plain JSON arguments to the Python values that a function's annotations require."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import jsonschema_rs
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json, to_jsonable_python

from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic.fields import FieldInfo

    from leonidas_tools.errors import ToolValidationError
    from leonidas_tools.tools.schema.parameters import Parameter
    from leonidas_tools.tools.schema.plain_types import JsonSchema


class ArgumentConversion:
    """Converts validated arguments to keyword arguments.

    The values go through JSON text, since pydantic reads JSON by its own rules: an array becomes a
    set if one is required, also under `strict`. `rest` is for the arguments that no parameter
    names; `defaults` has the fields whose default only pydantic knows; `aliases` has the parameters
    that a call passes by another name.
    """

    __slots__ = ("_adapters", "_aliases", "_defaults", "_named", "_rest")

    def __init__(
        self,
        *,
        adapters: Mapping[str, TypeAdapter[Any]],
        rest: TypeAdapter[Any] | None,
        named: frozenset[str],
        defaults: Mapping[str, FieldInfo],
        aliases: Mapping[str, str],
    ) -> None:
        self._adapters = adapters
        self._rest = rest
        self._named = named
        self._defaults = defaults
        self._aliases = aliases

    @classmethod
    def of(
        cls, parameters: Sequence[Parameter], adapters: Mapping[str, TypeAdapter[Any]]
    ) -> ArgumentConversion | None:
        """Return the conversion that some parameters need; `None` if they need none."""
        needed = {
            p.argument: adapters[p.argument] for p in parameters if not p.is_plain and not p.is_rest
        }
        rest = next((adapters[p.name] for p in parameters if p.is_rest and not p.is_plain), None)
        defaults = {p.argument: p.field for p in parameters if p.is_filled and p.field is not None}
        aliases = {p.alias: p.name for p in parameters if p.alias is not None}
        if not needed and rest is None and not defaults and not aliases:
            return None
        named = frozenset(p.argument for p in parameters if not p.is_rest)
        return cls(adapters=needed, rest=rest, named=named, defaults=defaults, aliases=aliases)

    def __call__(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments that the function is called with.

        Raises:
            ToolValidationError: An argument cannot be converted.
        """
        converted = dict(arguments)
        errors: dict[str, Exception] = {}
        for name, value in arguments.items():
            adapter = self._adapters.get(name)
            if adapter is None and name not in self._named:
                adapter = self._rest
            if adapter is not None:
                try:
                    converted[name] = adapter.validate_json(to_json(value))
                except Exception as error:  # noqa: BLE001 - a validator of the user's raises anything
                    errors[name] = error
        if errors:
            raise _refusal(errors)
        for name in self._defaults.keys() - converted.keys():
            field = self._defaults[name]
            converted[name] = field.get_default(call_default_factory=True, validated_data={})
        return {self._aliases.get(name, name): value for name, value in converted.items()}


def _refusal(errors: Mapping[str, Exception]) -> ToolValidationError:
    from leonidas_tools.json_schema.report import SchemaProblem, error_of, of_pydantic

    problems: list[SchemaProblem] = []
    for name, error in errors.items():
        if isinstance(error, ValidationError):
            problems.extend(of_pydantic(error, name))
        else:
            problems.append(
                SchemaProblem(path=(name,), reason=say("argument_unreadable"), cause=error)
            )
    return error_of(problems)


def json_default(
    parameter: Parameter, schema: JsonSchema, adapter: TypeAdapter[Any] | None
) -> JsonSchema:
    """Return the `default` of a parameter's schema if it reads back as the same value."""
    default = parameter.default
    if default is inspect.Parameter.empty:
        default = parameter.field.default if parameter.field is not None else default
    try:
        value = to_jsonable_python(default, inf_nan_mode="strings")
        if adapter is None:
            fits = value == default and jsonschema_rs.is_valid(schema, value)
        else:
            fits = bool(adapter.validate_json(to_json(value)) == default)
    except Exception:  # noqa: BLE001 - a default is any object of the user
        return {}
    return {"default": value} if fits else {}
