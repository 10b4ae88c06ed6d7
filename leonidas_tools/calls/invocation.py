"""One running call: its task, and its single result."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import Context, ContextVar
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from leonidas_tools.calls.abandonable import AbandonableTask, context_of, detach
from leonidas_tools.calls.call import ResultStatus, Run, ToolCall, ToolResult
from leonidas_tools.calls.events import EventKind, Sink, ToolEvent
from leonidas_tools.calls.loop_watch import TASK_PREFIX
from leonidas_tools.calls.sendable import sendable
from leonidas_tools.errors import SessionValueError, ToolError, log_level
from leonidas_tools.redaction import Masking, described
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.plain import length
from leonidas_tools.results.texts import join, say

if TYPE_CHECKING:
    import logging

    from leonidas_tools.calls.context import ToolContext
    from leonidas_tools.calls.open_calls import OpenCalls
    from leonidas_tools.results.texts import Wording

logger = visible_logger(__name__)

OnEnd: TypeAlias = Callable[["Invocation", ToolResult], None]

_NO_LIMITS: Mapping[str, float] = {}

_current: ContextVar[Invocation] = ContextVar("leonidas_tools_invocation")
current: Callable[[], Invocation] = _current.get
"""Returns the invocation of the current task."""


def innermost() -> Invocation | None:
    """Return the invocation of the current task; `None` outside of all calls."""
    return _current.get(None)


_START = EventKind.START
_REFUSED = frozenset(
    {
        ResultStatus.INVALID_ARGUMENT,
        ResultStatus.NOT_FOUND,
        ResultStatus.DISABLED,
        ResultStatus.DENIED,
        ResultStatus.PENDING_APPROVAL,
        ResultStatus.LOOP,
        ResultStatus.LIMITED,
    }
)
_COMPLETE = EventKind.COMPLETE  # looked up once: most calls end with it
_LAST_WORDS = ("cancel", "stop")
"""Reasons for a stop after which no policy may continue."""
GRACE_SECONDS = 0.5
"""Seconds in which a stopped tool can end before its call ends without it."""


def ending_kind(result: ToolResult) -> EventKind:
    """Return the kind of event that ends a call with this result."""
    if result.ok:
        return _COMPLETE
    return EventKind.ERROR if result.status in _REFUSED else EventKind.FAILED


class Place(Protocol):
    """A place that a running call holds in a lane or under a limit."""

    @property
    def resource(self) -> object:
        """Return the lane or limit of the place."""
        ...

    def leave(self) -> None:
        """Release the place for the next call."""
        ...


DEBUG_VARIABLE = "LEONIDAS_DEBUG"
"""If `1`, full tracebacks of tools are logged; they may contain secrets."""


def log_failure(log: logging.Logger, tool_name: str, error: BaseException) -> None:
    """Log where a tool failed, without the exception's text, which may contain a secret.

    The text of a `SessionValueError` is logged: the library wrote it, for the developer.
    With `LEONIDAS_DEBUG=1` in the environment the whole traceback is logged; without it, the line
    mentions the variable.
    """
    trace = error if os.environ.get(DEBUG_VARIABLE) == "1" else None
    if type(error) is SessionValueError:
        what = f": {error}"
    else:
        hint = "" if trace else f"; {DEBUG_VARIABLE}=1 shows the traceback"
        what = f" raised {described(error)}{hint}"
    log.log(log_level(error), "The tool %r%s", tool_name, what, exc_info=trace)


class Invocation:
    """Runs one call in its own task, and delivers exactly one result.

    The tool may cancel its task, raise `SystemExit` or ignore cancellation: `on_end` is still
    called once. No task that waits for the call is affected.
    """

    __slots__ = (
        "_answer", "_entered", "_on_end", "_open_calls", "_run", "_stop", "_task", "begun", "call",
        "context", "copy", "ended", "goes_on", "host", "limits", "measured", "on_failure", "outer",
        "owner", "places", "sinks", "started", "stoppable", "stopped_by", "undo", "undo_deadline",
        "undo_failures", "undone", "wanted", "wording",
    )  # fmt: skip

    def __init__(  # noqa: PLR0915 - the state of the call, line by line
        self, call: ToolCall, run: Run, on_end: OnEnd | None, sinks: tuple[Sink, ...] = ()
    ) -> None:
        self.call = call
        self.context: ToolContext | None = None
        """The context passed to the tool; set once its function runs."""
        self.stoppable = True
        """True if stopping now leaves no work half done; set by the running attempt."""
        self.begun = False
        """True if an effect that must not happen twice may have begun."""
        self.copy: Invocation | None = None
        """The copy of the call that runs in its place; set while it runs."""
        self.undo: Callable[[], Awaitable[None]] | None = None
        """Undoes the call; set while a call whose result is no longer wanted can be undone."""
        self.wanted = True
        """True while the result is still wanted."""
        self.ended = False
        self.goes_on = False
        """True if the tool keeps running after its call was stopped: a thread cannot be stopped."""
        self.undo_failures = 0
        """Number of steps that could not be rolled back."""
        self.undone = 0
        """Number of steps of the last attempt that were rolled back."""
        self.undo_deadline = 0.0
        """Deadline of the undo step, in the time of the event loop; 0 without an undo step."""
        self.stopped_by: str | None = None
        """Decision of the person who stopped the call: `cancel` or `skip`."""
        self.host: object = None
        """The runtime that runs the call, if any."""
        self.limits: Mapping[str, float] = _NO_LIMITS
        """The time limits of the call, as in the first event."""
        self.on_failure: OnEnd | None = None
        """Called once if the result is not ok."""
        self.wording: Wording | None = None
        """The texts of the settings at the start of the call."""
        self._answer: asyncio.Future[ToolResult] | None = None
        self.measured: tuple[Any, int] = (None, 0)
        """Result of the last attempt, and the length of its JSON."""
        self.places: list[Place] = []
        """Places held by the call, innermost last; their owner removes them."""
        self.outer = _current.get(None)
        """The call that made this one, while this one runs."""
        if self.outer is not None:
            self.call = call.with_secrets_of(self.outer.call)
        self._entered = False
        self._open_calls: OpenCalls  # set by `start`
        self.owner: Invocations  # set by `start`
        self._run = run
        self._on_end = on_end
        self.sinks = sinks
        self.started = perf_counter()
        self._stop: object = None
        self._task: AbandonableTask | None = None

    def start(self, owner: Invocations, open_calls: OpenCalls) -> None:
        """Start the task, which never raises; `open_calls` counts the call until it ends."""
        self.owner = owner
        open_calls.count += 1
        self._open_calls = open_calls
        self._begin(self._body())
        if self.sinks:  # sent before the first step of the task, in the loop's next iteration
            event = ToolEvent(kind=_START, call=self.call, data=self.limits)
            for sink in self.sinks:
                sink(event)

    def _begin(self, what: Coroutine[Any, Any, None]) -> None:
        self.owner.add(self)
        name = TASK_PREFIX + self.call.name
        self._task = AbandonableTask(what, loop=asyncio.get_running_loop(), name=name)

    def stop(self) -> AbandonableTask | None:
        """Stop the task, and return it if it still runs."""
        if self._task is None or self._task.has_ended:
            return None
        self.interrupt("stop")
        return self._task

    def interrupt(self, reason: object) -> None:
        """Stop the task for a reason, and mark its context as cancelled."""
        if self._task is None or self._task.has_ended:
            return
        if self._stop not in _LAST_WORDS:
            self._stop = reason
        if self.context is not None:
            self.context.cancelled = True
        if self._entered:  # a task that is cancelled before its first step never takes one
            self._task.cancel()

    @property
    def is_open(self) -> bool:
        """Return whether a result is still wanted; otherwise no policy may try again."""
        return self.wanted and not self.ended and self._stop not in _LAST_WORDS

    def is_inside(self, resource: object) -> bool:
        """Return whether an outer call has a place in `resource`: waiting would never end."""
        outer = self.outer
        while outer is not None:
            if any(place.resource is resource for place in outer.places):
                return True
            outer = outer.outer
        return False

    def is_made_by(self, other: Invocation) -> bool:
        """Return whether the tool of another call has made this one, directly or indirectly."""
        outer = self.outer
        while outer is not None and outer is not other:
            outer = outer.outer
        return outer is not None

    def length_of(self, value: Any) -> int:
        """Return the JSON length of a plain value; the attempt has measured its own result."""
        known, size = self.measured
        return size if known is value else length(value)

    @property
    def stopping(self) -> bool:
        """Return whether the runtime, and not the tool, has cancelled the task."""
        return self._stop is not None

    @property
    def is_left(self) -> bool:
        """Return whether the closing runtime stopped the call, whose result is still wanted."""
        return self._stop == "stop"

    def clear_interruption(self, reason: object) -> bool:
        """Clear an interruption, and return whether the caught `CancelledError` is from it."""
        if self._stop is not reason:
            return False
        self._stop = None
        if self._task is not None:
            self._task.uncancel()
        return True

    @property
    def has_cancelled_itself(self) -> bool:
        """Return whether the tool cancelled its own task, which only the runtime may do."""
        return self._stop is None and self._task is not None and self._task.cancelling() > 0

    async def forgive(self) -> None:
        """Undo a cancellation that the tool requested on its own task."""
        while self._task is not None and self._task.cancelling():
            self._task.uncancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if self.stopping:
                raise

    def cancel(self) -> None:
        """Stop the call because its result is not wanted, unless it must run to its end.

        The result of a call that continues is not reported. Its effects are undone even if the call
        has already ended.
        """
        self.wanted = False
        if self.copy is not None:
            self.copy.cancel()
        elif self.stoppable:
            self.interrupt("cancel")
        elif self.undo is not None and self.context is not None:
            self.context.cancelled = True  # a thread cannot be stopped
        if self.ended and self._task is None and self.undo is not None:
            self._begin(self._late(self.undo))

    def stop_for(self, decision: str) -> asyncio.Future[ToolResult]:
        """Stop the call by a person's decision, and return a future with its result."""
        if self._answer is not None:
            return self._answer
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        self.stopped_by = decision
        if self.context is not None:
            self.context.cancelled = True
        # A thread must end before it is undone, and can only be asked to end.
        if self.stoppable or self.undo is None:
            self.interrupt("cancel")
            loop.call_later(GRACE_SECONDS, self._end_after_grace, context=Context())
        return self._answer

    def _end_after_grace(self) -> None:
        loop = asyncio.get_running_loop()
        if self.ended:
            return
        if self.undo_deadline > loop.time():
            loop.call_at(self.undo_deadline, self._end_after_grace, context=Context())
        else:
            self.end_abandoned()

    def abandon(self, result: ToolResult) -> None:
        """End the call although its task still runs: a tool may ignore cancellation.

        Release its places, since the tool may never do so.
        """
        if self._task is not None and not self._task.abandoned:
            logger.warning(
                "The tool %r still runs after it was stopped: it ignores cancellation",
                self.call.name,
            )
            self._task.abandon()
        self.owner.detach_tasks_of(self)  # tasks of the tool may ignore cancellation too
        while self.places:
            self.places.pop().leave()
        self.end(result)

    def end_abandoned(self) -> None:
        """End the call as cancelled although its task still runs."""
        self.abandon(self._cancelled_result())

    def emit(self, kind: EventKind, **data: Any) -> None:
        """Send an event to the sinks."""
        event = ToolEvent(kind=kind, call=self.call, data=data)
        for sink in self.sinks:
            sink(event)

    def forward(self, event: ToolEvent) -> None:
        """Forward an event of the tool's context to the sinks while the call runs."""
        if self.ended:
            return
        for sink in self.sinks:
            sink(event)

    def end(self, result: ToolResult) -> None:
        """End the call with a result, and drop later results."""
        if self.ended:
            return
        self.ended = True
        self._open_calls.count -= 1
        if self.undo_failures or self.wording is not None:
            result = self._in_words(result)
        if self.sinks:
            seconds = perf_counter() - self.started
            kind = self._ending_kind(result)
            event = ToolEvent(kind=kind, call=self.call, result=result, seconds=seconds)
            for sink in self.sinks:
                sink(event)
        if self.on_failure is not None and not result.ok:
            self.on_failure(self, result)
        if self._on_end is not None:
            self._on_end(self, result)
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(result)

    def _ending_kind(self, result: ToolResult) -> EventKind:
        if not self.wanted or (self.stopped_by is not None and not result.ok):
            return EventKind.CANCEL
        return ending_kind(result)

    async def _body(self) -> None:
        _current.set(self)
        self._entered = True
        try:
            result = (
                await self._run(self.call) if self._stop is None else self._accept_cancellation()
            )
        except asyncio.CancelledError:
            result = self._accept_cancellation()
        except BaseException as error:  # noqa: BLE001 - one answer, whatever a policy raises
            result = self._convert_error(error)
        if self.undo is not None and not self.wanted:
            await self.undo()
        self.end(result)
        # The task's context refers to this, and nested calls refer to each other: clear the
        # references, so that their memory does not wait for the garbage collector.
        self.outer = self.context = self._on_end = self.on_failure = self._task = None
        self.owner.discard(self)

    async def _late(self, undo: Callable[[], Awaitable[None]]) -> None:
        """Undo a call that was cancelled after it had ended."""
        _current.set(self)
        await undo()
        self._task = None
        self.owner.discard(self)

    def _in_words(self, result: ToolResult) -> ToolResult:
        """Add the number of steps that were not undone, and use the texts of the settings."""
        if self.undo_failures:
            message = say("left_over", count=self.undo_failures)
            result = replace(result, message=join(result.message, message))
        return result if self.wording is None else result.reworded(self.wording)

    def _convert_error(self, error: BaseException) -> ToolResult:
        """Convert an exception of a policy into a result; `Attempt` converts those of tools."""
        if isinstance(error, ToolError):
            with contextlib.suppress(Exception):  # an error of other code may be malformed
                mask = Masking(self.call.known) if self.call.known else None
                return sendable(ToolResult.from_error(error), 0, tool=self.call.name, mask=mask)
        log_failure(logger, self.call.name, error)
        return ToolResult.failed(say("failed", tool=self.call.name), error=error)

    def _accept_cancellation(self) -> ToolResult:
        """Clear the cancellation of the task, and return the result of the cancelled call."""
        while self._task is not None and self._task.cancelling():
            self._task.uncancel()
        return self._cancelled_result()

    def _cancelled_result(self) -> ToolResult:
        if self.stopped_by is not None:
            return self.stopped_result()
        message = say("cancelled", tool=self.call.name)
        if self.begun and self.goes_on and not self.is_left:
            return ToolResult(
                status=ResultStatus.UNKNOWN_OUTCOME,
                message=join(message, say("effect_unknown")),
                reason_code="cancelled",
            )
        return ToolResult(status=ResultStatus.CANCELLED, message=message)

    def stopped_result(self) -> ToolResult:
        """Return the result of a call that a person has stopped."""
        name, skipped = self.call.name, self.stopped_by == "skip"
        undone = say("undone") if self.undone and not self.undo_failures else None
        code = "skipped" if skipped else "cancelled_by_user"
        if self.begun:
            return ToolResult(
                status=ResultStatus.UNKNOWN_OUTCOME,
                message=join(say("stopped_running", tool=name), undone, say("effect_unknown")),
                reason_code=code,
            )
        then = say("go_on_without" if skipped else "not_again")
        return ToolResult(
            status=ResultStatus.CANCELLED,
            message=join(say("stopped", tool=name), undone, then),
            reason_code=code,
        )


class Invocations(set[Invocation]):
    """The running calls of an executor."""

    def __init__(self) -> None:
        super().__init__()
        self._abandoned: set[Invocation] = set()

    def detach_tasks_of(self, abandoned: Invocation) -> None:
        """Detach the tasks of an abandoned call, in one pass for all calls abandoned just now."""
        if not self._abandoned:
            asyncio.get_running_loop().call_soon(self._detach, context=Context())
        self._abandoned.add(abandoned)

    def _detach(self) -> None:
        abandoned, self._abandoned = self._abandoned, set()
        for task in asyncio.all_tasks():
            call = context_of(task).get(_current)
            if call is not None and call in abandoned:
                detach(task)
