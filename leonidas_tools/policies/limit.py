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
    """A number of places, which the waiting calls of the highest priority take first."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.taken = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._preemptible: dict[Invocation, object] = {}

    def enter_now(self, priority: int) -> bool:
        """Take a place if no wait is needed; let a critical call take one in any case."""
        if priority == _CRITICAL:
            if self.taken >= self.places and self._preemptible:
                self._preempt()
        elif self.taken >= self.places or self._waiting:
            return False
        self.taken += 1
        return True

    async def enter(self, priority: int) -> None:
        """Take a place; wait if none is free."""
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
        """Release a place to the next waiting call."""
        self.taken -= 1
        if self._waiting:
            self._admit()

    def resize(self, places: int) -> None:
        """Set the number of places."""
        self.places = places
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.taken < self.places:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                self.taken += 1
                turn.set_result(None)

    def _preempt(self) -> None:
        """Stop the most recent call that is not already being stopped.

        A second stop would replace the first reason, such as a timeout, and rerun the call.
        """
        for invocation in reversed(self._preemptible):
            if not invocation.stopping:
                invocation.interrupt(self._preemptible.pop(invocation))
                return

    def allow_preemption(self, invocation: Invocation, reason: object) -> None:
        """Let a critical call take this place: its holder is stopped for `reason`."""
        self._preemptible[invocation] = reason

    def forbid_preemption(self, invocation: Invocation) -> None:
        """Protect the place from preemption; the place may have been released already."""
        self._preemptible.pop(invocation, None)

    @property
    def resource(self) -> Limiter:
        """Return itself: a limiter identifies its own places."""
        return self


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """Runs a call when each of its limiters has a place for it.

    A call that a tool makes shares the places of that tool's call, and does not wait for them.

    Args:
        limiters: The limiters, in the order in which their places are taken.
        priority: 1 (critical) to 5 (background).
    """

    limiters: Sequence[Limiter]
    priority: int

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call once every limiter has a place for it."""
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
            while len(places) > before:  # empty if the call was abandoned
                places.pop().leave()


@dataclass(frozen=True, kw_only=True, slots=True)
class Preemptible:
    """Lets a critical call stop this one if there is no place for both.

    The stopped call then waits like any other, and runs again.
    """

    limit: Limit

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call, and run it again after each preemption."""
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
                if not invocation.clear_interruption(self):
                    raise
                invocation.emit(EventKind.RETRY, attempt=1, delay_seconds=0, error="preempted")


def for_tool(options: EffectiveOptions, shared: Shared) -> Iterator[Limit | Preemptible]:
    """Yield the concurrency limits of a tool: its own, and the one of all tools."""
    limiters: list[Limiter] = []
    name, places = options.tool.name, options.concurrency
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
