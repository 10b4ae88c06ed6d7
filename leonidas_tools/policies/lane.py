"""Lanes (concurrency keys): reads run concurrently, writes run one after another, in order."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import OrderedDict
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals.session_policy import user_of
from leonidas_tools.calls.events import EventKind
from leonidas_tools.calls.invocation import current
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.tools.metadata import is_off

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from leonidas_tools.calls.call import Run, ToolCall, ToolResult, ToolSession
    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions
    from leonidas_tools.tools.registry import AnyTool

logger = visible_logger(__name__)

_LONG_WAIT_SECONDS = 0.25
_VERY_LONG_WAIT_SECONDS = 1.0  # a silence that a user hears


def default_lane(tool: AnyTool) -> str:
    """Return the lane of a tool that names none: its MCP server, or its object or module."""
    origin = tool.origin
    return lane_key(tool.function) if origin is None else f"mcp:{origin.server}"


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


def owner_of(session: ToolSession) -> Hashable:
    """Return who owns the calls of a session: its user, or the session itself without a user."""
    user = user_of(session)
    return session if user is None else user


class Turn:
    """The turn of one call in a lane, which is its place there while it runs."""

    __slots__ = ("admitted", "followers", "owner", "resource", "tool", "write")

    def __init__(self, lane: Lane, *, write: bool, owner: Hashable = None, tool: str = "") -> None:
        self.resource = lane
        self.write = write
        self.owner = owner
        self.tool = tool
        self.admitted: asyncio.Future[None]  # set when the call has to wait
        self.followers: list[Turn] = []
        """The reads that wait until this write has left."""

    def leave(self) -> None:
        """Leave the lane."""
        self.resource.leave(self)


class Lane:
    """A first-come readers-writer lock.

    A write waits for all calls before it, and the calls after it wait for the write. So a read sees
    the earlier writes of its owner. But a read does not wait for a write of another owner that
    itself still waits for an earlier call. No call is overtaken once it is the oldest in the lane,
    so none waits for ever.
    """

    __slots__ = ("_calls", "_inside", "_lanes", "_writes", "key")

    def __init__(self, key: Hashable = None, lanes: dict[Hashable, Lane] | None = None) -> None:
        self.key = key
        self._lanes = lanes
        self._calls: OrderedDict[Turn, None] = OrderedDict()  # in the order of arrival
        self._inside: OrderedDict[Turn, None] = OrderedDict()
        self._writes: OrderedDict[Turn, None] = OrderedDict()  # waiting writes

    @property
    def holder(self) -> Turn | None:
        """Return the call that holds the lane, the first one of several reads."""
        return next(iter(self._inside), None)

    def enter_now(self, turn: Turn) -> bool:
        """Enter the lane if no wait is needed, and return whether it was entered."""
        if self._calls and (
            turn.write or self._find_blocking_write(turn, reversed(self._writes)) is not None
        ):
            return False
        self._calls[turn] = self._inside[turn] = None
        return True

    async def enter(self, turn: Turn) -> None:
        """Wait until the call is admitted; `enter_now` has not admitted it."""
        turn.admitted = asyncio.get_running_loop().create_future()
        if turn.write:
            self._writes[turn] = None
        elif (before := self._find_blocking_write(turn, reversed(self._writes))) is not None:
            before.followers.append(turn)
        self._calls[turn] = None
        try:
            await turn.admitted
        except asyncio.CancelledError:
            self.leave(turn)
            raise

    def leave(self, turn: Turn) -> None:
        """Leave the lane or its queue, and admit the calls that need not wait any longer."""
        self._remove(turn)
        while self._writes and not self._inside:
            first = next(iter(self._writes))
            if first.admitted.done():  # cancelled, but its task has not run since
                self._remove(first)
            else:
                del self._writes[first]
                self._admit(first)
        if not self._calls and self._lanes is not None:
            self._lanes.pop(self.key, None)

    def _find_blocking_write(self, read: Turn, writes: Iterable[Turn]) -> Turn | None:
        """Return the write that a read waits for; `writes` wait before it, the latest first."""
        own = next((each for each in writes if each.owner == read.owner), None)
        holder = self.holder
        if own is not None or (holder is not None and holder.write):
            return own or holder
        oldest = next(iter(self._calls))
        return oldest if oldest in self._writes else None

    def _remove(self, turn: Turn) -> None:
        """Remove a call; the reads that followed it are admitted, or follow an earlier write."""
        if turn not in self._calls:
            return
        del self._calls[turn]
        if turn in self._inside:
            del self._inside[turn]
            for read in turn.followers:
                self._admit(read)
            return
        followers = [each for each in turn.followers if not each.admitted.done()]
        earlier = list(takewhile(lambda each: each is not turn, self._writes)) if followers else ()
        self._writes.pop(turn, None)
        for read in followers:
            before = self._find_blocking_write(read, reversed(earlier))
            if before is None:
                self._admit(read)
            else:
                before.followers.append(read)

    def _admit(self, turn: Turn) -> None:
        if not turn.admitted.done():
            self._inside[turn] = None
            turn.admitted.set_result(None)


class Lanes:
    """The lanes in use, by key."""

    def __init__(self) -> None:
        self._lanes: dict[Hashable, Lane] = {}
        self.undeclared: set[str] = set()
        """The tools that declare no effect."""
        self._reported: set[str] = set()

    def lane(self, key: Hashable) -> Lane:
        """Return the lane with this key, which is kept while a call is in it."""
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key, self._lanes)
        return lane

    def warn_once(
        self, tool: str, seconds: float, holder: str, *, write: bool, by_default: bool
    ) -> None:
        """Log one warning for each tool that was waited for although it may not be necessary."""
        if holder in self._reported:
            return
        if holder in self.undeclared:
            if write and tool not in self.undeclared:
                return  # it declares that it changes something: it waits in any case
            both = write and tool != holder
            if_reads = f"{holder!r} and {tool!r} change" if both else f"{holder!r} changes"
            why = "declares no effect and so runs alone in its lane"
            advice = (
                f'If {if_reads} nothing, declare effect="read" (in the settings: effect: read); '
                "then such calls run concurrently"
            )
        elif by_default and seconds >= _VERY_LONG_WAIT_SECONDS:
            why = "holds the lane of their module, object or server for this user"
            advice = (
                f'If other calls need not wait for {holder!r}, declare lane="off" for it '
                "(in the settings: lane: off)"
            )
        else:
            return
        self._reported.add(holder)
        logger.warning(
            "A call of %r has waited %.1f seconds for one of %r, which %s. %s",
            tool, seconds, holder, why, advice,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class InLane:
    """Runs a call when its lane admits it.

    A tool that calls another tool of the same lane already holds it, and does not wait for itself.
    """

    name: str
    lanes: Lanes
    write: bool  # needs exclusive access to the lane
    tool: str
    by_default: bool = False  # neither the tool nor the settings name the lane: one for each user

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call in its turn."""
        owner, invocation = owner_of(call.session), current()
        lane = self.lanes.lane((self.name, owner) if self.by_default else self.name)
        if invocation.outer is not None and invocation.is_inside(lane):
            return await run(call)
        turn = Turn(lane, write=self.write, owner=owner, tool=self.tool)
        has_waited = not lane.enter_now(turn)
        if has_waited:
            await self._wait(lane, turn)
        places = invocation.places
        places.append(turn)
        try:
            if has_waited:
                invocation.emit(EventKind.WAIT, waits_for=None)
            return await run(call)
        finally:
            if places:  # empty if the call was abandoned
                places.pop().leave()

    async def _wait(self, lane: Lane, turn: Turn) -> None:
        loop, holder = asyncio.get_running_loop(), lane.holder
        assert holder is not None
        since = loop.time()
        current().emit(EventKind.WAIT, waits_for=holder.tool)
        await lane.enter(turn)
        seconds = loop.time() - since
        if seconds > _LONG_WAIT_SECONDS:
            self.lanes.warn_once(
                self.tool, seconds, holder.tool, write=self.write, by_default=self.by_default
            )


def for_tool(options: EffectiveOptions, shared: Shared) -> Iterator[InLane]:
    """Yield the place of a tool's calls in their lane, unless the lane is `off`."""
    tool, lanes, default = options.tool, shared.lanes, default_lane(options.tool)
    lane = options.lane or default  # the tools of an MCP server name their default
    if is_off(lane):
        return
    if options.settings.effect is None and not tool.declares_effect:
        lanes.undeclared.add(tool.name)
    else:
        lanes.undeclared.discard(tool.name)
    yield InLane(
        name=lane,
        lanes=lanes,
        write=not options.is_read,
        tool=tool.name,
        by_default=lane == default,
    )
