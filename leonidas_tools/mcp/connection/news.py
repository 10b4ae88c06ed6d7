"""Word that a server's tools should be listed again: however much of it comes, it is one."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_GATHER_SECONDS = 0.25


class News:
    """What is waited for between two listings.

    The first word is good at once. What follows within a quarter of a second waits for the end of
    it: a server that announces change upon change is asked four times a second.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._next_at = 0.0

    def set(self) -> None:
        """Gives word."""
        self._event.set()

    async def wait(self, is_over: Callable[[], bool]) -> None:
        """Waits for word.

        Args:
            is_over: Whether there is nothing more to gather.
        """
        now = asyncio.get_running_loop().time
        await self._event.wait()
        while not is_over() and (left := self._next_at - now()) > 0:
            self._event.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._event.wait()
        self._event.clear()
        self._next_at = now() + _GATHER_SECONDS
