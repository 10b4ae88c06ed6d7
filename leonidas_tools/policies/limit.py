"""Only so many calls run at once; who matters more goes first."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leonidas_tools.events import EventKind
from leonidas_tools.invocation import current

if TYPE_CHECKING:
    from collections.abc import Callable

    from leonidas_tools.calls import Run, ToolCall, ToolResult

_CRITICAL = 1


class Limiter:
    """A number of places, given to the most important of those who wait.

    Args:
        places: How many calls run at once.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self.taken = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._preemptible: dict[int, Callable[[], None]] = {}

    def enter_now(self, priority: int) -> bool:
        """Takes a place if that needs no waiting; critical calls take one in any case.

        Args:
            priority: 1 (critical) to 5 (background).
        """
        if priority == _CRITICAL:
            if self.taken >= self.places and self._preemptible:
                self._preemptible.popitem()[1]()
        elif self.taken >= self.places or self._waiting:
            return False
        self.taken += 1
        return True

    async def enter(self, priority: int) -> None:
        """Takes a place, when there is one."""
        if self.enter_now(priority):
            return
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._numbers), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Gives the place to the next."""
        self.taken -= 1
        self._admit()

    def resize(self, places: int) -> None:
        """Has so many places from now on."""
        self.places = places
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.taken < self.places:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                self.taken += 1
                turn.set_result(None)

    def allow_preemption(self, key: int, stop: Callable[[], None]) -> None:
        """Lets a critical call take this place: `stop` makes its holder leave."""
        self._preemptible[key] = stop

    def forbid_preemption(self, key: int) -> None:
        """The place is safe, or given back."""
        self._preemptible.pop(key, None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """Runs a call when a limiter has a place for it.

    A tool that calls another shares its place with it, and does not wait for itself.

    Args:
        limiter: Where the places are.
        priority: 1 (critical) to 5 (background).
        preemptible: Whether a critical call may stop it; it then waits and runs again.
    """

    limiter: Limiter
    priority: int
    preemptible: bool = False

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Runs the call once there is a place."""
        invocation = current()
        limiter = self.limiter
        if invocation.outer is not None and invocation.is_inside(limiter):
            return await run(call)
        while True:
            if not limiter.enter_now(self.priority):
                await limiter.enter(self.priority)
            places = invocation.places
            places.append(self)
            try:
                if not self.preemptible:
                    return await run(call)
                return await self._run_preemptibly(call, run)
            except asyncio.CancelledError:
                if not invocation.taken(self):
                    raise
                invocation.emit(EventKind.RETRY, attempt=1, delay_seconds=0, error="preempted")
            finally:
                if places:  # else it was taken away
                    places.pop().leave()

    @property
    def room(self) -> Limiter:
        """The limiter."""
        return self.limiter

    def leave(self) -> None:
        """Gives the place to the next."""
        self.limiter.leave()

    async def _run_preemptibly(self, call: ToolCall, run: Run) -> ToolResult:
        invocation = current()
        self.limiter.allow_preemption(id(invocation), lambda: invocation.interrupt(self))
        try:
            return await run(call)
        finally:
            self.limiter.forbid_preemption(id(invocation))
