"""Validate arguments before they reach the tool."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.call import Run, ToolCall, ToolResult
from leonidas_tools.errors import ToolValidationError
from leonidas_tools.json_schema import ArgumentValidator, error_without
from leonidas_tools.policies.base import answered
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions

logger = visible_logger(__name__)

_SAYS_WHAT_FITS = ("$schema", "$id", "$defs", "definitions", "properties")


@dataclass(frozen=True, kw_only=True, slots=True)
class Validation:
    """Validates the arguments of a call, and adds presets.

    Args:
        validator: Returns valid arguments, or raises `ToolValidationError`.
        presets: Values for arguments that the model leaves out.
    """

    validator: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    presets: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, call: ToolCall, run: Run) -> Awaitable[ToolResult]:
        """Run the call only with valid arguments."""
        arguments = call.arguments
        if self.presets and not self.presets.keys() <= arguments.keys():
            arguments = {**self.presets, **arguments}
        try:
            valid = self.validator(arguments)
        except ToolValidationError as caught:
            # A preset may be secret: the model must not read it.
            error = error_without(call.known, caught, self.validator, arguments)
            message = say("invalid_argument", problem=error.message, tool=call.name)
            return answered(replace(ToolResult.from_error(error), message=message))
        if valid is not call.arguments:
            call = call.with_arguments(valid)
        return run(call)


def fitting_presets(
    tool_name: str, parameters: Mapping[str, Any], presets: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the presets that name a parameter and match its schema.

    A preset that does not match is left out: the model could not correct it, and must not read it.
    """
    schema = {key: parameters[key] for key in _SAYS_WHAT_FITS if key in parameters}
    known = {k: v for k, v in presets.items() if k in parameters.get("properties", {})}
    fitting = {}
    for name, value in known.items():
        try:
            ArgumentValidator(schema)({name: value})
        except ToolValidationError:
            where = f"custom_parameters.{name}"
            logger.warning(
                "The preset %s of %r does not match its schema and is ignored", where, tool_name
            )
        else:
            fitting[name] = value
    return fitting


def for_tool(options: EffectiveOptions, _: Shared) -> Iterator[Validation]:
    """Yield the validation of a tool's arguments."""
    tool = options.tool
    given = options.settings.custom_parameters
    presets = fitting_presets(tool.name, tool.metadata.parameters, given) if given else {}
    yield Validation(validator=tool.validator, presets=presets)
