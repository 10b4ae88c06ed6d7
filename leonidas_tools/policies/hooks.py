"""Plain functions before and after a call, as policies."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from leonidas_tools.calls import Run, ToolCall, ToolResult

BeforeFunction: TypeAlias = Callable[
    [ToolCall], "Awaitable[ToolCall | ToolResult | None] | ToolCall | ToolResult | None"
]
AfterFunction: TypeAlias = Callable[
    [ToolCall, ToolResult], "Awaitable[ToolResult | None] | ToolResult | None"
]


@dataclass(frozen=True, slots=True)
class Before:
    """Calls a function before the tool runs.

    Args:
        function: Takes the call; returns another call, a result that stands for the tool's, or
            `None` to let the call be. What it changes is validated again.

    Example:
        >>> audit = []
        >>> policy = Before(lambda call: audit.append(call.name))
    """

    function: BeforeFunction

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Runs the call as the function leaves it."""
        changed = self.function(call)
        if inspect.isawaitable(changed):
            changed = await changed
        if isinstance(changed, ToolResult):
            return changed
        return await run(changed or call)


@dataclass(frozen=True, slots=True)
class After:
    """Calls a function after the tool has run.

    Args:
        function: Takes the call and its result; returns another result, or `None`.
    """

    function: AfterFunction

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Runs the call, and lets the function see the result."""
        result = await run(call)
        changed = self.function(call, result)
        if inspect.isawaitable(changed):
            changed = await changed
        return changed or result
