"""The user's own policies, and plain functions before and after a call."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.calls.call import Run, ToolCall, ToolResult
from leonidas_tools.calls.sendable import is_long, sendable
from leonidas_tools.policies.base import run_when_awaited
from leonidas_tools.redaction import Masking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leonidas_tools.policies.base import Policy
    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions

BeforeFunction: TypeAlias = Callable[
    [ToolCall], "Awaitable[ToolCall | ToolResult | None] | ToolCall | ToolResult | None"
]
AfterFunction: TypeAlias = Callable[
    [ToolCall, ToolResult], "Awaitable[ToolResult | None] | ToolResult | None"
]

_MAX_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Before:
    """Calls a function before the tool runs.

    Args:
        function: Receives the call; returns another call, a result that replaces the tool's, or
            `None` for no change. A changed call is validated again.
        max_bytes: Maximum length of the JSON of its own result, in bytes; a runtime sets it to
            the limit of the tool.

    Example:
        >>> audit = []
        >>> policy = Before(lambda call: audit.append(call.name))
    """

    function: BeforeFunction
    max_bytes: int = _MAX_BYTES

    def __call__(self, call: ToolCall, run: Run) -> Awaitable[ToolResult]:
        """Run the call as the function has changed it, or return the function's result."""
        changed = self.function(call)
        return run(call) if changed is None else self._run_changed(call, run, changed)

    async def _run_changed(self, call: ToolCall, run: Run, changed: Any) -> ToolResult:
        if inspect.isawaitable(changed):
            changed = await changed
        if isinstance(changed, ToolResult):
            # A result that is normalised here needs no step around every call.
            return sendable(changed, self.max_bytes, tool=call.name)
        return await run(changed or call)


@dataclass(frozen=True, slots=True)
class After:
    """Calls a function after the tool has run.

    Args:
        function: Receives the call and its result; returns another result, or `None`.
    """

    function: AfterFunction

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call, and pass its result to the function."""
        result = await run(call)
        changed = self.function(call, result)
        if inspect.isawaitable(changed):
            changed = await changed
        return changed or result


def for_tool(options: EffectiveOptions, shared: Shared) -> Iterator[Policy]:
    """Yield the policies of the user, inside a step that normalises the results they create."""
    policies = [_set_max_bytes(policy, options) for policy in shared.users_policies]
    if any(not _leaves_results(policy) for policy in policies):
        yield partial(
            _normalize, max_bytes=options.max_result_bytes, in_thread=shared.workers.in_thread
        )
    for policy in policies:
        yield policy
        if not _leaves_results(policy):
            yield run_when_awaited


def _set_max_bytes(policy: Policy, options: EffectiveOptions) -> Policy:
    if type(policy) is Before:
        return replace(policy, max_bytes=options.max_result_bytes)
    return policy


def _leaves_results(policy: Policy) -> bool:
    """Return whether a policy declares that it does not change results."""
    return type(policy) is Before or getattr(policy, "leaves_results", False) is True


async def _normalize(
    call: ToolCall, run: Run, *, max_bytes: int, in_thread: Callable[..., Awaitable[ToolResult]]
) -> ToolResult:
    mask = Masking(call.known) if call.known else None
    result = await run(call)
    convert = partial(sendable, result, max_bytes, tool=call.name, mask=mask)
    # Searching a long result for secrets takes a while, so it runs in a thread.
    return await in_thread(convert) if mask is not None and is_long(result) else convert()
