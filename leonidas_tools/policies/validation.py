"""Arguments that do not fit the schema never reach the tool."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls import Run, ToolCall, ToolResult
from leonidas_tools.errors import ToolValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, kw_only=True, slots=True)
class Validation:
    """Checks and completes the arguments of a call.

    Args:
        validator: Arguments → valid arguments; raises `ToolValidationError`.
        presets: Values for arguments that the model leaves out.
    """

    validator: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    presets: Mapping[str, Any] = field(default_factory=dict)

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Runs the call with valid arguments only."""
        arguments = call.arguments
        if self.presets:
            arguments = {**self.presets, **arguments}
        try:
            valid = self.validator(arguments)
        except ToolValidationError as error:
            return ToolResult.from_error(error)
        if valid is not call.arguments:
            call = call.with_arguments(valid)
        return await run(call)
