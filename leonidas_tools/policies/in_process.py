"""Run `cpu_bound` tools in processes that are ready before the timeout starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.call import Run, ToolCall, ToolResult
from leonidas_tools.errors import ToolError
from leonidas_tools.tools.metadata import RunsOn
from leonidas_tools.workers.portable import Target, target_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions
    from leonidas_tools.workers.processes import Processes


class InProcess:
    """Waits for a worker process, and reserves it for one attempt."""

    __slots__ = ("_target", "function", "processes")

    def __init__(self, *, processes: Processes, function: Callable[..., Any]) -> None:
        self.processes = processes
        self.function = function
        self._target: Target | None = None

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call while a process is reserved for it."""
        try:
            if self._target is None:  # its module may not be fully imported at compile time
                self._target = target_of(self.function)
            async with self.processes.lease(self._target):
                return await run(call)
        except ToolError as error:
            return ToolResult.from_error(error)


def for_tool(options: EffectiveOptions, shared: Shared) -> Iterator[InProcess]:
    """Yield the wait for a process, outside the timeout: the wait is not the tool's time."""
    if options.tool.metadata.cpu_bound and options.runs_on is RunsOn.HERE:
        yield InProcess(processes=shared.workers.processes, function=options.tool.function)
