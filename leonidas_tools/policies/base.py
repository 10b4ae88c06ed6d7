"""A policy, and how several are put around a function."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.calls import Run, ToolCall, ToolResult


class Policy(Protocol):
    """Something around a call."""

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Runs the call, or decides otherwise."""
        ...


def compose(policies: Sequence[Policy], run: Run) -> Run:
    """Puts policies around `run`, the first outermost."""
    for policy in reversed(policies):
        run = functools.partial(policy, run=run)
    return run
