"""The call ledger: checks that every call ends exactly once."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, replace
from typing import TypeAlias
from weakref import ReferenceType, ref

from leonidas_tools.calls.call import ToolCall, ToolSession
from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.redaction.visible import visible_logger

_log = visible_logger(__name__)

_START = EventKind.START
_WAIT = EventKind.WAIT
_CANCEL = EventKind.CANCEL
_UNSTARTED_ENDS = (EventKind.ERROR, EventKind.CANCEL)
"""Last events of a call without a number that never started: refused, or cancelled before."""

_Key: TypeAlias = tuple[ReferenceType[ToolSession], int] | int
"""A weak reference to the session and the call's number; without a number, the call's `id()`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningCall:
    """A call that has started and not ended.

    `at` is its start in seconds since the epoch; `waits_for` is the tool that holds its lane.
    """

    tool: str
    call_id: str | None
    session: str
    trace_id: str
    at: float
    seconds: float
    waits_for: str | None = None


class Ledger:
    """Counts started and ended calls, and keeps the running ones.

    A call is identified by its session and number, or by its object if it has no number. A call
    that was refused, or cancelled before it began, ends without a start and counts too. The
    numbers of the last `remembered` ended calls are kept, to detect a second end.
    """

    __slots__ = ("_ended", "_open", "cancelled", "ended", "protocol_errors", "started")

    def __init__(self, *, remembered: int = 1000) -> None:
        self.started = 0
        """The number of calls that started."""
        self.ended = 0
        """The number of calls that ended, with any result."""
        self.cancelled = 0
        """The number of calls that ended by cancellation."""
        self.protocol_errors = 0
        """The number of second starts and second ends, which must stay 0."""
        self._open: dict[_Key, ToolEvent] = {}
        self._ended: deque[_Key] = deque(maxlen=remembered)

    def __call__(self, event: ToolEvent) -> None:
        """Record the start or the end of a call."""
        if event.result is not None:
            self._end(event)
        elif event.kind is _START:
            key = _key(event.call)
            if key in self._open:
                self._protocol_error(event, "started a second time")
                return
            self._open[key] = event
            self.started += 1
        elif event.kind is _WAIT and (start := self._open.get(_key(event.call))) is not None:
            self._open[_key(event.call)] = replace(start, data={**start.data, **event.data})

    @property
    def seen(self) -> int:
        """Return the number of all calls so far, ended and running."""
        return self.ended + len(self._open)

    @property
    def in_flight(self) -> int:
        """Return the number of running calls."""
        return len(self._open)

    def active(self, tool: str | None = None) -> int:
        """Return the number of running calls of one tool, by default of all tools."""
        if tool is None:
            return len(self._open)
        return self.active_by_tool()[tool]

    def active_by_tool(self) -> Counter[str]:
        """Return the number of running calls by tool name."""
        return Counter(event.call.name for event in self._open.copy().values())

    def running(self) -> list[RunningCall]:
        """Return the running calls, the oldest first."""
        now = time.time()
        return [
            RunningCall(
                tool=event.call.name,
                call_id=event.call.id,
                session=event.call.session.id,
                trace_id=event.call.trace_id,
                at=event.at,
                seconds=max(now - event.at, 0.0),
                waits_for=event.data.get("waits_for"),
            )
            for event in self._open.copy().values()
        ]

    def to_json(self) -> dict[str, int]:
        """Return the counts as plain JSON."""
        return {
            "seen": self.seen,
            "started": self.started,
            "ended": self.ended,
            "cancelled": self.cancelled,
            "in_flight": self.in_flight,
            "protocol_errors": self.protocol_errors,
        }

    def _end(self, event: ToolEvent) -> None:
        call = event.call
        key = _key(call)
        if self._open.pop(key, None) is None and not self._ends_unstarted(key, event):
            self._protocol_error(event, "ended a second time or without a start")
            return
        self.ended += 1
        if event.kind is _CANCEL:
            self.cancelled += 1
        if call.number:
            self._ended.append(key)

    def _ends_unstarted(self, key: _Key, event: ToolEvent) -> bool:
        """Return whether a call that is not running may end now."""
        return key not in self._ended if event.call.number else event.kind in _UNSTARTED_ENDS

    def _protocol_error(self, event: ToolEvent, what: str) -> None:
        self.protocol_errors += 1
        call = event.call
        _log.error("The call %s of %r %s (%s)", call.trace_id, call.name, what, event.kind.value)


def _key(call: ToolCall) -> _Key:
    # The start event keeps a running call alive, so that no other call has its address.
    return (ref(call.session), call.number) if call.number else id(call)
