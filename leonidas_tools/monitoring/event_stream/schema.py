"""The types of all events, and their JSON Schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict  # pydantic reads no other before 3.12

VERSION = 1
"""The version of the events, raised when a field changes or is removed; new fields and events may
be added at any time."""


class _EventBase(TypedDict):
    """The fields of every event."""

    version: Literal[1]
    sequence: int
    at: float


class CallUnderWay(TypedDict):
    """A running call, with the tool whose call it waits for in its lane, if it does."""

    call_id: str | None
    tool: str
    session: str
    trace_id: str
    at: float
    waits_for: NotRequired[str]


class OpenQuestion(TypedDict):
    """A call that waits for a person's approval; its secrets are masked."""

    id: str
    tool: str
    title: str
    details: dict[str, Any]
    created: float
    deadline: float
    on_expiry: Literal["cancel", "proceed"]
    untrusted: NotRequired[list[str]]
    session: str
    user: str | None
    call_id: str | None
    rule: str
    schema: NotRequired[dict[str, Any]]
    problem: NotRequired[str]


class Task(TypedDict):
    """A task in the agent's list."""

    id: str
    title: str
    status: Literal["pending", "in_progress", "completed", "failed"]
    calls: list[str]
    tools: NotRequired[list[str]]
    done: NotRequired[list[str]]


class LiveSession(TypedDict):
    """An open live session, its connection, and what it has used so far."""

    session: str
    state: Literal["connecting", "connected", "disconnected"]
    connection: int | None
    session_tokens: NotRequired[int]
    session_cost: NotRequired[float]
    currency: NotRequired[str]


class State(_EventBase):
    """The current state, which a subscriber receives first.

    `untrusted` lists the tools of untrusted results that each session has read.
    """

    event: Literal["state"]
    calls: list[CallUnderWay]
    approvals: list[OpenQuestion]
    tasks: dict[str, list[Task]]
    untrusted: dict[str, list[str]]
    breakers: dict[str, Literal["closed", "open", "half_open"]]
    live: list[LiveSession]


class Missed(_EventBase):
    """A reader was too slow and missed `count` events; a `state` follows."""

    event: Literal["missed"]
    count: int


class _OfCall(_EventBase):
    call_id: str | None
    tool: str
    session: str
    trace_id: str


class _OfTask(_OfCall):
    task: NotRequired[str]


class ToolStart(_OfTask):
    """A call has begun, with the timeout of one attempt and the deadline of the whole call.

    `untrusted` lists the tools whose untrusted results its session has read before.
    """

    event: Literal["tool_start"]
    timeout_seconds: NotRequired[float]
    deadline_seconds: NotRequired[float]
    untrusted: NotRequired[list[str]]


class ToolWait(_OfTask):
    """A call waits for one of this tool, which holds its lane; `None` once it has waited."""

    event: Literal["tool_wait"]
    waits_for: str | None


class ToolProgress(_OfTask):
    """A tool reports progress; further data are extra fields under their own names."""

    event: Literal["tool_progress"]
    message: NotRequired[Any]
    fraction: NotRequired[Any]


class ToolRetry(_OfTask):
    """A call is retried."""

    event: Literal["tool_retry"]
    attempt: int
    of: NotRequired[int]
    delay_seconds: float
    error: str
    by: NotRequired[str]


class ToolSkip(_OfTask):
    """A person has decided to continue without a failed call."""

    event: Literal["tool_skip"]
    by: str


class ToolFallback(_OfTask):
    """Another tool replaces one that failed or does not exist."""

    event: Literal["tool_fallback"]
    to: str
    error: str
    strategy: NotRequired[str]


class ToolUndo(_OfTask):
    """A step was rolled back, or its rollback failed."""

    event: Literal["tool_undo"]
    done: bool


class ToolBreaker(_OfTask):
    """The circuit breaker of a tool has changed its state."""

    event: Literal["tool_breaker"]
    breaker: str
    state: Literal["closed", "open", "half_open"]


class ToolUntrusted(_OfTask):
    """A tool has returned untrusted content: its session is marked from now on."""

    event: Literal["tool_untrusted"]


class Iteration(_OfTask):
    """An iteration of an agent has begun, or has reached a step.

    Without a `step`, the iteration has begun. Further data are extra fields: `message` of a
    thought, `tools` of an action, `statuses` of an observation.
    """

    event: Literal["iteration"]
    number: int
    of: NotRequired[int]
    step: NotRequired[Literal["thought", "action", "observation"]]


class TaskList(_OfCall):
    """The agent has written its task list."""

    event: Literal["task_list"]
    tasks: list[Task]


class TaskUpdate(_OfCall):
    """A task has begun or is done."""

    event: Literal["task_update"]
    task: Task


