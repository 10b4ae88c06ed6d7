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
    """Pings a server that is silent, to see whether it still answers.

    Any message shows that it lives: an answer, a report, a line of its log. After
    `every_seconds` of silence it is asked, beside the running calls; also when a call was
    given up. If nothing comes within `limit_seconds` either, it is gone.

    A long call is not a reason to end its server, and many servers run a call in the very thread
    that would answer: while they compute, they are as silent as one that hangs. So a call
    excuses its server's silence for as long as the call itself may take, and no longer: then
    it is not waited for any more, and a server that still says nothing is of no use to the next.

    An error that the server answers `ask` with is an answer. Without `every_seconds` it is never
    asked.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[object]],
        *,
        every_seconds: float | None,
        limit_seconds: float,
    ) -> None:
        self.last_ping_seconds: float | None = None
        """Round-trip time of the last ping."""
        self._ask = ask
        self._every = math.inf if every_seconds is None else every_seconds
        self._limit = limit_seconds
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._calls: dict[object, float] = {}
        self._in_doubt = self._asking = False
        self._news = asyncio.Event()

    def heard(self) -> None:
        """Record that something has come from the server."""
        self._heard_at = self._loop.time()
        if self._asking:
            self._news.set()

    @contextmanager
    def call(self, seconds: float) -> Iterator[None]:
        """Watch one running call, which is given up where it is cancelled."""
        call = object()
        self._calls[call] = self._loop.time() + seconds
        try:
            yield
        except asyncio.CancelledError:
            self._in_doubt = True
            raise
        finally:
            del self._calls[call]
            if self._in_doubt or self._asking:  # else no moment that is waited for has moved
                self._news.set()

    async def wait_until_lost(self) -> None:
        """Wait until the server no longer answers pings."""
        while True:
            await self._reached(self._ask_at)
            self._in_doubt = False
            if not await self._answers():
                return

    async def _answers(self) -> bool:
        asked_at, calls = self._loop.time(), set(self._calls)

        def gone_at() -> float:
            if self._heard_at >= asked_at:
                return asked_at
            excuses = (self._calls[call] for call in calls if call in self._calls)
            return max(asked_at + self._limit, *excuses, 0)

        self._asking = True
        asking = asyncio.ensure_future(self._ask())
        try:
            await self._reached(gone_at)
            if self._heard_at < asked_at:
                return False
            answered, _ = await asyncio.wait({asking}, timeout=self._limit)
            if answered:
                self.last_ping_seconds = self._loop.time() - asked_at
            return True
        finally:
            self._asking = False
            asking.cancel()

    def _ask_at(self) -> float:
        return self._loop.time() if self._in_doubt else self._heard_at + self._every

    async def _reached(self, moment: Callable[[], float]) -> None:
        """Wait for a moment that may move."""
        while (left := moment() - self._loop.time()) > 0:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if left == math.inf else left):
                    await self._news.wait()
