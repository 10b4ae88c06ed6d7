"""Lanes (concurrency keys): reads run concurrently, writes run one after another, in order."""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from leonidas_tools.calls.invocation import current
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.tools.metadata import is_off

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from leonidas_tools.calls.call import Run, ToolCall, ToolResult
    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions


def lane_key(function: Callable[..., Any]) -> str:
    """Return the lane of a function: that of the object it is bound to, else that of its module.

    A partial belongs to the lane of its function, a closure or lambda to its module's.

    Example:
        >>> lane_key(functools.partial(lane_key)) == lane_key(lane_key)
        True
    """
    while isinstance(function, functools.partial):
        function = function.func
    owner = getattr(function, "__self__", None)
    if owner is not None and not inspect.ismodule(owner):
        return f"object:{id(owner):x}"
    if not inspect.isroutine(function) and not inspect.isclass(function):
        return f"object:{id(function):x}"
    return f"module:{getattr(function, '__module__', None) or ''}"


logger = visible_logger(__name__)

_LONG_WAIT_SECONDS = 0.25
_VERY_LONG_WAIT_SECONDS = 1.0  # a silence that a user hears
_MOST_NAMED = 16


class Lane:
    """A readers-writer lock that is acquired in the order of arrival.

    A write waits for all earlier reads and writes, and all later ones wait for the write. So a read
    sees the write before it.
    """

    __slots__ = ("__weakref__", "_reading", "_waiting", "_writing")

    def __init__(self) -> None:
        self._reading = 0
        self._writing: str | None = None
        self._waiting: deque[tuple[asyncio.Future[None], bool, str]] = deque()

    @property
    def writers(self) -> Iterable[str]:
        """Return the current writer, and the first of the waiting writers."""
        now = () if self._writing is None else (self._writing,)
        first = itertools.islice(self._waiting, _MOST_NAMED)
        return (*now, *(who for _, write, who in first if write))

    def enter_now(self, *, write: bool, who: str = "") -> bool:
        """Enter the lane if no wait is needed, and return whether it was entered."""
        if self._waiting or self._writing is not None or (write and self._reading):
            return False
        if write:
            self._writing = who
        else:
            self._reading += 1
        return True

    async def enter(self, *, write: bool, who: str = "") -> None:
        """Wait for a turn, and enter the lane."""
        turn = asyncio.get_running_loop().create_future()
        ticket = (turn, write, who)
        self._waiting.append(ticket)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(write=write)
            elif ticket in self._waiting:  # else it was dropped meanwhile
                self._waiting.remove(ticket)
                self._admit()
            raise

    def leave(self, *, write: bool) -> None:
        """Leave the lane, and admit the next waiting calls."""
        if write:
            self._writing = None
        else:
            self._reading -= 1
        if self._waiting:
            self._admit()

    def _admit(self) -> None:
        while self._waiting and self._writing is None:
            turn, write, who = self._waiting[0]
            if write and self._reading:
                return
            self._waiting.popleft()
            if turn.done():  # cancelled a moment ago: it leaves the queue by itself
                continue
            if write:
                self._writing = who
            else:
                self._reading += 1
            turn.set_result(None)


class Lanes:
    """The lanes by key; an unused lane is removed."""

    def __init__(self) -> None:
        self._lanes: WeakValueDictionary[str, Lane] = WeakValueDictionary()
        self.undeclared: set[str] = set()
        """The tools that declare no effect."""
        self._named: set[str] = set()

    def lane(self, key: str) -> Lane:
        """Return the lane with this key."""
        return self._lanes.setdefault(key, Lane())

    def waited(
        self, tool: str, seconds: float, behind: Iterable[str], *, write: bool, by_default: bool
    ) -> None:
        """Log one warning for each tool that was waited for although it may not be necessary."""
        for name in dict.fromkeys(behind):
            if name in self._named:
                continue
            if name in self.undeclared:
                if write and tool not in self.undeclared:
                    continue  # it declares that it changes something: it waits in any case
                self._named.add(name)
                _warn_of_undeclared(tool, seconds, name, write=write)
            elif by_default and seconds >= _VERY_LONG_WAIT_SECONDS:
                self._named.add(name)
                logger.warning(
                    "A call of %r has waited %.1f seconds for one of %r, which changes something "
                    "in the same lane: that of their module or object, also of other users. If "
                    '%r need not wait, declare lane="off" or a lane of its own (in the settings: '
                    "lane: off)",
                    tool,
                    seconds,
                    name,
                    tool,
                )


def _warn_of_undeclared(tool: str, seconds: float, name: str, *, write: bool) -> None:
    both = write and tool != name
    if_reads = f"{name!r} and {tool!r} change" if both else f"{name!r} changes"
    logger.warning(
        "A call of %r has waited %.1f seconds for one of %r, which declares no effect "
        'and so runs alone in its lane. If %s nothing, declare effect="read" '
        "(in the settings: effect: read); then such calls run concurrently",
        tool,
        seconds,
        name,
        if_reads,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class InLane:
    """Runs a call when its lane admits it.

    A tool that calls another tool of its own lane is in it already and does not wait for itself.
    """

    lane: Lane
    lanes: Lanes
    write: bool  # needs exclusive access to the lane
    tool: str
    by_default: bool = False  # neither the tool nor the settings name the lane

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call in its turn."""
        lane, write = self.lane, self.write
        invocation = current()
        if invocation.outer is not None and invocation.is_inside(lane):
            return await run(call)
        if not lane.enter_now(write=write, who=self.tool):
            await self._wait()
        places = invocation.places
        places.append(self)
        try:
            return await run(call)
        finally:
            if places:  # empty if the call was abandoned
                places.pop().leave()

    async def _wait(self) -> None:
        loop, behind = asyncio.get_running_loop(), self.lane.writers
        since = loop.time()
        await self.lane.enter(write=self.write, who=self.tool)
        seconds = loop.time() - since
        if seconds > _LONG_WAIT_SECONDS:
            self.lanes.waited(
                self.tool, seconds, behind, write=self.write, by_default=self.by_default
            )

    @property
    def resource(self) -> Lane:
        """Return the lane."""
        return self.lane

    def leave(self) -> None:
        """Leave the lane."""
        self.lane.leave(write=self.write)


def for_tool(options: EffectiveOptions, shared: Shared) -> Iterator[InLane]:
    """Yield the place of a tool's calls in their lane, unless the lane is `off`."""
    if options.lane is not None and is_off(options.lane):
        return
    tool, lanes = options.tool, shared.lanes
    if options.settings.effect is None and not tool.declares_effect:
        lanes.undeclared.add(tool.name)
    else:
        lanes.undeclared.discard(tool.name)
    lane = lanes.lane(options.lane or lane_key(tool.function))
    yield InLane(
        lane=lane,
        lanes=lanes,
        write=not options.is_read,
        tool=tool.name,
        by_default=options.lane is None,
    )
