"""When a tool stays down, another one does its work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from leonidas_tools.calls import Run, ToolCall, ToolResult
from leonidas_tools.events import EventKind
from leonidas_tools.invocation import current

Resolve: TypeAlias = Callable[[str, ToolCall], "tuple[ToolCall, Run] | None"]
"""Name of a tool, a call → the call addressed to that tool, and what runs it with its policies."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fallback:
    """Tries other tools in turn, with the same arguments and under their own policies.

    Args:
        names: The tools to try.
        resolve: Finds them.
        helps: Whether another tool may do the work after this result.
    """

    names: Sequence[str]
    resolve: Resolve
    helps: Callable[[ToolResult], bool]

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Runs the call, and others in its place while it fails."""
        result = first = await run(call)
        for name in self.names:
            if not self.helps(result):
                return result
            found = self.resolve(name, call)
            if found is None:
                continue
            current().emit(EventKind.FALLBACK, to=name, error=result.status.value)
            other, run_other = found
            result = await run_other(other)
            if result.ok:
                said = f"{name!r} stood in for {call.name!r}."
                return replace(result, message=result.message or said)
        return first if self.helps(result) else result
