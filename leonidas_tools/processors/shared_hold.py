"""Something that is held for as long as anybody uses it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AsyncExitStack


class SharedHold:
    """Takes hold for the first user, and lets go after the last.

    Args:
        hold: Takes hold; what it returns lets go.
    """

    def __init__(self, hold: Callable[[], Awaitable[AsyncExitStack]]) -> None:
        self._hold = hold
        self._users = 0
        self._held: AsyncExitStack | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()

    async def enter(self) -> None:
        """One user more."""
        async with self._entrance():
            if self._users == 0:
                self._held = await self._hold()
            self._users += 1

    async def leave(self) -> None:
        """One user less."""
        async with self._entrance():
            self._users -= 1
            if self._users == 0 and self._held is not None:
                held, self._held = self._held, None
                await held.aclose()

    def _entrance(self) -> asyncio.Lock:
        """One comes or goes at a time; a lock serves the event loop it was first waited for in."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock


def on_this_loop(callback: Callable[[], object]) -> Callable[[object], None]:
    """The callback as it can be called in any thread, with what has changed, which it is not told.

    Called in the thread of the loop that runs now it runs at once, else in that loop's next turn.

    Args:
        callback: What looks up by itself how things are now.

    Raises:
        RuntimeError: No event loop is running.
    """
    loop, thread = asyncio.get_running_loop(), threading.get_ident()

    def call(_: object) -> None:
        if threading.get_ident() == thread:
            callback()
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(callback)

    return call
