"""What happened: one small record for everything a call goes through."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.records import record

if TYPE_CHECKING:
    from leonidas_tools.calls import ToolCall, ToolResult

_NOTHING: Mapping[str, Any] = {}


class EventKind(StrEnum):
    """What can happen to a call. The last four end it."""

    START = "tool_start"
    PROGRESS = "tool_progress"
    RETRY = "tool_retry"
    FALLBACK = "tool_fallback"
    UNDO = "tool_undo"
    COMPLETE = "tool_complete"
    ERROR = "tool_error"
    FAILED = "tool_failed"
    CANCEL = "tool_cancel"


@record
class ToolEvent:
    """Something that happened to a call.

    `tool_complete` ends a call that did what it was asked; `tool_error` one that was refused or
    failed in a way the model can mend (bad arguments, unknown tool, disabled); `tool_failed` one
    that was tried and did not work; `tool_cancel` one that nobody wants any more.

    Args:
        kind: What happened.
        call: The call it happened to.
        result: How it ended, for the kinds that end a call.
        seconds: How long the call took, for the kinds that end a call.
        data: What else there is to say: `message`, `fraction`, `attempt`, `delay_seconds`, …
        at: When, in seconds since the epoch.
    """

    kind: EventKind
    call: ToolCall
    result: ToolResult | None = None
    seconds: float | None = None
    data: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    at: float = field(default_factory=time.time)

    @property
    def ends_call(self) -> bool:
        """Whether nothing more happens to this call."""
        return self.result is not None

    def to_json(self) -> dict[str, Any]:
        """The event as plain JSON, without arguments, results and messages: those may be secret."""
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
        if self.seconds is not None:
            body["seconds"] = self.seconds
        return {**body, **self.data}


Sink: TypeAlias = Callable[[ToolEvent], None]
"""Hears of every event; returns at once and never raises on purpose."""
