"""Events of a call, each a small record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.calls.records import record

if TYPE_CHECKING:
    from leonidas_tools.calls.call import ToolCall, ToolResult


class EventKind(StrEnum):
    """The kinds of events of a call. The last four end it."""

    START = "tool_start"
    WAIT = "tool_wait"
    PROGRESS = "tool_progress"
    RETRY = "tool_retry"
    FALLBACK = "tool_fallback"
    UNDO = "tool_undo"
    SKIP = "tool_skip"
    BREAKER = "tool_breaker"
    UNTRUSTED = "tool_untrusted"
    ITERATION = "iteration"
    TASK_LIST = "task_list"
    TASK_UPDATE = "task_update"
    APPROVAL_REQUEST = "tool_approval_request"
    APPROVAL_ANSWER = "tool_approval_answer"
    COMPLETE = "tool_complete"
    ERROR = "tool_error"
    FAILED = "tool_failed"
    CANCEL = "tool_cancel"


_IN_THEIR_WORDS = frozenset(
    {EventKind.PROGRESS, EventKind.ITERATION, EventKind.TASK_LIST, EventKind.TASK_UPDATE}
)
"""Events whose texts come from a tool or the model."""


@record
class ToolEvent:
    """An event of a call.

    `tool_complete` ends a call that succeeded; `tool_error` ends a call that was refused, or failed
    in a way that the model can correct (bad arguments, unknown tool, disabled); `tool_failed` ends
    a call that ran and failed; `tool_cancel` ends a call that was stopped or is unwanted.

    Args:
        kind: The kind of event.
        call: The call.
        result: The result, for the kinds that end a call.
        seconds: The duration of the call in seconds, for the kinds that end a call.
        data: Further details: `message`, `fraction`, `attempt`, `waits_for`, …
        at: The time of the event, in seconds since the epoch.
        dropped: The number of progress events before this one that were dropped, because the reader
            was too slow.
    """

    kind: EventKind
    call: ToolCall
    result: ToolResult | None = None
    seconds: float | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    at: float = field(default_factory=time.time)
    dropped: int = 0

    @property
    def ends_call(self) -> bool:
        """Return whether the event ends the call."""
        return self.result is not None

    def to_json(self) -> dict[str, Any]:
        """Return the event as plain JSON, without arguments, results and messages."""
        body: dict[str, Any] = {
            "event": self.kind.value,
            "call_id": self.call.id,
            "tool": self.call.name,
            "session": self.call.session.id,
            "trace_id": self.call.trace_id,
            "at": self.at,
        }
        if self.result is not None:
            body["status"] = self.result.status.value
            if self.result.reason_code is not None:
                body["reason_code"] = self.result.reason_code
            if self.result.cached:
                body["cached"] = True
        if self.seconds is not None:
            body["seconds"] = self.seconds
        if self.dropped:
            body["dropped"] = self.dropped
        if self.data:  # progress must not overwrite the fields of the event
            body |= {name: said for name, said in self.shown().items() if name not in body}
        return body

    def with_dropped(self, count: int) -> ToolEvent:
        """Return the event with the number of events that were dropped before it."""
        return replace(self, dropped=count)

    def shown(self) -> Mapping[str, Any]:
        """Return the details, with secrets masked in texts of a tool or the model."""
        if self.kind not in _IN_THEIR_WORDS:
            return self.data
        redaction = self.call.redaction.hiding(self.call.arguments)
        shown: Mapping[str, Any] = redaction(self.data)
        return shown


Sink: TypeAlias = Callable[[ToolEvent], None]
"""Receives every event; must return at once, and should not raise."""
