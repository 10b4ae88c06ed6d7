"""The interface of a policy, which wraps the run of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from leonidas_tools.calls.call import Run, ToolCall, ToolResult


class Policy(Protocol):
    """Wraps the run of a call.

    With `leaves_results = True`, a policy promises to return the result of `run` unchanged, or a
    result that can be sent. The results of a user's other policies are normalised again.
    """

    def __call__(self, call: ToolCall, run: Run) -> Awaitable[ToolResult]:
        """Run the call, or return a result without running it; usually an async function.

        If no code follows the call, return `run(call)`: this saves a coroutine for every call.
        """
        ...


async def answered(result: ToolResult) -> ToolResult:
    """Return the result, as an awaitable."""
    return result


async def awaited(call: ToolCall, run: Run) -> ToolResult:
    """Run the call only when this is awaited: a policy may do so later, in a task, or never."""
    return await run(call)
