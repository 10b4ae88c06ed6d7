"""A resource that is open while at least one user needs it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AsyncExitStack


class RefCountedResource:
    """Open a resource for its first user, and close it after its last.

    `open_resource` returns the stack that closes it.
    """

    def __init__(self, open_resource: Callable[[], Awaitable[AsyncExitStack]]) -> None:
        self._open = open_resource
        self._users = 0
        self._opened: AsyncExitStack | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()

    async def enter(self) -> None:
        """Add a user; the first one opens the resource."""
        async with self._lock_of_loop():
            if self._users == 0:
                self._opened = await self._open()
            self._users += 1

    async def leave(self) -> None:
        """Remove a user; the last one closes the resource."""
        async with self._lock_of_loop():
            self._users -= 1
            if self._users == 0 and self._opened is not None:
                opened, self._opened = self._opened, None
                await opened.aclose()

    def _lock_of_loop(self) -> asyncio.Lock:
        """Return the lock of the running event loop; a lock works in one loop only."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock
