"""The rows that the store returns."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

STARTED = "started"
"""The status of a running call."""
INTERRUPTED = "interrupted"
"""The status of a call whose process ended while it ran."""


class _Row:
    """A row with a JSON form."""

    __slots__ = ()

    def to_json(self: "DataclassInstance") -> dict[str, Any]:
        """Return the row as plain JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """An event of a call between its start and its end.

    Args:
        kind: The kind of event, such as `tool_progress`.
        after_seconds: The time since the start.
        data: The fields of the event.
    """

    kind: str
    after_seconds: float
    data: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution(_Row):
    """One call. Secrets are masked, and long values are truncated.

    Args:
        id: The id of the row.
        session: The id of the session.
        user: The user of the session; `local` without a user, `=local` for a user of that name.
        trace_id: Identifies the call in events and logs.
        call_id: The id of the call, if the server gave one.
        tool: The tool's name.
        effect: `read`, `idempotent` or `once`; `None` for an unknown tool.
        arguments: The arguments by parameter name.
        started: The start, in seconds since the epoch.
        status: A `ResultStatus`, `started`, or `interrupted` if its process died.
        ending: The kind of event that ended it.
        result: The function's result.
        message: The message to the model.
        reason: The reason code, if the result has one.
        ended: The end, in seconds since the epoch.
        seconds: The duration.
        approval_id: The approval it needed.
        cached: Whether it has the result of an earlier call.
        steps: The events between its start and its end.
        acknowledged: When a person acknowledged that it was interrupted.
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
        """Return whether it was interrupted and may have had its effect."""
        return self.status == INTERRUPTED and self.effect not in ("read", "idempotent")


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionSummary(_Row):
    """One session.

    Args:
        session: Its id.
        user: Its user; `local` without a user, `=local` for a user of that name.
        started: The time of its first record, in seconds since the epoch.
        last: The time of its last record.
        calls: The number of calls.
        failures: The number of failed calls.
        pending_approvals: The number of calls that asked for approval and did not run.
        input_tokens: The number of tokens that a live model has read.
        output_tokens: The number of tokens that it has generated.
        cost: Their cost; `None` if none of them has a price.
    """

    session: str
    user: str
    started: float
    last: float
    calls: int
    failures: int
    pending_approvals: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayEvent(_Row):
    """An event of a session.

    Args:
        at: The time, in seconds since the epoch.
        kind: The kind of event, such as `tool_start`.
        tool: The tool's name.
        trace_id: Identifies the call.
        data: The fields of the event, such as the arguments at the start of a call.
    """

    at: float
    kind: str
    tool: str
    trace_id: str
    data: Mapping[str, Any]


class Decision(StrEnum):
    """The outcome of an approval question; `unanswered` if its process died."""

    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    UNANSWERED = "unanswered"


@dataclass(frozen=True, kw_only=True, slots=True)
class Approval(_Row):
    """An approval question and its answer.

    Args:
        id: The id of the question.
        session: The id of the session.
        user: The user who is asked; `local` without a user, `=local` for a user of that name.
        trace_id: Identifies the call in events and logs.
        call_id: The id of the call, if the server gave one.
        tool: The tool's name.
        arguments: The arguments as shown; secrets are masked.
        fingerprint: A hash that binds the answer to the arguments, unless it would reveal secrets.
        message: The text for the person.
        requested: The time of the question, in seconds since the epoch.
        expires: When the question expires.
        decision: The decision; `None` while the question is open.
        decided: When it was answered.
        decided_by: The person or program that answered; `None` without an answer.
        note: A note with the answer.
        rule: The rule that asks.
        on_expiry: The effect of the expiry on the call: `cancel` or `proceed`.
        answer: The exact answer, if known: `approve`, `edit`, `always`, `deny`, `proceed`,
            `cancel`, `withdrawn`.
        channel: The channel of the answer: `voice`, `terminal`, `channel`, `person`, `expiry`, …
        edited: The arguments that the answer has changed; secrets are masked.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Preferences(_Row):
    """The preferences of a user.

    Args:
        user: The id of the user.
        values: JSON values by name.
        version: Increases with each change; 0 if none were ever set.
        updated: The time of the last change, in seconds since the epoch.
    """

    user: str
    values: Mapping[str, Any] = field(default_factory=dict)
    version: int = 0
    updated: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SpilledResult:
    """A piece of a result that is too long for the model.

    Args:
        handle: The handle of the result.
        mime_type: The type of the content.
        size: The length of the whole result, in bytes.
        offset: The start of the piece, in bytes.
        content: The piece.
        expires: When the result is deleted, in seconds since the epoch.
    """

    handle: str
    mime_type: str
    size: int
    offset: int
    content: bytes
    expires: float


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptResult(_Row):
    """A result that is too long for the model, without its content.

    Args:
        handle: The handle of the result.
        session: The only session that may read it; `None` for any.
        user: The only user who may read it, `local` for no user; `None` for any.
        mime_type: The type of the content.
        size: The length, in bytes.
        created: When it was stored, in seconds since the epoch.
        expires: When it is deleted.
    """

    handle: str
    session: str | None
    user: str | None
    mime_type: str
    size: int
    created: float
    expires: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreStatus(_Row):
    """The status of the store.

    Args:
        where: The database, without its password.
        ok: Whether the store is writable.
        error: The error, if it is not.
        waiting: The number of calls to write.
        waiting_bytes: The bytes of the queued calls, including those reserved for open calls.
        written: The number of starts and ends of calls that were written.
        dropped: The number of calls that exceeded the limits of the queue.
        cut: The number of calls whose long texts exceeded the limits of the queue.
        refused: The number of calls that the database refused.
        not_durable: The number of `once` calls whose start was not on disk in time; with
            `unwritable: refuse` they did not run.
        records_waiting: The number of questions, answers, task lists and long results to write.
        records_dropped: The number of such records beyond the limits, or refused by the database.
        set_aside: The new path of a file that could not be read.
        lost: A message if the file was removed or replaced while it was open.
    """

    where: str
    ok: bool
    error: str | None
    waiting: int
    waiting_bytes: int
    written: int
    dropped: int
    cut: int
    refused: int
    not_durable: int
    records_waiting: int
    records_dropped: int
    set_aside: str | None
    lost: str | None = None
