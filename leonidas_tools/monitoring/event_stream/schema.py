"""All kinds of events, and their JSON Schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from leonidas_tools.monitoring.event_stream.call_events import (
    ApprovalAnswer,
    ApprovalRequest,
    Iteration,
    TaskList,
    TaskUpdate,
    ToolBreaker,
    ToolCancel,
    ToolComplete,
    ToolError,
    ToolFailed,
    ToolFallback,
    ToolProgress,
    ToolRetry,
    ToolSkip,
    ToolStart,
    ToolUndo,
)
from leonidas_tools.monitoring.event_stream.state_events import Happening, Missed, State

VERSION = 1
"""Of the events: raised when a field changes or goes; new fields and events may come at any time.
"""


class _OfSession(Happening):
    session: str


class SessionStarted(_OfSession):
    """A live session has begun."""

    event: Literal["session_started"]


class SessionEnded(_OfSession):
    """A live session has ended."""

    event: Literal["session_ended"]


class ConnectionOpened(_OfSession):
    """A live session has its first connection, or another one."""

    event: Literal["connection_opened", "connection_renewed"]
    connection: int
    resumed: bool
    audio_dropped: float


class ConnectionLost(_OfSession):
    """A live session has lost its connection; it is tried again."""

    event: Literal["connection_lost"]
    code: int
    reason: str


class ConnectionRefused(_OfSession):
    """A live session was refused a connection."""

    event: Literal["connection_refused"]
    reason: str


class ToolsChanged(_OfSession):
    """The model was told of other tools while it talks."""

    event: Literal["tools_changed"]
    tools: list[str]


class MalformedFunctionCall(_OfSession):
    """The model has made a call that cannot be read."""

    event: Literal["malformed_function_call"]


class SettingsChanged(Happening):
    """Other settings are in force."""

    event: Literal["settings_changed"]


class ToolQuarantined(Happening):
    """A tool of an MCP server is no longer what it was when it was first used."""

    event: Literal["tool_quarantined"]
    server: str
    tool: str
    changed: list[str]


class Alert(Happening):
    """A figure has crossed its threshold, or is clear again."""

    event: Literal["alert"]
    name: str
    state: Literal["firing", "resolved"]
    metric: str
    tool: str | None
    value: float | None
    above: float
    clear_below: float
    since: float
    message: str


Event: TypeAlias = (
    State
    | Missed
    | ToolStart
    | ToolProgress
    | ToolRetry
    | ToolFallback
    | ToolUndo
    | ToolSkip
    | ToolBreaker
    | Iteration
    | TaskList
    | TaskUpdate
    | ApprovalRequest
    | ApprovalAnswer
    | ToolComplete
    | ToolError
    | ToolFailed
    | ToolCancel
    | SessionStarted
    | SessionEnded
    | ConnectionOpened
    | ConnectionLost
    | ConnectionRefused
    | ToolsChanged
    | MalformedFunctionCall
    | SettingsChanged
    | ToolQuarantined
    | Alert
)
"""Anything that happens, told apart by `event`."""


def events_schema() -> dict[str, Any]:
    """Return the JSON Schema of the events, made of their types.

    Example:
        >>> mapping = events_schema()["discriminator"]["mapping"]
        >>> mapping["tool_start"]
        '#/$defs/ToolStart'
    """
    from pydantic import Field, TypeAdapter

    event: Any = Annotated[Event, Field(discriminator="event")]
    schema = TypeAdapter(event).json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Events of Leonidas Tools, version {VERSION}",
        **schema,
    }


def kinds() -> frozenset[str]:
    """Return every `event` there is."""
    from typing import get_args, get_type_hints

    return frozenset(
        name for each in get_args(Event) for name in get_args(get_type_hints(each)["event"])
    )
