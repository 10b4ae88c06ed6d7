"""Resume the calls and questions that the last process of a conversation has left open."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.calls.call import ResultStatus
from leonidas_tools.errors import StoreError
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.session.resumption import is_from_elsewhere

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.runtime.runtime import ToolRuntime
    from leonidas_tools.store import Store
    from leonidas_tools.store.rows import Execution

logger = visible_logger(__name__)

_CHECK_SECONDS = (0.0, 3.0, 45.0)
"""Seconds to wait before each check: it may take a while to detect a dead process."""
_ASKS_SECONDS = (0.0, 0.5, 2.5)
"""Seconds to wait before each check for questions: a process may write the last one late."""


class _Seen:
    """The interrupted calls of a session that are awaited or were reported."""

    def __init__(self) -> None:
        self.ids = set[str]()


@asynccontextmanager
async def reporting_interrupted_calls(runtime: ToolRuntime) -> AsyncIterator[None]:
    """Report the results of interrupted calls to each conversation that begins.

    The questions that its last process left open are asked again.
    """
    store, tasks = runtime.store, set[asyncio.Task[None]]()
    if store is None or not store.settings.durable:
        yield
        return

    def check(session: ToolSession) -> None:
        task = asyncio.create_task(_check(runtime, store, session), name="report interrupted calls")
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    unsubscribe = runtime.notices.on_join(check)
    try:
        yield
    finally:
        unsubscribe()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _check(runtime: ToolRuntime, store: Store, session: ToolSession) -> None:
    seen = session.get(_Seen).ids
    async with asyncio.TaskGroup() as group:
        if is_from_elsewhere(session):
            group.create_task(_ask_again(runtime, store, session))
        for wait_seconds in _CHECK_SECONDS:
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
                    group.create_task(_report(runtime, store, session, each))


async def _ask_again(runtime: ToolRuntime, store: Store, session: ToolSession) -> None:
    """Ask the questions again that were not answered in the last process."""
    desk, seen = session.get(Approvals), set[str]()
    for wait_seconds in _ASKS_SECONDS:
        await asyncio.sleep(wait_seconds)
        if session not in runtime.notices.sessions:
            return
        try:
            left = await store.left_questions(session)
        except StoreError as error:
            logger.warning("Questions of the previous process cannot be read: %s", error)
            continue
        for each in left:
            if each.id in seen or desk.with_hash(each.digest) or desk.was_answered(each.digest):
                continue  # also if the model has made the call again
            seen.add(each.id)
            call, result = await runtime.ask_again(
                each.tool,
                each.arguments,
                session=session,
                call_id=each.call_id,
                approval_id=each.id,
                digest=each.digest,
            )
            runtime.notices.tell(call, result)


async def _report(
    runtime: ToolRuntime, store: Store, session: ToolSession, before: Execution
) -> None:
    call, result = await runtime.outcome(
        before.tool, before.arguments, session=session, call_id=before.call_id
    )
    if result is None or result.status is ResultStatus.CANCELLED:  # as when this process ends
        return
    if result.status is not ResultStatus.UNKNOWN_OUTCOME:
        try:
            if not await store.store_outcome(before, call, result):
                return  # the model has made the call again, and has the result
        except StoreError as error:
            logger.warning("The result of an interrupted call cannot be stored: %s", error)
            return
    runtime.notices.tell(call, result)
