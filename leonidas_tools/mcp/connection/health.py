"""Check whether a silent server is alive."""

from __future__ import annotations

import asyncio
import contextlib
import math
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator


class HealthCheck:
    """Pings a silent server, to check whether the server still responds.

    Any data shows that the server is alive: a response, a progress report, a log line. The server
    is pinged after `every_seconds` of silence, even during calls, and after a call was cancelled.
    If nothing arrives within `limit_seconds` of a ping, the server no longer responds.

    Many servers run a call in the thread that would answer the ping, so they are silent while they
    compute. A running call therefore extends the limit up to the timeout of the call, but no
    longer: the caller has then given up, and a silent server is useless for the next call.

    An error response to `ping` also counts as a response. Without `every_seconds`, the server is
    pinged only after a cancelled call.
    """

    def __init__(
        self,
        ping: Callable[[], Awaitable[object]],
        *,
        every_seconds: float | None,
        limit_seconds: float,
    ) -> None:
        self.last_ping_seconds: float | None = None
        """Round-trip time of the last answered ping."""
        self._ping = ping
        self._every = math.inf if every_seconds is None else every_seconds
        self._limit = limit_seconds
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._calls: dict[object, float] = {}
        self._in_doubt = self._is_pinging = False
        self._news = asyncio.Event()

    def heard(self) -> None:
        """Record that the server has sent data."""
        self._heard_at = self._loop.time()
        if self._is_pinging:
            self._news.set()

    @contextmanager
    def call(self, seconds: float) -> Iterator[None]:
        """Count a call as running, inside `with`; ping the server if the call is cancelled."""
        call = object()
        self._calls[call] = self._loop.time() + seconds
        try:
            yield
        except asyncio.CancelledError:
            self._in_doubt = True
            raise
        finally:
            del self._calls[call]
            if self._in_doubt or self._is_pinging:  # otherwise, no deadline has changed
                self._news.set()

    async def wait_until_lost(self) -> None:
        """Wait until the server no longer answers pings."""
        while True:
            await self._wait_until(self._next_ping_at)
            self._in_doubt = False
            if not await self._is_answered():
                return

    async def _is_answered(self) -> bool:
        pinged_at, calls = self._loop.time(), set(self._calls)

        def gone_at() -> float:
            if self._heard_at >= pinged_at:
                return pinged_at
            excuses = (self._calls[call] for call in calls if call in self._calls)
            return max(pinged_at + self._limit, *excuses, 0)

        self._is_pinging = True
        ping = asyncio.ensure_future(self._ping())
        try:
            await self._wait_until(gone_at)
            if self._heard_at < pinged_at:
                return False
            answered, _ = await asyncio.wait({ping}, timeout=self._limit)
            if answered:
                self.last_ping_seconds = self._loop.time() - pinged_at
            return True
        finally:
            self._is_pinging = False
            ping.cancel()

    def _next_ping_at(self) -> float:
        return self._loop.time() if self._in_doubt else self._heard_at + self._every

    async def _wait_until(self, moment: Callable[[], float]) -> None:
        """Wait for a deadline that may change."""
        while (left := moment() - self._loop.time()) > 0:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if left == math.inf else left):
                    await self._news.wait()
