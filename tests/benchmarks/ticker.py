"""How long the event loop was held at worst."""

import asyncio
import time
from typing import Self

_PERIOD_SECONDS = 0.001


class Ticker:
    """Wakes every millisecond and keeps the longest delay."""

    def __init__(self) -> None:
        self.longest_stall_seconds = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._tick())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.sleep(_PERIOD_SECONDS)
        assert self._task is not None
        self._task.cancel()

    async def _tick(self) -> None:
        while True:
            start = time.perf_counter()
            await asyncio.sleep(_PERIOD_SECONDS)
            late = time.perf_counter() - start - _PERIOD_SECONDS
            self.longest_stall_seconds = max(self.longest_stall_seconds, late)
