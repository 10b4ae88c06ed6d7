"""Mark the session of a call whose results may come from anyone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leonidas_tools.approvals.untrusted import mark
from leonidas_tools.calls.events import EventKind
from leonidas_tools.calls.invocation import current

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leonidas_tools.calls.call import Run, ToolCall, ToolResult
    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class Untrusted:
    """Marks the session; the approval policy then asks about later calls.

    Args:
        at_start: Whether the model reads output of the tool while it runs.
    """

    at_start: bool

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call, and mark its session."""
        if self.at_start:
            _mark(call)
        try:
            return await run(call)
        finally:  # also after an exception: its text may come from outside
            _mark(call)


def _mark(call: ToolCall) -> None:
    if mark(call):
        current().emit(EventKind.UNTRUSTED)


def for_tool(options: EffectiveOptions, _: Shared) -> Iterator[Untrusted]:
    """Yield the policy that marks the session, for a tool with untrusted results."""
    if options.untrusted:
        yield Untrusted(at_start=options.tells_progress)
