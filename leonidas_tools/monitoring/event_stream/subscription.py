"""The bounded queue of events of one reader."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Subscription:
    """The events that one reader has not read yet; where they are too many, only their number.

    Args:
        session: Of which session; of all for `None`.
        kinds: Of which kinds; of all for `None`.
        size: How many events may wait.
    """

    __slots__ = ("_changed", "_kinds", "_size", "_waiting", "missed", "session")

    def __init__(self, *, session: str | None, kinds: frozenset[str] | None, size: int) -> None:
        self.session = session
        self._kinds = kinds
        self._size = size
        self._waiting: deque[Mapping[str, Any]] = deque()
        self._changed = asyncio.Event()
        self.missed = 0
        """How many events there was no room for since the last time the reader was told."""

    def wants(self, event: Mapping[str, Any]) -> bool:
        """Return whether the reader asked for the event; one without a session is for all."""
        if self._kinds is not None and event["event"] not in self._kinds:
            return False
        return self.session is None or event.get("session", self.session) == self.session

    def put(self, event: Mapping[str, Any]) -> None:
        """Add an event; if that is one too many, none of them waits any more."""
        if not self.wants(event):
            return
        if self.missed:
            self.missed += 1
        elif len(self._waiting) >= self._size:
            self.missed = len(self._waiting) + 1
            self._waiting.clear()
        else:
            self._waiting.append(event)
        self._changed.set()

    def replay(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Add what has happened before the reader came."""
        self._waiting.extend(event for event in events if self.wants(event))

    async def changed(self) -> None:
        """Wait until there is something to read."""
        while not self._waiting and not self.missed:
            self._changed.clear()
            await self._changed.wait()

    def take(self) -> Mapping[str, Any] | None:
        """Return the oldest event that waits; `None` where none does."""
        return self._waiting.popleft() if self._waiting else None
