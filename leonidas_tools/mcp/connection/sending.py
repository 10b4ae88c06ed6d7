"""A call on its way to a server: over its connection, and where it may over the next one."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from leonidas_tools.errors import ToolError
from leonidas_tools.mcp.connection.reconnect import delay_seconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_types import CallToolResult

    from leonidas_tools.mcp.calls.call_terms import ServerCall
    from leonidas_tools.mcp.connection.connection import Connection
    from leonidas_tools.mcp.features.calls import OnProgress

_MOST_ATTEMPTS = 10


async def send(
    call: ServerCall,
    connection: Connection,
    following: Callable[[], Awaitable[Connection | None]],
    on_progress: OnProgress,
) -> CallToolResult:
    """Sends a call. What runs as a task outlives its connection: the next one asks after it.

    Nothing is begun a second time, whatever the effect.

    Args:
        call: What is called.
        connection: Is open.
        following: Waits for the connection that is open then, if there ever is one.
        on_progress: Awaited with each report.

    Raises:
        RetryableError: The server is gone and nothing happened.
        ToolError: The server is gone, and something may have happened; or it refused.
    """
    task = connection.task_for(call)
    attempt = 0
    while True:
        try:
            return await connection.call(call, on_progress, task)
        except ToolError as error:
            if task is None or task.id is None or error.reason_code != "mcp_server_lost":
                raise
            lost = error
        next_one = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(call.seconds):
                await asyncio.sleep(delay_seconds(attempt))
                next_one = await following()
        attempt += 1
        if next_one is None or attempt > _MOST_ATTEMPTS:
            raise lost
        connection = next_one
