"""A question that a running call asks, and the paused call that waits for the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leonidas_tools.errors import ToolError
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from leonidas_tools.approvals.request import Decision
    from leonidas_tools.mcp.features.ongoing_calls import OngoingCall
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
    """Details shown with the question."""
    answered: asyncio.Future[tuple[Decision, str]]
    """Receives the decision, and a reason code for a denial."""
    schema: Mapping[str, Any] | None = None
    """The JSON Schema of the answer, if the question needs more than yes or no."""
    validate: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    """Validates and coerces the values of the answer."""
    subject: Subject | None = None
    """The subject that rules may allow or deny without asking; `None` if they may not."""


class CallPausedError(ToolError):
    """Raised by a tool whose call cannot continue before a person answers.

    The call runs again when the answer has arrived; its tool then takes the paused call from
    `PausedCalls`.
    """

    status = "pending_approval"

    def __init__(self, paused: OngoingCall) -> None:
        super().__init__(say("needs_answer"), reason_code="asks_a_person")
        self.paused = paused


class PausedCalls:
    """The paused calls of a session that are about to resume, by the number of the new call."""

    def __init__(self) -> None:
        self._calls: dict[int, OngoingCall] = {}

    def put(self, number: int, paused: OngoingCall) -> None:
        """Register a paused call, which the call with this number resumes."""
        self._calls[number] = paused

    def take(self, number: int) -> OngoingCall | None:
        """Remove and return the paused call that the call with this number resumes, if any."""
        return self._calls.pop(number, None)

    def drop(self, number: int) -> None:
        """Abort the paused call that the call with this number did not resume, if any."""
        paused = self.take(number)
        if paused is not None:
            paused.abort()
