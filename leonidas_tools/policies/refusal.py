"""Refuse the calls of a tool that is disabled or quarantined, without running them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leonidas_tools.policies.base import answered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from leonidas_tools.calls.call import Run, ToolCall, ToolResult
    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """Returns the same result for every call.

    Args:
        result: The result, which states why the tool does not run.
    """

    result: ToolResult

    def __call__(self, call: ToolCall, run: Run) -> Awaitable[ToolResult]:  # noqa: ARG002 - it is a policy
        """Return the result, without running the call."""
        del run  # the tool does not run
        return answered(self.result)


def for_tool(options: EffectiveOptions, _: Shared) -> Iterator[Refusal]:
    """Yield the refusal of a tool that may not run now."""
    if options.refusal is not None:
        yield Refusal(result=options.refusal)
