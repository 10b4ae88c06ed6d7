"""Limit how many calls run at once; higher priority goes first."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leonidas_tools.calls.events import EventKind
from leonidas_tools.calls.invocation import current
from leonidas_tools.tools.metadata import ToolPriority

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from leonidas_tools.calls.call import Run, ToolCall, ToolResult
    from leonidas_tools.calls.invocation import Invocation
    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions

_CRITICAL = 1


class Limiter:
    """A number of places, given to the most important of those who wait."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.taken = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._preemptible: dict[Invocation, object] = {}

    def enter_now(self, priority: int) -> bool:
        """Take a place if that needs no waiting; critical calls take one in any case."""
        if priority == _CRITICAL:
            if self.taken >= self.places and self._preemptible:
                self._preempt()
        elif self.taken >= self.places or self._waiting:
            return False
        self.taken += 1
        return True

    async def enter(self, priority: int) -> None:
        """Take a place, when there is one."""
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
        """Give the place to the next."""
        self.taken -= 1
        if self._waiting:
            self._admit()

    def resize(self, places: int) -> None:
        """Set the number of places from now on."""
        self.places = places
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.taken < self.places:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                self.taken += 1
                turn.set_result(None)

    def _preempt(self) -> None:
        """Stop the most recent call that is not being stopped already.

        A second stop would replace the first reason, its timeout for one, and rerun the call.
        """
        for invocation in reversed(self._preemptible):
            if not invocation.stopping:
                invocation.interrupt(self._preemptible.pop(invocation))
                return

    def allow_preemption(self, invocation: Invocation, reason: object) -> None:
        """Let a critical call take this place: its holder is stopped for that reason."""
        self._preemptible[invocation] = reason

    def forbid_preemption(self, invocation: Invocation) -> None:
        """Protect the place from preemption; it may be given back already."""
        self._preemptible.pop(invocation, None)

    @property
    def room(self) -> Limiter:
        """Return itself: a limiter is the place that it gives."""
        return self


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """Runs a call when each of its limiters has a place for it.

    A tool that calls another shares its places with it, and does not wait for itself.

    Args:
        limiters: Where the places are; they are taken in this order.
        priority: 1 (critical) to 5 (background).
    """

    limiters: Sequence[Limiter]
    priority: int

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call once there is a place everywhere."""
        invocation = current()
        limiters, places = self.limiters, invocation.places
        if invocation.outer is not None:
            limiters = [each for each in limiters if not invocation.is_inside(each)]
        before = len(places)
        try:
            for limiter in limiters:
                if not limiter.enter_now(self.priority):
                    await limiter.enter(self.priority)
                places.append(limiter)
            return await run(call)
        finally:
            while len(places) > before:  # unless they were taken away
                places.pop().leave()


@dataclass(frozen=True, kw_only=True, slots=True)
class Preemptible:
    """Lets a critical call stop this one where there is no place for both.

    It then waits like any other, and runs again.
    """

    limit: Limit

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call until it has ended by itself."""
        invocation = current()

        async def run_in_place(call: ToolCall) -> ToolResult:
            held = [each for each in self.limit.limiters if each in invocation.places]
            try:
                for limiter in held:
                    limiter.allow_preemption(invocation, self)
                return await run(call)
            finally:
                for limiter in held:
                    limiter.forbid_preemption(invocation)

        while True:
            try:
                return await self.limit(call, run_in_place)
            except asyncio.CancelledError:
                if not invocation.taken(self):
                    raise
                invocation.emit(EventKind.RETRY, attempt=1, delay_seconds=0, error="preempted")


def for_tool(options: EffectiveOptions, shared: Shared) -> Iterator[Limit | Preemptible]:
    """Yield the limits of how many calls run at once: the tool's own, and that of all tools."""
    limiters: list[Limiter] = []
    name, places = options.tool.name, options.settings.concurrency
    if places:
        own = shared.limiters.setdefault(name, Limiter(places))
        own.resize(places)
        limiters.append(own)
    if shared.limiter is not None:
        limiters.append(shared.limiter)
    if limiters:
        limit = Limit(limiters=limiters, priority=int(options.priority))
        preemptible = options.priority is ToolPriority.BACKGROUND and options.is_read
        yield Preemptible(limit=limit) if preemptible else limit
