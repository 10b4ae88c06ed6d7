"""What a tool declares to be secret in its result is told to nobody."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from leonidas_tools.redaction import without_names

if TYPE_CHECKING:
    from collections.abc import Collection

    from leonidas_tools.calls import Run, ToolCall, ToolResult


@dataclass(frozen=True, kw_only=True, slots=True)
class SecretResults:
    """Masks what goes by certain names, before anything else has the result.

    Args:
        names: The names.
    """

    names: Collection[str]

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Runs the call, and masks what is secret in its result."""
        result = await run(call)
        if result.result is None:
            return result
        return replace(result, result=without_names(result.result, self.names))
