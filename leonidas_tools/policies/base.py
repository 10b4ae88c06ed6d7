"""A policy, and how several are put around a function."""

from __future__ import annotations

import inspect
from types import MethodType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from leonidas_tools.calls.call import Run, ToolCall, ToolResult


class Policy(Protocol):
    """Something around a call.

    With `leaves_results = True` it promises to return the result of `run` unchanged, or one that
    can be sent. The results of a user's other policies are normalised again.
    """

    def __call__(self, call: ToolCall, run: Run) -> Awaitable[ToolResult]:
        """Run the call, or answer it without running it; usually an async function.

        One that does nothing after the call returns `run(call)` as it is: that is no coroutine
        more for every call.
        """
        ...


async def answered(result: ToolResult) -> ToolResult:
    """Return the result, as an awaitable."""
    return result


async def awaited(call: ToolCall, run: Run) -> ToolResult:
    """Run the call when that is awaited, which others may do later, in a task, or never."""
    return await run(call)


def compose(policies: Sequence[Policy], run: Run) -> Run:
    """Put policies around `run`, the first outermost."""
    for policy in reversed(policies):
        run = _around(policy, run)
    return run


def _around(policy: Policy, run: Run) -> Run:
    # A bound method in a closure: an object that is called through `partial` takes twice as long.
    own = inspect.getattr_static(type(policy), "__call__")
    around: Policy = MethodType(own, policy) if inspect.isfunction(own) else policy

    def call_in(call: ToolCall) -> Awaitable[ToolResult]:
        return around(call, run=run)

    return call_in
