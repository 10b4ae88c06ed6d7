"""Typed rows that the store returns."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STARTED = "started"
"""The status of a running call."""
INTERRUPTED = "interrupted"
"""The status of a call whose process ended before it did."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """Something that happened to a call between its start and its end.

    Args:
        kind: The kind of event, such as `tool_progress`.
        after_seconds: When, since the start.
        data: What there is to say about it.
    """

    kind: str
    after_seconds: float
    data: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """One call. Secrets are masked, and what was long is cut.

    Args:
        id: Names the row.
        session: The id of its conversation.
        user: Whose conversation that is.
        trace_id: Names the call in events and logs.
        call_id: The id the answer carried, where the server gave one.
        tool: The tool's name.
        effect: What it changes: `read`, `idempotent` or `once`; unknown of an unknown tool.
        arguments: By parameter name.
        started: When it began, in seconds since the epoch.
        status: A `ResultStatus`, or `started`, or `interrupted` where its process died.
        ending: The kind of event that ended it.
        result: What the function returned.
        message: What the model was told beside it.
        reason: A short word for programs, where the result has one.
        ended: When it ended.
        seconds: How long it took.
        approval_id: The approval it needed.
        cached: Whether its result was an earlier one.
        steps: What happened meanwhile.
        acknowledged: When somebody has taken note that it was interrupted.
    """

    id: str
    session: str
    user: str
    trace_id: str
    call_id: str | None
    tool: str
    effect: str | None
    arguments: Any
    started: float
    status: str
    ending: str | None = None
    result: Any = None
    message: str | None = None
    reason: str | None = None
    ended: float | None = None
    seconds: float | None = None
    approval_id: str | None = None
    cached: bool = False
    steps: Sequence[Step] = ()
    acknowledged: float | None = None

    @property
    def may_have_happened(self) -> bool:
        """Return whether it was interrupted while it did what happens only once."""
        return self.status == INTERRUPTED and self.effect not in ("read", "idempotent")

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionSummary:
    """One conversation.

    Args:
        session: Its id.
        user: Whose it is.
        started: When its first call began, in seconds since the epoch.
        last: When its last call began.
        calls: How many calls it has.
        failures: How many of them did not do what they were asked.
        pending_approvals: How many of them asked the user first and did not run.
    """

    session: str
    user: str
    started: float
    last: float
    calls: int
    failures: int
    pending_approvals: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayEvent:
    """Something that happened in a conversation.

    Args:
        at: When, in seconds since the epoch.
        kind: The kind of event, such as `tool_start`.
        tool: The tool's name.
        trace_id: Names the call.
        data: What there is to say: of a start the arguments, of an end how it ended.
    """

    at: float
    kind: str
    tool: str
    trace_id: str
    data: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the event as plain JSON."""
        return asdict(self)


class Decision(StrEnum):
    """The outcome of an approval question; `unanswered` if its process died."""

    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    UNANSWERED = "unanswered"


@dataclass(frozen=True, kw_only=True, slots=True)
class Approval:
    """A question whether a call may run, and its answer.

    Args:
        id: Names it.
        session: The id of the conversation.
        user: Who is asked.
        trace_id: Names the call in events and logs.
        call_id: The id the answer must carry, where the server gave one.
        tool: The tool's name.
        arguments: What was shown; secrets are masked.
        fingerprint: What binds the answer to the arguments, where it is not to be kept secret.
        message: What the person reads.
        requested: When it was asked, in seconds since the epoch.
        expires: When the question lapses.
        decision: The answer; `None` while there is none.
        decided: When it was answered.
        decided_by: Who answered; `None` without an answer.
        note: What was said with it.
        rule: The rule that asks.
        on_expiry: What happens to the call without an answer: `cancel` or `proceed`.
        answer: The answer as exactly as it is known: `approve`, `edit`, `always`, `deny`,
            `proceed`, `cancel`, `withdrawn`.
        channel: How it was answered: `voice`, `terminal`, `channel`, `person`, `expiry`, …
        edited: The other arguments that the answer has given; secrets are masked.
    """

    id: str
    session: str
    user: str
    trace_id: str
    call_id: str | None
    tool: str
    arguments: Any
    fingerprint: str | None
    message: str | None
    requested: float
    expires: float | None
    decision: Decision | None = None
    decided: float | None = None
    decided_by: str | None = None
    note: str | None = None
    rule: str | None = None
    on_expiry: str | None = None
    answer: str | None = None
    channel: str | None = None
    edited: Any = None

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Preferences:
    """The preferences of a user.

    Args:
        user: Whose they are.
        values: JSON values by name.
        version: Goes up with each change; 0 where nothing was ever set.
        updated: When they were changed, in seconds since the epoch.
    """

    user: str
    values: Mapping[str, Any] = field(default_factory=dict)
    version: int = 0
    updated: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class SpilledResult:
    """A piece of a result that was too long to hand to the model.

    Args:
        handle: Names the result.
        mime_type: What it is.
        size: How long all of it is, in bytes.
        offset: Where the piece begins.
        content: The piece.
        expires: When it is thrown away, in seconds since the epoch.
    """

    handle: str
    mime_type: str
    size: int
    offset: int
    content: bytes
    expires: float


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptResult:
    """A result that was too long to hand to the model, without its content.

    Args:
        handle: Names the result.
        session: The only conversation that may read it; any where there is none.
        mime_type: What it is.
        size: How long it is, in bytes.
        created: When it was kept, in seconds since the epoch.
        expires: When it is thrown away.
    """

    handle: str
    session: str | None
    mime_type: str
    size: int
    created: float
    expires: float

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain JSON."""
        return asdict(self)
