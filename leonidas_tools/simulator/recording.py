"""Records of the simulator: messages, calls with their answers, violations, outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedMessage:
    """One message that crossed the wire.

    Args:
        connection: Which connection, counted from 1.
        sender: Who sent it.
        at: When, by the monotonic clock, in seconds.
        data: The message; the raw frame where it is not a JSON object.
    """

    connection: int
    sender: Literal["client", "server"]
    at: float
    data: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One function response.

    Args:
        id: The id it carries; that of its call if it carries none.
        name: The name it carries.
        response: Its body.
        at: When it came, by the monotonic clock, in seconds.
        scheduling: When the model is to speak of it, if the client said so.
        final: Whether it ends the call (only a NON_BLOCKING call takes more than one).
    """

    id: str | None
    name: str
    response: Mapping[str, Any]
    at: float
    scheduling: str | None = None
    final: bool = True

    @property
    def status(self) -> str | None:
        """Return the `status` in the body, if there is one."""
        status = self.response.get("status")
        return status if isinstance(status, str) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class CallRecord:
    """One function call and what became of it.

    Args:
        id: Its id; None if it was sent without one.
        name: The function that was called.
        args: Its arguments as they were sent; None if there were none.
        connection: The connection it was sent on, counted from 1.
        sent_at: When it was first sent, by the monotonic clock, in seconds.
        blocking: Whether the model waits for the answer.
        deliveries: How often it was sent under this id.
        answers: The answers, in the order they came.
        cancelled_at: When it was cancelled, if it was.
        cancellation_seen_at: When the client had surely seen the cancellation.
        late_answers: How many answers came after that.
        id_sent: Whether the client was told the id.
    """

    id: str | None
    name: str
    args: Any
    connection: int
    sent_at: float
    blocking: bool = True
    deliveries: int = 1
    answers: tuple[Answer, ...] = ()
    cancelled_at: float | None = None
    cancellation_seen_at: float | None = None
    late_answers: int = 0
    id_sent: bool = True

    @property
    def cancelled(self) -> bool:
        """Return whether the server took the call back."""
        return self.cancelled_at is not None

    @property
    def final_answers(self) -> tuple[Answer, ...]:
        """Return the answers that end the call."""
        return tuple(answer for answer in self.answers if answer.final)

    @property
    def pending(self) -> bool:
        """Return whether an answer is still owed."""
        return not self.cancelled and not self.final_answers

    @property
    def answered_once(self) -> bool:
        """Return whether the client did right: one final answer, or none after a cancellation."""
        if self.cancelled:
            return not self.late_answers and len(self.final_answers) <= 1
        return len(self.final_answers) == 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """One breach of the protocol by the client.

    Args:
        connection: Which connection, counted from 1.
        at: When, by the monotonic clock, in seconds.
        reason: What is wrong.
        close_code: The code a strict server closes with.
        data: The message, or the raw frame.
    """

    connection: int
    at: float
    reason: str
    close_code: int
    data: Any

    def __str__(self) -> str:
        return f"connection {self.connection}: {self.reason}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The end of the scenario on one connection.

    Args:
        connection: Which connection, counted from 1.
        status: `played` to the end, an expectation `failed`, or the client `left` before the end.
        message: Which step and why, unless it was played.
    """

    connection: int
    status: Literal["played", "failed", "left"]
    message: str = ""

    @property
    def ok(self) -> bool:
        """Return whether every step was played and every expectation met."""
        return self.status == "played"

    def __str__(self) -> str:
        return f"connection {self.connection}: {self.message or self.status}"
