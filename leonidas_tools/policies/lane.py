"""Reads run side by side, writes one after another: first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from leonidas_tools.invocation import current

if TYPE_CHECKING:
    from leonidas_tools.calls import Run, ToolCall, ToolResult


class Lane:
    """A readers-writer lock that serves in the order of arrival.

    A write waits for all that came before it and holds back all that comes after, so that a read
    sees the write before it.
    """

    __slots__ = ("__weakref__", "_reading", "_waiting", "_writing")

    def __init__(self) -> None:
        self._reading = 0
        self._writing = False
        self._waiting: deque[tuple[asyncio.Future[None], bool]] = deque()

    def enter_now(self, *, write: bool) -> bool:
        """Enters if that needs no waiting."""
        if self._waiting or self._writing or (write and self._reading):
            return False
        if write:
            self._writing = True
        else:
            self._reading += 1
        return True

    async def enter(self, *, write: bool) -> None:
        """Waits for its turn, and enters."""
        turn = asyncio.get_running_loop().create_future()
        ticket = (turn, write)
        self._waiting.append(ticket)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(write=write)
            elif ticket in self._waiting:  # else whoever left meanwhile has dropped it
                self._waiting.remove(ticket)
                self._admit()
            raise

    def leave(self, *, write: bool) -> None:
        """Makes room for whoever waits."""
        if write:
            self._writing = False
        else:
            self._reading -= 1
        if self._waiting:
            self._admit()

    def _admit(self) -> None:
        while self._waiting and not self._writing:
            turn, write = self._waiting[0]
            if write and self._reading:
                return
            self._waiting.popleft()
            if turn.done():  # cancelled a moment ago: it leaves the queue by itself
                continue
            if write:
                self._writing = True
            else:
                self._reading += 1
            turn.set_result(None)


class Lanes:
    """The lanes there are, by key; one that no tool uses any more is forgotten."""

    def __init__(self) -> None:
        self._lanes: WeakValueDictionary[str, Lane] = WeakValueDictionary()

    def lane(self, key: str) -> Lane:
        """The lane with this key."""
        return self._lanes.setdefault(key, Lane())


@dataclass(frozen=True, kw_only=True, slots=True)
class InLane:
    """Runs a call when its lane lets it.

    A tool that calls another of its own lane is in it already and does not wait for itself.

    Args:
        lane: The lane.
        write: Whether it needs the lane for itself.
    """

    lane: Lane
    write: bool

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Runs the call in its turn."""
        lane, write = self.lane, self.write
        invocation = current()
        if invocation.outer is not None and invocation.is_inside(lane):
            return await run(call)
        if not lane.enter_now(write=write):
            await lane.enter(write=write)
        places = invocation.places
        places.append(self)
        try:
            return await run(call)
        finally:
            if places:  # else it was taken away
                places.pop().leave()

    @property
    def room(self) -> Lane:
        """The lane."""
        return self.lane

    def leave(self) -> None:
        """Makes room in the lane."""
        self.lane.leave(write=self.write)
