"""One call under way: its task, and the one answer it gets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from leonidas_tools.calls import ResultStatus, Run, ToolCall, ToolResult
from leonidas_tools.cutting import length
from leonidas_tools.errors import ToolError
from leonidas_tools.events import EventKind, Sink, ToolEvent, ending_kind
from leonidas_tools.loop_watch import TASK_PREFIX
from leonidas_tools.redaction import described
from leonidas_tools.sendable import sendable

if TYPE_CHECKING:
    from leonidas_tools.context import ToolContext

logger = logging.getLogger(__name__)

OnEnd: TypeAlias = Callable[["Invocation", ToolResult], None]

_current: ContextVar[Invocation] = ContextVar("leonidas_tools_invocation")
current: Callable[[], Invocation] = _current.get
"""The invocation in whose task this runs."""

_START = EventKind.START
_LAST_WORDS = ("cancel", "stop")
"""Reasons to stop after which no policy may go on."""


class Place(Protocol):
    """What a call holds while it runs: a lane, a place among so many."""

    @property
    def room(self) -> object:
        """Where the place is."""
        ...

    def leave(self) -> None:
        """Gives it to the next."""
        ...


def log_failure(log: logging.Logger, tool_name: str, error: BaseException) -> None:
    """Logs where a tool failed, but not the exception's text: that may hold a secret."""
    log.warning("The tool %r raised %s", tool_name, described(error))


