"""A policy: a call that happens only once is on disk before it runs, or does not run."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Protocol

from leonidas_tools.calls.call import ResultStatus, ToolResult, repeated, same_arguments
from leonidas_tools.calls.invocation import current
from leonidas_tools.errors import StoreError, log_level
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import say
from leonidas_tools.settings.effective import effect_of
from leonidas_tools.store.queries import find_same_id
from leonidas_tools.store.recorder import key_of, name_of
from leonidas_tools.store.rows import INTERRUPTED, STARTED
from leonidas_tools.tools.metadata import ToolEffect

if TYPE_CHECKING:
    from leonidas_tools.calls.call import Run, ToolCall
    from leonidas_tools.store.backlog import Backlog
    from leonidas_tools.store.database import Database
    from leonidas_tools.store.recorder import Recorder
    from leonidas_tools.store.rows import Execution
    from leonidas_tools.store.writer import Writer

logger = visible_logger(__name__)


class Begins(Protocol):
    """Keeps that a call has begun."""

    async def earlier(self, call: ToolCall) -> ToolResult | None:
        """Return the answer to a call that was made before under the same id.

        Raises:
            StoreError: That cannot be found out.
        """
        ...

    async def begun(self, call: ToolCall) -> bool:
        """Return once that is on disk, or not to be had."""
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
        """Starts that could not be written in time."""
        self._recorder = recorder
        self._backlog = backlog
        self._writer = writer

    async def written(self, call: ToolCall, timeout_seconds: float) -> bool:
        """Wait until the start of a call is on disk, or is not to be had there.

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

    async def earlier(self, call: ToolCall, database: Database) -> ToolResult | None:
        """Return the answer to a call that its session has made before.

        Args:
            call: A running call; its id, tool and arguments are compared.
            database: Where calls are kept.

        Raises:
            StoreError: It cannot be read.
        """
        if call.id is None:
            return None
        came = asked_as(call)
        own = self._backlog.find(key_of(call))
        found = await find_same_id(
            database, call_id=name_of(call.id), session=name_of(call.session.id), tool=came.name
        )
        arguments = json.loads(self._recorder.arguments(came))
        for before in found:
            is_own = own is not None and before.id == own.id
            if not is_own and same_arguments(before.arguments, arguments):
                return _outcome(before)
        return None

    def _is_not(self) -> bool:
        self.not_written += 1
        logger.warning("The start of a call is not on disk yet")
        return False


class DurableStart:
    """Has the start of each `once` call on disk before the call goes on; others do not wait.

    After a crash it is known of each such call that it may have happened. Where the store cannot
    be written to (its disk is full, another process holds it, there is no server), the call goes
    on unrecorded or is refused, and the store's status counts it. A call that the session has
    made before, under the same id and with the same arguments, is answered from the store.

    Args:
        store: Keeps that a call has begun.
        refuses: Whether a call is refused that cannot be kept.
    """

    leaves_results = True
    """It returns the result of the tool unchanged; its own results can be sent."""

    def __init__(self, store: Begins, *, refuses: bool = False) -> None:
        self._store = store
        self._refuses = refuses

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call once its start is kept."""
        tool, settings = call.tool, call.settings
        if tool is not None:
            effect = tool.metadata.effect if settings is None else effect_of(tool, settings)
            if effect is ToolEffect.ONCE:
                try:
                    before = await self._store.earlier(call)
                except StoreError as error:
                    logger.log(log_level(error), "Earlier calls cannot be looked up: %s", error)
                    if self._refuses:
                        return _refused(call)
                    before = None
                if before is not None:
                    return before
                is_kept = await self._store.begun(call)
                if self._refuses and not is_kept:
                    return _refused(call)
        return await run(call)


def asked_as(call: ToolCall) -> ToolCall:
    """Return the call as it came, before policies changed its arguments or its tool."""
    try:
        came = current().call
    except LookupError:  # a policy that is called by hand
        return call
    return came if came.session is call.session and came.number == call.number else call


def _outcome(before: Execution) -> ToolResult:
    """Return what an earlier call is answered that may have had its effect."""
    if before.ended is None or before.status in (STARTED, INTERRUPTED):
        return repeated(before.tool)
    kept = ToolResult(
        status=ResultStatus(before.status),
        result=before.result,
        message=before.message or say("repeated_call_known"),
        reason_code=before.reason,
    )
    return repeated(before.tool, kept)


def _refused(call: ToolCall) -> ToolResult:
    return ToolResult(
        status=ResultStatus.UNAVAILABLE,
        message=say("not_recorded", tool=call.name),
        retryable=True,
        retry_hint=say("not_recorded_hint"),
        reason_code="not_recorded",
    )
