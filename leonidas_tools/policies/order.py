"""The order of all policies, outermost first.

To add a policy, write a file with a function `for_tool(options, shared)` that yields it for the
tools that need it, declare its option in `ToolOptions`, and add its line here: see
docs/guides/write-a-policy.md. A plain tool gets only the policies that it uses.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leonidas_tools.policies.base import Policy
    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions

    ForTool: TypeAlias = Callable[[EffectiveOptions, Shared], Iterator[Policy]]

ORDER: Final = (
    "tracing.for_tool",  # outermost: the span includes all waits of a call
    "loop_guard.for_tool",
    "refusal.for_tool",
    "hooks.for_tool",
    "validation.for_tool",
    "cancelled_call.for_tool",  # outside approval: nobody is asked about what does not run
    "dependencies.for_tool",
    "approval.for_tool",
    "inquiries.for_tool",
    "untrusted.for_tool",  # outside the cache: a cached result marks the session too
    "cache.for_tool",  # inside approval: one session must not see what only another may see
    "call_limits.for_tool",
    "timeout.deadline_for_tool",
    "fallback.for_tool",  # outside the lane: two tools of one lane would wait for each other
    "lane.for_tool",
    "limit.for_tool",
    "breaker.for_tool",
    "retry.for_tool",
    "approval.late_for_tool",  # inside all waits of a call: the user may have said no meanwhile
    "in_process.for_tool",  # outside the timeout: the wait for a process is not the tool's time
    "timeout.for_tool",
    "result_budget.for_tool",
)
"""The file in this directory and the function of each policy."""


def policy_functions() -> tuple[ForTool, ...]:
    """Return the functions that yield the policies of a tool, outermost first."""
    named = [entry.split(".") for entry in ORDER]
    return tuple(
        getattr(importlib.import_module(f"leonidas_tools.policies.{module}"), function)
        for module, function in named
    )
