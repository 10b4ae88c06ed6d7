"""Events of calls."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from leonidas_tools.monitoring.event_stream.state_events import Happening, OpenQuestion, Task


class _OfCall(Happening):
    call_id: str | None
    tool: str
    session: str
    trace_id: str


class _OfTask(_OfCall):
    task: NotRequired[str]


class ToolStart(_OfTask):
    """A call has begun; it says how long one attempt, and the whole call, may take."""

    event: Literal["tool_start"]
    timeout_seconds: NotRequired[float]
    deadline_seconds: NotRequired[float]


class ToolProgress(_OfTask):
    """A tool says how far it is; what else it says stands beside it, by its own names."""

    event: Literal["tool_progress"]
    message: NotRequired[Any]
    fraction: NotRequired[Any]


class ToolRetry(_OfTask):
    """A call is tried again."""

    event: Literal["tool_retry"]
    attempt: int
    of: NotRequired[int]
    delay_seconds: float
    error: str
    by: NotRequired[str]


class ToolSkip(_OfTask):
    """A person has decided to go on without a call that failed."""

    event: Literal["tool_skip"]
    by: str


class ToolFallback(_OfTask):
    """Another tool replaces one that failed or does not exist."""

    event: Literal["tool_fallback"]
    to: str
    error: str
    strategy: NotRequired[str]


class ToolUndo(_OfTask):
    """A step was taken back, or could not be."""

    event: Literal["tool_undo"]
    done: bool


class ToolBreaker(_OfTask):
    """A tool that keeps failing is left alone, or works again."""

    event: Literal["tool_breaker"]
    breaker: str
    state: Literal["closed", "open", "half_open"]


class Iteration(_OfTask):
    """An agent that works in steps has begun one; what it says of it stands beside it."""

    event: Literal["iteration"]
    number: int


class TaskList(_OfCall):
    """The agent has written down what it sets out to do."""

    event: Literal["task_list"]
    tasks: list[Task]


class TaskUpdate(_OfCall):
    """A task has begun or is done."""

    event: Literal["task_update"]
    task: Task


class ApprovalRequest(_OfTask):
    """A call waits for a person's word."""

    event: Literal["tool_approval_request"]
    approval_id: str
    rule: str
    expires_at: float
    on_expiry: Literal["cancel", "proceed"]
    request: NotRequired[OpenQuestion]


class ApprovalAnswer(_OfTask):
    """A person, a rule or the clock has decided about a call."""

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
    """A call did what it was asked; `cached` where it was answered as one before it."""

    event: Literal["tool_complete"]


class ToolError(_Ending):
    """A call was refused, or failed in a way that the model can mend."""

    event: Literal["tool_error"]


class ToolFailed(_Ending):
    """A call was tried and did not work."""

    event: Literal["tool_failed"]


class ToolCancel(_Ending):
    """A call whose answer is not wanted any more has ended."""

    event: Literal["tool_cancel"]
