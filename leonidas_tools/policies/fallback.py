"""Try other tools if a tool fails."""

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
"""Returns whether another tool may do the work after this result."""
Resolve: TypeAlias = Callable[[str, ToolCall], "tuple[ToolCall, Run, Helps] | None"]
"""Returns the call of another tool, its run with policies, and its `Helps`; `None` if unknown."""

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
    """Tries other tools one after another, with the same arguments and under their own policies.

    Args:
        names: The tools to try.
        resolve: Returns the call and the run of each tool.
        helps: Whether another tool may do the work after this one's result.
    """

    names: Sequence[str]
    resolve: Resolve
    helps: Helps

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call, and then other tools until one succeeds."""
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
    """Yield the fallbacks of a tool, if it has any."""
    if options.fallback_tools:
        yield Fallback(
            names=options.fallback_tools, resolve=shared.resolve, helps=options.may_run_again_after
        )