class Invocation:
    """Runs one call in a task of its own and hands on exactly one result.

    Whatever the tool does to its task (cancel it, raise `SystemExit`, refuse to be cancelled),
    `on_end` is called once, and the task of whoever waits is not touched.

    Args:
        call: The call.
        run: What to run.
        on_end: Called once with the result.
        sinks: Who hears of what happens.
    """

    __slots__ = (
        "_entered", "_on_end", "_run", "_stop", "_task", "begun", "call", "context", "ended",
        "left_over", "measured", "outer", "owner", "places", "sinks", "started", "stoppable",
        "take_back", "wanted",
    )  # fmt: skip

    def __init__(
        self, call: ToolCall, run: Run, on_end: OnEnd | None, sinks: tuple[Sink, ...] = ()
    ) -> None:
        self.call = call
        self.context: ToolContext | None = None
        """What the tool was given; there once its function runs."""
        self.stoppable = True
        """Whether stopping now leaves nothing half done; the attempt under way knows."""
        self.begun = False
        """Whether something may have happened that happens only once."""
        self.take_back: Callable[[], Awaitable[None]] | None = None
        """Undoes what was done; there while it is to be undone once nobody wants the answer."""
        self.wanted = True
        """Whether anybody still wants the answer."""
        self.ended = False
        self.left_over = 0
        """How many steps of what it has half done could not be taken back."""
        self.measured: tuple[Any, int] = (None, 0)
        """What the last attempt has given, and how long its JSON is."""
        self.places: list[Place] = []
        """What it holds, the innermost last; who holds a place leaves it and takes it off."""
        self.outer = _current.get(None)
        """The call that made this one, while this one runs."""
        self._entered = False
        self.owner: set[Invocation] = set()
        self._run = run
        self._on_end = on_end
        self.sinks = sinks
        self.started = perf_counter()
        self._stop: object = None
        self._task: asyncio.Task[None] | None = None

    def start(self, owner: set[Invocation]) -> None:
        """Begins; the task never raises.

        Args:
            owner: Holds the invocation for as long as its task runs.
        """
        self.owner = owner
        self._begin(self._body())
        if self.sinks:  # told before the task takes its first step, in the next turn of the loop
            self.emit(_START)

    def _begin(self, what: Coroutine[Any, Any, None]) -> None:
        self.owner.add(self)
        name = TASK_PREFIX + self.call.name
        self._task = asyncio.get_running_loop().create_task(what, name=name)

    def stop(self) -> asyncio.Task[None] | None:
        """Stops the task whatever it is doing, and returns it if it still runs."""
        if self._task is None or self._task.done():
            return None
        self.interrupt("stop")
        return self._task

    def interrupt(self, reason: object) -> None:
        """Stops the task.

        Args:
            reason: The policy that stops it and takes it from there, or one of the last words.
        """
        if self._task is None or self._task.done():
            return
        if self._stop not in _LAST_WORDS:
            self._stop = reason
        if self.context is not None:
            self.context.cancelled = True
        if self._entered:  # a task that is cancelled before its first step never takes one
            self._task.cancel()

    @property
    def is_open(self) -> bool:
        """Whether somebody still waits for an answer: else nothing more may be tried."""
        return self.wanted and not self.ended

    def is_inside(self, room: object) -> bool:
        """Whether the call that made this one has a place there: to wait for it would be for ever.

        Args:
            room: What places are in.
        """
        outer = self.outer
        while outer is not None:
            if any(place.room is room for place in outer.places):
                return True
            outer = outer.outer
        return False

    def length_of(self, value: Any) -> int:
        """How long the JSON of a plain value is; what the attempt has given is measured already."""
        known, size = self.measured
        return size if known is value else length(value)

    @property
    def stopping(self) -> bool:
        """Whether a `CancelledError` in the task is ours, and not the tool's own doing."""
        return self._stop is not None

    def taken(self, reason: object) -> bool:
        """Whether the `CancelledError` just caught is that interruption; if so it is over."""
        if self._stop is not reason:
            return False
        self._stop = None
        if self._task is not None:
            self._task.uncancel()
        return True

    @property
    def cancelled_itself(self) -> bool:
        """Whether the tool has cancelled the task it runs in, which is for us to do."""
        return self._stop is None and self._task is not None and self._task.cancelling() > 0

    async def forgive(self) -> None:
        """Takes back the tool's own cancellation of its task, which may not have struck yet."""
        while self._task is not None and self._task.cancelling():
            self._task.uncancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if self.stopping:
                raise

    def cancel(self) -> None:
        """Nobody wants the answer any more: stops the call, unless it must run to its end.

        What runs on is told to nobody. What is to be undone is undone also where the call has
        ended already.
        """
        self.wanted = False
        if self.stoppable:
            self.interrupt("cancel")
        elif self.take_back is not None and self.context is not None:
            self.context.cancelled = True  # a thread can stop only by itself
        if self.ended and self._task is None and self.take_back is not None:
            self._begin(self._late(self.take_back))

    def abandon(self, result: ToolResult) -> None:
        """Ends the call although its task does not: a tool may refuse to be cancelled.

        What it holds goes to others, since it may never give it back.
        """
        logger.warning(
            "The tool %r goes on after it was stopped: it ignores cancellation", self.call.name
        )
        while self.places:
            self.places.pop().leave()
        self.end(result)

    def emit(self, kind: EventKind, **data: Any) -> None:
        """Tells the sinks what has happened."""
        event = ToolEvent(kind=kind, call=self.call, data=data)
        for sink in self.sinks:
            sink(event)

    def tell(self, event: ToolEvent) -> None:
        """Hands on an event that the tool's context made, while the call is under way."""
        if self.ended:
            return
        for sink in self.sinks:
            sink(event)

    def end(self, result: ToolResult) -> None:
        """Ends the call with a result, once: later results are dropped."""
        if self.ended:
            return
        self.ended = True
        if self.sinks:
            kind = ending_kind(result) if self.wanted else EventKind.CANCEL
            seconds = perf_counter() - self.started
            event = ToolEvent(kind=kind, call=self.call, result=result, seconds=seconds)
            for sink in self.sinks:
                sink(event)
        if self._on_end is not None:
            self._on_end(self, result)

    async def _body(self) -> None:
        _current.set(self)
        self._entered = True
        try:
            result = await self._run(self.call) if self._stop is None else self._cancelled()
        except asyncio.CancelledError:
            result = self._cancelled()
        except BaseException as error:  # noqa: BLE001 - one answer, whatever a policy raises
            result = self._failed(error)
        if self.take_back is not None and not self.wanted:
            await self.take_back()
        self.end(self._with_left_over(result) if self.left_over else result)
        # The task's context holds this, and calls that tasks of calls make hold each other: what
        # is no longer needed must not wait for the collector, or for ever.
        self.outer = self.context = self._on_end = self._task = None
        self.owner.discard(self)

    async def _late(self, take_back: Callable[[], Awaitable[None]]) -> None:
        """Undoes what a call has done whose answer came too late."""
        _current.set(self)
        await take_back()
        self._task = None
        self.owner.discard(self)

    def _with_left_over(self, result: ToolResult) -> ToolResult:
        said = f"Of what was done before it failed, {self.left_over} could not be undone: tell so."
        return replace(result, message=f"{result.message} {said}" if result.message else said)

    def _failed(self, error: BaseException) -> ToolResult:
        """What a policy means by what it raised; what a tool raises does not come here."""
        if isinstance(error, ToolError):
            with contextlib.suppress(Exception):  # an error is made by others, and may be odd
                return sendable(ToolResult.from_error(error), 0, tool=self.call.name)
        log_failure(logger, self.call.name, error)
        return ToolResult.failed(f"The tool {self.call.name!r} failed.", error=error)

    def _cancelled(self) -> ToolResult:
        while self._task is not None and self._task.cancelling():
            self._task.uncancel()
        return ToolResult(
            status=ResultStatus.CANCELLED, message=f"The call of {self.call.name!r} was cancelled."
        )