class ApprovalRequest(_OfTask):
    """A call waits for a person's approval."""

    event: Literal["tool_approval_request"]
    approval_id: str
    rule: str
    expires_at: float
    on_expiry: Literal["cancel", "proceed"]
    request: NotRequired[OpenQuestion]


class ApprovalAnswer(_OfTask):
    """A person, a rule or the deadline has decided about a call."""

    event: Literal["tool_approval_answer"]
    approval_id: NotRequired[str]
    decision: str
    by: str
    rule: NotRequired[str]


class _Ending(_OfTask):
    status: str
    reason_code: NotRequired[str]
    cached: NotRequired[bool]
    seconds: NotRequired[float]


class ToolComplete(_Ending):
    """A call succeeded; `cached` if it has the result of an earlier call."""

    event: Literal["tool_complete"]


class ToolError(_Ending):
    """A call was refused, or failed in a way that the model can correct."""

    event: Literal["tool_error"]


class ToolFailed(_Ending):
    """A call was attempted and failed."""

    event: Literal["tool_failed"]


class ToolCancel(_Ending):
    """A cancelled call has ended."""

    event: Literal["tool_cancel"]


class _OfSession(_EventBase):
    session: str


class SessionStarted(_OfSession):
    """A live session has begun."""

    event: Literal["session_started"]


class SessionEnded(_OfSession):
    """A live session has ended; with a reason if it has reached a limit."""

    event: Literal["session_ended"]
    reason: NotRequired[Literal["usage_limit"]]


class Usage(_OfSession):
    """The tokens of a turn, which the server counts at its end, by direction and modality.

    If it counts a turn again, the event has only what that adds. `session_tokens` and
    `session_cost` are those of the whole session; costs are there if the model has prices.
    """

    event: Literal["usage"]
    turn: int
    model: str
    input_tokens: int
    output_tokens: int
    tokens: dict[Literal["input", "output"], dict[str, int]]
    session_tokens: int
    cost: NotRequired[float]
    session_cost: NotRequired[float]
    currency: NotRequired[str]


class UsageLimit(_OfSession):
    """A live session nears a limit, or has reached it and ends; `used` if it is known."""

    event: Literal["usage_limit"]
    state: Literal["low", "reached"]
    limit: Literal["session", "user_day"]
    unit: Literal["tokens", "cost"]
    most: float
    used: NotRequired[float]


class Speech(_OfSession):
    """The user or the agent has begun or ended a turn; the end has its text, if it is known.

    `sound_seconds` is the length of the agent's audio, which arrives faster than it is played.
    """

    event: Literal["speech"]
    who: Literal["user", "agent"]
    state: Literal["began", "ended"]
    text: NotRequired[str]
    sound_seconds: NotRequired[float]
    interrupted: NotRequired[bool]


class ConnectionOpened(_OfSession):
    """A live session has opened its first connection, or a new one."""

    event: Literal["connection_opened", "connection_renewed"]
    connection: int
    resumed: bool
    audio_dropped: float


class ConnectionLost(_OfSession):
    """A live session has lost its connection and reconnects."""

    event: Literal["connection_lost"]
    code: int
    reason: str


class ConnectionRefused(_OfSession):
    """The server has refused a connection of a live session."""

    event: Literal["connection_refused"]
    reason: str


class ToolsChanged(_OfSession):
    """The tools of the model have changed during the session."""

    event: Literal["tools_changed"]
    tools: list[str]


class MalformedFunctionCall(_OfSession):
    """The model has made a malformed call."""

    event: Literal["malformed_function_call"]


class SettingsChanged(_EventBase):
    """The settings have changed."""

    event: Literal["settings_changed"]


class ToolQuarantined(_EventBase):
    """The definition of an MCP tool has changed since its first use."""

    event: Literal["tool_quarantined"]
    server: str
    tool: str
    changed: list[str]


class Alert(_EventBase):
    """A metric has crossed its threshold, or is clear again."""

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
    | ToolWait
    | ToolProgress
    | ToolRetry
    | ToolFallback
    | ToolUndo
    | ToolSkip
    | ToolBreaker
    | ToolUntrusted
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
    | Usage
    | UsageLimit
    | Speech
    | ConnectionOpened
    | ConnectionLost
    | ConnectionRefused
    | ToolsChanged
    | MalformedFunctionCall
    | SettingsChanged
    | ToolQuarantined
    | Alert
)
"""Any event, discriminated by `event`."""


def events_schema() -> dict[str, Any]:
    """Return the JSON Schema of the events.

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
    """Return all values of `event`."""
    from typing import get_args, get_type_hints

    return frozenset(
        name for each in get_args(Event) for name in get_args(get_type_hints(each)["event"])
    )
