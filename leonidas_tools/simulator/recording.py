"""Records of the simulator: messages, input, connections, calls, violations, outcomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.simulator.wire import Message


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedMessage:
    """One message in either direction.

    Args:
        connection: The connection, counted from 1.
        sender: `client` or `server`.
        at: The time by the monotonic clock, in seconds.
        data: The message; the raw frame if it is not a JSON object.
    """

    connection: int
    sender: Literal["client", "server"]
    at: float
    data: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One function response.

    Args:
        id: The id in the response; that of its call if the response has none.
        name: The name in the response.
        response: Its body.
        at: The time of arrival by the monotonic clock, in seconds.
        scheduling: When the model speaks about the response, if the client set `scheduling`.
        final: Whether it ends the call (only a NON_BLOCKING call accepts several responses).
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
    """One function call and its answers.

    Args:
        id: Its id; None if it was sent without one.
        name: The function that was called.
        args: Its arguments as they were sent; None if there were none.
        connection: The connection it was sent on, counted from 1.
        sent_at: The time it was first sent by the monotonic clock, in seconds.
        blocking: Whether the model waits for the answer.
        deliveries: How often it was sent under this id.
        answers: The answers, in order of arrival.
        cancelled_at: The time it was cancelled by the monotonic clock, in seconds; None if never.
        cancellation_seen_at: The time by which the client had received the cancellation.
        late_answers: How many answers came after that.
        id_sent: Whether the id was sent to the client.
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
        """Return whether the server cancelled the call."""
        return self.cancelled_at is not None

    @property
    def final_answers(self) -> tuple[Answer, ...]:
        """Return the answers that end the call."""
        return tuple(answer for answer in self.answers if answer.final)

    @property
    def pending(self) -> bool:
        """Return whether a final answer is still missing."""
        return not self.cancelled and not self.final_answers

    @property
    def answered_once(self) -> bool:
        """Return whether there is one final answer, or none after a cancellation."""
        if self.cancelled:
            return not self.late_answers and len(self.final_answers) <= 1
        return len(self.final_answers) == 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """One violation of the protocol by the client.

    Args:
        connection: The connection, counted from 1.
        at: The time by the monotonic clock, in seconds.
        reason: The violation, as a sentence.
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
        connection: The connection, counted from 1.
        status: `played` to the end, an expectation `failed`, or the client `left` before the end.
        message: The step and the reason, unless it was played.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceivedAudio:
    """One frame of microphone audio.

    Args:
        connection: The connection, counted from 1.
        at: The time by the monotonic clock, in seconds.
        data: The samples.
        mime_type: Their format, such as `audio/pcm;rate=16000`.
    """

    connection: int
    at: float
    data: bytes = field(repr=False)
    mime_type: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceivedText:
    """One text of the user.

    Args:
        connection: The connection, counted from 1.
        at: The time by the monotonic clock, in seconds.
        text: The text.
        source: The kind of message that contained it.
        role: The role of the speaker, if the message has one.
    """

    connection: int
    at: float
    text: str
    source: Literal["realtimeInput", "clientContent"]
    role: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextUpdate:
    """One `contextUpdate`.

    Args:
        connection: The connection, counted from 1.
        at: The time by the monotonic clock, in seconds.
        system_instruction: The new instruction; None if it is unchanged.
        tools: The new declarations by function name; None if they are unchanged.
    """

    connection: int
    at: float
    system_instruction: str | None = None
    tools: Mapping[str, Message] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionRecord:
    """One connection whose setup was accepted.

    Args:
        number: Its number, counted from 1 over all that were opened.
        session: The session it belongs to, counted from 1.
        resumed_from: The session's previous connection; None if the session is new.
        handle: The handle in its setup.
        lost_calls: The ids of the calls that the session's earlier connections made, and that have
            no answer.
    """

    number: int
    session: int
    resumed_from: int | None = None
    handle: str | None = None
    lost_calls: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class IssuedHandle:
    """One handle that was sent.

    Args:
        connection: The connection it was sent on, counted from 1.
        session: The session it resumes.
        handle: The handle.
    """

    connection: int
    session: int
    handle: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """One connection that was refused without a violation by the client.

    Args:
        stage: `http` for a refusal at the HTTP request, `setup` for one after the setup.
        code: The HTTP status, or the close code.
        reason: The reason that was sent.
        connection: Its number; None if no websocket was opened.
    """

    stage: Literal["http", "setup"]
    code: int
    reason: str
    connection: int | None = None
