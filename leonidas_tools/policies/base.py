"""A policy: something around a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from leonidas_tools.calls.call import Run, ToolCall, ToolResult


class Policy(Protocol):
    """Something around a call.

    With `leaves_results = True` it promises to return the result of `run` unchanged, or one that
    can be sent. The results of a user's other policies are normalised again.
    """

    def __call__(self, call: ToolCall, run: Run) -> Awaitable[ToolResult]:
        """Run the call, or answer it without running it; usually an async function.

        If nothing follows the call, return `run(call)`: this saves a coroutine for every call.
        """
        ...


async def answered(result: ToolResult) -> ToolResult:
    """Return the result, as an awaitable."""
    return result


async def awaited(call: ToolCall, run: Run) -> ToolResult:
    """Run the call when that is awaited, which others may do later, in a task, or never."""
    return await run(call)
