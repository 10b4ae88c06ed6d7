"""Reconnect to a server with backoff, and repeat a call of a session that is gone."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING

from leonidas_tools.errors import RetryableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leonidas_tools.calls.call import ToolResult
    from leonidas_tools.mcp.calls.call import ServerCall
    from leonidas_tools.mcp.connection.connection import MCPConnection
    from leonidas_tools.mcp.features.ongoing_calls import OnProgress

_FIRST_SECONDS = 0.5
_MAX_SECONDS = 30.0
_STEADY_SECONDS = 30.0
"""Seconds after which a connection counts as stable: the backoff then starts from the beginning."""


def delay_seconds(attempt: int) -> float:
    """Return the delay before an attempt, counted from 0: a limited backoff with jitter."""
    longest: float = min(_MAX_SECONDS, _FIRST_SECONDS * 2 ** min(attempt, 10))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing


async def keep_connected(
    *,
    until_needed: Callable[[], Awaitable[None]],
    serve: Callable[[], Awaitable[float | None]],
    is_wanted: Callable[[], bool],
) -> None:
    """Connect, and reconnect after a delay, as long as the server `is_wanted`.

    `serve` returns the seconds that a lost connection was ready, 0 if it never was, and `None` if
    the next one needs no delay. A slow attempt that fails is not a stable connection.
    """
    attempt = 0
    while True:
        await until_needed()
        ready_seconds = await serve()
        if ready_seconds is None:
            continue
        if not is_wanted():
            return
        attempt = 0 if ready_seconds > _STEADY_SECONDS else attempt
        await asyncio.sleep(delay_seconds(attempt))
        attempt += 1


async def send(
    call: ServerCall,
    connection: MCPConnection,
    next_connection: Callable[[MCPConnection], Awaitable[MCPConnection | None]],
    on_progress: OnProgress,
) -> ToolResult:
    """Send a call; send it once more in a new session if the server no longer knows the session.

    Raises:
        RetryableError: The call did not reach the server.
        ToolError: The server refused the call, or the connection was lost during it.
    """
    try:
        return await connection.call(call, on_progress)
    except RetryableError:
        if not connection.is_session_gone:
            raise
        opened = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(call.seconds):
                opened = await next_connection(connection)
        if opened is None:
            raise
    return await opened.call(call, on_progress)
