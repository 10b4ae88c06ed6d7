"""What a call asks a person while it runs, and the call that waits for the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from leonidas_tools.errors import ToolError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from leonidas_tools.approvals.request import Decision
    from leonidas_tools.rules.subject import Subject


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Inquiry:
    """What a call asks a person while it runs.

    Args:
        rule: What asks, where no rule of the settings does.
        title: The question, as a sentence that can be spoken, in a language such as `en`.
        details: What a person is shown beside it.
        answered: Where whoever asks waits for the answer: the decision, and a reason code for a no.
        schema: The JSON Schema of the answer, where it is more than yes or no.
        validate: Makes a valid answer of what a person gives.
        subject: What rules may allow or deny in advance, where they may.
    """

    rule: str
    title: Callable[[str], str]
    details: Mapping[str, Any]
    answered: asyncio.Future[tuple[Decision, str]]
    schema: Mapping[str, Any] | None = None
    validate: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    subject: Subject | None = None


class PausedCall(Protocol):
    """A call that has asked, and goes on with the answer."""

    on_gone: Callable[[], None] | None
    """Called when nobody waits for the answer any more."""

    @property
    def inquiry(self) -> Inquiry:
        """What it asks."""
        ...

    def answer(self, decision: Decision, why_not: str) -> None:
        """Hands it the answer.

        Args:
            decision: What was answered.
            why_not: A reason code, where it is no.
        """
        ...

    def abort(self) -> None:
        """Ends it: nobody wants its result any more."""
        ...


class CallPausedError(ToolError):
    """Raised by a tool whose call has asked a person and cannot go on without the answer.

    The call runs once more when the answer is there; its tool finds it in `PausedCalls`.

    Args:
        paused: The call.
    """

    status = "pending_approval"

    def __init__(self, paused: PausedCall) -> None:
        super().__init__("The call waits for a person's answer.", reason_code="asks_a_person")
        self.paused = paused


class PausedCalls:
    """The calls of a session that are about to go on, by the number of the call that does so."""

    def __init__(self) -> None:
        self._calls: dict[int, PausedCall] = {}

    def put(self, number: int, paused: PausedCall) -> None:
        """Has a call go on."""
        self._calls[number] = paused

    def take(self, number: int) -> PausedCall | None:
        """What goes on in the call of this number, if anything does; it is handed out once."""
        return self._calls.pop(number, None)

    def drop(self, number: int) -> None:
        """Ends what should have gone on in a call that has not taken it up."""
        paused = self.take(number)
        if paused is not None:
            paused.abort()
