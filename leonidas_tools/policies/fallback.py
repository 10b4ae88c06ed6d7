"""Try other tools when one stays down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from leonidas_tools.calls.call import ResultStatus, Run, ToolCall, ToolResult
from leonidas_tools.calls.events import EventKind
from leonidas_tools.calls.invocation import current
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions

Helps: TypeAlias = Callable[[ToolResult], bool]
"""Predicate of a result: true if another tool may do the work after it."""
Resolve: TypeAlias = Callable[[str, ToolCall], "tuple[ToolCall, Run, Helps] | None"]
"""Name of a tool, a call → the call addressed to that tool, and what runs it with its policies."""

_OK = ResultStatus.OK
_DID_NOTHING = frozenset(
    {
        ResultStatus.INVALID_ARGUMENT,
        ResultStatus.DISABLED,
        ResultStatus.DENIED,
        ResultStatus.LOOP,
        ResultStatus.LIMITED,
        ResultStatus.UNAVAILABLE,
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fallback:
    """Tries other tools in turn, with the same arguments and under their own policies.

    Args:
        names: The tools to try.
        resolve: Finds them.
        helps: Whether another tool may do the work after this one's result.
    """

    names: Sequence[str]
    resolve: Resolve
    helps: Helps

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call, and others in its place while it fails."""
        first = await run(call)
        if first.status is _OK or not self.helps(first):
            return first
        for name in self.names:
            found = self.resolve(name, call)
            if found is None or not current().is_open:
                continue
            other, run_other, helps = found
            current().emit(EventKind.FALLBACK, to=name, error=first.status.value)
            result = await run_other(other)
            if result.ok:
                message = say("stood_in", fallback=name, tool=call.name)
                return replace(result, message=result.message or message)
            if result.status not in _DID_NOTHING and not helps(result):
                return result
        return first


def for_tool(options: EffectiveOptions, shared: Shared) -> Iterator[Fallback]:
    """Yield what tries other tools when this one stays down."""
    if options.fallback_tools:
        yield Fallback(
            names=options.fallback_tools, resolve=shared.resolve, helps=options.may_run_again_after
        )
