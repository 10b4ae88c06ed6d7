"""One conversation at a time for each session: the newest."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class _RunningSession:
    def __init__(self) -> None:
        self.is_wanted = asyncio.Event()
        self.is_free = asyncio.Event()


class RunningSessions:
    """The sessions whose conversations run in this process.

    A client may resume a session whose conversation has not noticed yet that its connection is
    lost, or use a resumption twice at once. Two models would then make the same call.
    """

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], _RunningSession] = {}

    @asynccontextmanager
    async def begin(self, user: str, session: str) -> AsyncIterator[asyncio.Event]:
        """Wait until no other conversation of the session runs, after asking it to end.

        Yields:
            An event that is set once another conversation wants the session.
        """
        key = (user, session)
        while (other := self._sessions.get(key)) is not None:
            other.is_wanted.set()
            await other.is_free.wait()
        running = self._sessions[key] = _RunningSession()
        try:
            yield running.is_wanted
        finally:
            del self._sessions[key]
            running.is_free.set()
