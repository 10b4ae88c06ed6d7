"""A policy: a call that happens only once is on disk before it runs, or does not run."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Protocol

from leonidas_tools.calls import ResultStatus, ToolResult
from leonidas_tools.metadata import ToolEffect
from leonidas_tools.overrides import effect_of
from leonidas_tools.store.recorder import key_of

if TYPE_CHECKING:
    from leonidas_tools.calls import Run, ToolCall
    from leonidas_tools.store.backlog import Backlog
    from leonidas_tools.store.recorder import Recorder
    from leonidas_tools.store.writer import Writer

logger = logging.getLogger(__name__)


class Begins(Protocol):
    """Keeps that a call has begun."""

    async def begun(self, call: ToolCall) -> bool:
        """Returns once that is on disk, or not to be had."""
        ...


class Beginnings:
    """Has the starts of calls written, and waits for that.

    Args:
        recorder: Makes the rows.
        backlog: Where they wait.
        writer: Writes them.
    """

    def __init__(self, recorder: Recorder, backlog: Backlog, writer: Writer) -> None:
        self.not_written = 0
        """Starts that were waited for in vain."""
        self._recorder = recorder
        self._backlog = backlog
        self._writer = writer

    async def written(self, call: ToolCall, timeout_seconds: float) -> bool:
        """Waits until the start of a call is on disk, or is not to be had there.

        Args:
            call: The call.
            timeout_seconds: How long to wait.

        Returns:
            Whether it is.
        """
        if not self._recorder.begin(call, time.time()):
            return self._is_not()
        entry = self._backlog.find(key_of(call))
        if entry is None or entry.row is None:
            return True
        written = asyncio.get_running_loop().create_future()
        entry.waiting.append(written)
        self._writer.hurry()
        try:
            async with asyncio.timeout(timeout_seconds):
                return bool(await written) or self._is_not()
        except TimeoutError:
            return self._is_not()

    def _is_not(self) -> bool:
        self.not_written += 1
        logger.warning("The start of a call is not on disk yet")
        return False


class DurableStart:
    """Has the start of each `once` call on disk before the call goes on; others do not wait.

    After a crash it is known of each such call that it may have happened. Where the store cannot
    be written to (its disk is full, another process holds it, there is no server), the call goes
    on all the same or is refused, and the store's status counts it.

    Args:
        store: Keeps that a call has begun.
        refuses: Whether a call is refused that cannot be kept.
    """

    leaves_results = True
    """What the tool has answered is handed on as it is; what it answers itself can be sent."""

    def __init__(self, store: Begins, *, refuses: bool = False) -> None:
        self._store = store
        self._refuses = refuses

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Runs the call once its start is kept."""
        tool, settings = call.tool, call.settings
        if tool is not None:
            effect = tool.metadata.effect if settings is None else effect_of(tool, settings)
            if effect is ToolEffect.ONCE:
                is_kept = await self._store.begun(call)
                if self._refuses and not is_kept:
                    return _refused(call)
        return await run(call)


def _refused(call: ToolCall) -> ToolResult:
    return ToolResult(
        status=ResultStatus.UNAVAILABLE,
        message=(
            f"Nothing was done: {call.name!r} may only run once that is written down, and just now "
            "it cannot be. Tell the user so."
        ),
        retryable=True,
        retry_hint="Try again in a while, if the user still wants it.",
        reason_code="not_recorded",
    )
