"""One conversation at a time for each session: the newest."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class _Place:
    def __init__(self) -> None:
        self.is_wanted = asyncio.Event()
        self.is_free = asyncio.Event()


class Places:
    """The sessions whose conversations run in this process.

    A client may resume a session whose conversation has not noticed yet that its connection is
    lost, or use a resumption twice at once. Two models would then make the same call.
    """

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], _Place] = {}

    @asynccontextmanager
    async def taken(self, user: str, session: str) -> AsyncIterator[asyncio.Event]:
        """Wait until no other conversation of the session runs, after asking it to end.

        Yields:
            An event that is set once another conversation wants the session.
        """
        key = (user, session)
        while (other := self._places.get(key)) is not None:
            other.is_wanted.set()
            await other.is_free.wait()
        place = self._places[key] = _Place()
        try:
            yield place.is_wanted
        finally:
            del self._places[key]
            place.is_free.set()
