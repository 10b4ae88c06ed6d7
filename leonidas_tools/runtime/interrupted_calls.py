"""Tell conversations how calls have ended that went on without the process that began them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from leonidas_tools.calls.call import ResultStatus
from leonidas_tools.errors import StoreError
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.runtime.runtime import ToolRuntime
    from leonidas_tools.store import Store
    from leonidas_tools.store.rows import Execution

logger = visible_logger(__name__)

_LOOKS_SECONDS = (0.0, 3.0, 45.0)
"""Waits before each look: it may take a while until a dead process is known to be dead."""


class _Seen:
    """The interrupted calls of a session that are waited for, or were told."""

    def __init__(self) -> None:
        self.ids = set[str]()


@asynccontextmanager
async def telling_interrupted_calls(runtime: ToolRuntime) -> AsyncIterator[None]:
    """Tell each conversation that begins what has become of its interrupted calls."""
    store, tasks = runtime.store, set[asyncio.Task[None]]()
    if store is None or not store.settings.durable:
        yield
        return

    def look(session: ToolSession) -> None:
        task = asyncio.create_task(_look(runtime, store, session), name="tell interrupted calls")
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    unsubscribe = runtime.notices.on_join(look)
    try:
        yield
    finally:
        unsubscribe()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _look(runtime: ToolRuntime, store: Store, session: ToolSession) -> None:
    seen = session.get(_Seen).ids
    async with asyncio.TaskGroup() as telling:
        for wait_seconds in _LOOKS_SECONDS:
            await asyncio.sleep(wait_seconds)
            if session not in runtime.notices.sessions:
                return
            try:
                found = await store.unfinished(session)
            except StoreError as error:
                logger.warning("Interrupted calls cannot be read: %s", error)
                continue
            for each in found:
                if each.id not in seen:
                    seen.add(each.id)
                    telling.create_task(_tell(runtime, store, session, each))


async def _tell(
    runtime: ToolRuntime, store: Store, session: ToolSession, before: Execution
) -> None:
    call, result = await runtime.outcome(
        before.tool, before.arguments, session=session, call_id=before.call_id
    )
    if result is None or result.status is ResultStatus.CANCELLED:  # as when this process ends
        return
    if result.status is not ResultStatus.UNKNOWN_OUTCOME:
        try:
            if not await store.settle(before, call, result):
                return  # the model has made the call again, and was answered
        except StoreError as error:
            logger.warning("The end of a call cannot be written: %s", error)
            return
    runtime.notices.tell(call, result)
