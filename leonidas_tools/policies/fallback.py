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
    from leonidas_tools.settings.tool_configuration import ToolConfiguration
    from leonidas_tools.tools.registry import AnyTool

Helps: TypeAlias = Callable[[ToolResult], bool]
"""Returns whether another tool may do the work after this result."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StandIn:
    """Another tool, with its settings and its run when the call began."""

    tool: AnyTool
    settings: ToolConfiguration
    run: Run
    helps: Helps

    def call(self, call: ToolCall) -> ToolCall:
        """Return the call of this tool in place of a call."""
        return replace(
            call,
            name=self.tool.name,
            tool=self.tool,
            settings=self.settings,
            inherited=call.known,  # the arguments may be presets of the first tool's settings
            autonomous=False,  # allowed for the first tool only
        )


Resolve: TypeAlias = Callable[[str, bool], "StandIn | None"]
"""Returns the tool of this name, for a guarded session or another; `None` if it is unknown."""

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
        others: The tools to try.
        helps: Whether another tool may do the work after this one's result.
    """

    others: Sequence[StandIn]
    helps: Helps

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call, and then other tools until one succeeds."""
        first = await run(call)
        if first.status is _OK or not self.helps(first):
            return first
        for other in self.others:
            if not current().is_open:
                break
            current().emit(EventKind.FALLBACK, to=other.tool.name, error=first.status.value)
            result = await other.run(other.call(call))
            if result.ok:
                message = say("stood_in", fallback=other.tool.name, tool=call.name)
                return replace(result, message=result.message or message)
            if result.status not in _DID_NOTHING and not other.helps(result):
                return result
        return first


def for_tool(options: EffectiveOptions, shared: Shared) -> Iterator[Fallback]:
    """Yield the fallbacks of a tool, if it has any."""
    found = [shared.resolve(name, options.guarded) for name in options.fallback_tools]
    if others := [each for each in found if each is not None]:
        yield Fallback(others=others, helps=options.may_run_again_after)
