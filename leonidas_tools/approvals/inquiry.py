"""A question that a running call asks, and the paused call that waits for the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from leonidas_tools.errors import ToolError
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from leonidas_tools.approvals.request import Decision
    from leonidas_tools.results.texts import Wording
    from leonidas_tools.rules.subject import Subject


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Inquiry:
    """A question that a call asks a person while it runs, such as an MCP elicitation."""

    rule: str
    """The rule name to report if no rule of the settings asks."""
    title: Callable[[str, Wording], str]
    """Returns the question, as a sentence that can be spoken, in a language such as `en`."""
    details: Mapping[str, Any]
    """Details shown beside the question."""
    answered: asyncio.Future[tuple[Decision, str]]
    """Receives the decision, and a reason code for a denial."""
    schema: Mapping[str, Any] | None = None
    """The JSON Schema of the answer, if more than yes or no is asked for."""
    validate: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    """Validates and coerces the values that a person gives."""
    subject: Subject | None = None
    """Subject that rules may allow or deny without asking; `None` if they may not."""


class PausedCall(Protocol):
    """A call that has asked a question and resumes with the answer."""

    on_gone: Callable[[], None] | None
    """Called when the answer is no longer needed."""

    @property
    def inquiry(self) -> Inquiry:
        """Return the question."""
        ...

    def answer(self, decision: Decision, why_not: str) -> None:
        """Deliver the answer; `why_not` is the reason code of a denial."""
        ...

    def abort(self) -> None:
        """End the call: its result is no longer needed."""
        ...


class CallPausedError(ToolError):
    """Raised by a tool whose call cannot continue before a person answers.

    The call runs again when the answer has arrived; its tool takes the paused call from
    `PausedCalls`.
    """

    status = "pending_approval"

    def __init__(self, paused: PausedCall) -> None:
        super().__init__(say("needs_answer"), reason_code="asks_a_person")
        self.paused = paused


class PausedCalls:
    """The paused calls of a session that are about to resume, by the number of the new call."""

    def __init__(self) -> None:
        self._calls: dict[int, PausedCall] = {}

    def put(self, number: int, paused: PausedCall) -> None:
        """Let the call of this number resume a paused one."""
        self._calls[number] = paused

    def take(self, number: int) -> PausedCall | None:
        """Remove and return the paused call that the call of this number resumes, if any."""
        return self._calls.pop(number, None)

    def drop(self, number: int) -> None:
        """End the paused call that the call of this number should have resumed and has not."""
        paused = self.take(number)
        if paused is not None:
            paused.abort()
