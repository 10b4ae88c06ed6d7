"""A policy: a call that happens only once is on disk before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from leonidas_tools.metadata import ToolEffect
from leonidas_tools.overrides import effect_of

if TYPE_CHECKING:
    from leonidas_tools.calls import Run, ToolCall, ToolResult


class Begins(Protocol):
    """Keeps that a call has begun."""

    async def begun(self, call: ToolCall) -> bool:
        """Returns once that is on disk, or not to be had."""
        ...


class DurableStart:
    """Has the start of each `once` call on disk before the call goes on; others do not wait.

    After a crash it is known of each such call that it may have happened. Where the store cannot
    be written to, the call goes on all the same, and the store's status counts it.

    Args:
        store: Keeps that a call has begun.
    """

    def __init__(self, store: Begins) -> None:
        self._store = store

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Runs the call once its start is kept."""
        tool, settings = call.tool, call.settings
        if tool is not None:
            effect = tool.metadata.effect if settings is None else effect_of(tool, settings)
            if effect is ToolEffect.ONCE:
                await self._store.begun(call)
        return await run(call)
