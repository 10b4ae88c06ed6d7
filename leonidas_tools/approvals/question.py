"""An open question: the call that waits, and all it takes to run it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from leonidas_tools.approvals.inquiry import PausedCall, PausedCalls
from leonidas_tools.approvals.lexicon import Said, judge
from leonidas_tools.approvals.log import ApprovalLog, Closing
from leonidas_tools.approvals.transcript import Transcript
from leonidas_tools.events import EventKind, Sink, ToolEvent

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from leonidas_tools.approvals.request import ApprovalRequest, Channel, Decision
    from leonidas_tools.calls import ToolCall, ToolResult
    from leonidas_tools.rules.rule import Rule


class Runs(Protocol):
    """What runs calls."""

    def renewed(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        """The call as a new one, with the tool and the settings there are now."""
        ...

    def start(self, call: ToolCall, on_end: Any, sinks: tuple[Sink, ...] = ()) -> object:
        """Begins a call."""
        ...

    async def run(self, call: ToolCall, sinks: tuple[Sink, ...] = ()) -> ToolResult:
        """Runs a call to its end."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """How questions are put, and how what was allowed is run.

    Args:
        runs: Runs it.
        channel: Asks a person; without one, the answer comes by `Approvals.decide` or by voice.
        by_voice: Whether the model can put the question, and tell the answer.
        save: Keeps an "always" in the settings file, as `policies.always` has it.
    """

    runs: Runs
    channel: Channel | None = None
    by_voice: Callable[[], bool] = lambda: False
    save: Callable[[Mapping[str, Any]], object] | None = None


@dataclass(kw_only=True, slots=True, eq=False)
class Question:
    """An open question.

    Args:
        request: What is asked.
        call: The call, as it came.
        fingerprint: What the tool said it was when it was asked.
        rule: The rule that asks.
        validate: Makes valid arguments of those a person gives.
        asking: How questions are put.
        sinks: Who hears of the call.
        place: Where in the transcript the question came up.
        trusts_model: Whether the model's word is enough that the user has said yes.
        answered: Where a call waits for the answer: the decision, and a reason code for a no.
        timer: Closes the question when its time is up.
        paused: What goes on with the answer, whatever that is, where a call asks while it runs.
    """

    request: ApprovalRequest
    call: ToolCall
    fingerprint: str
    rule: Rule
    validate: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    asking: Asking
    sinks: tuple[Sink, ...]
    place: int
    trusts_model: bool
    answered: asyncio.Future[tuple[Decision, str]] | None = None
    timer: asyncio.TimerHandle | None = None
    paused: PausedCall | None = None

    @property
    def transcript(self) -> Transcript:
        """What is said in its session."""
        return self.call.session.get(Transcript)

    def said(self) -> Said | None:
        """What the user has answered, as far as it was heard; `None` for nothing yet."""
        words = self.transcript.answer_to(self.place)
        return None if words is None else judge(words)

    def go_on(self, call: ToolCall, decision: Decision, why_not: str) -> None:
        """Has what waits for the answer go on in another call.

        Args:
            call: The call.
            decision: The answer.
            why_not: A reason code, where it is no.
        """
        if self.paused is not None:
            self.paused.answer(decision, why_not)
            call.session.get(PausedCalls).put(call.number, self.paused)

    def leave(self, call: ToolCall) -> None:
        """Ends what should have gone on in a call, and has not."""
        if self.paused is not None:
            call.session.get(PausedCalls).drop(call.number)

    def ask_again(self) -> None:
        """Only what is said from now on counts."""
        self.place = self.transcript.mark()

    def asked(self) -> None:
        """Tells that it was asked."""
        self._tell(
            EventKind.APPROVAL_REQUEST,
            rule=self.rule.name,
            expires_at=self.request.deadline,
            on_expiry=self.request.on_expiry,
        )
        self._log(None)

    def closed(self, answer: str, *, by: str, decision: Decision | None = None) -> None:
        """Tells how it was closed.

        Args:
            answer: How.
            by: Who or what closed it, or by which channel.
            decision: What a person has said.
        """
        self._tell(EventKind.APPROVAL_ANSWER, decision=answer, by=by)
        self._log(Closing(answer=answer, by=by, decision=decision))

    def _log(self, closing: Closing | None) -> None:
        log = self.call.session.find(ApprovalLog)
        if log is not None:
            log.tell(self, closing)

    def _tell(self, kind: EventKind, **data: Any) -> None:
        """Tells whoever hears of the call; arguments and sentences stay out."""
        event = ToolEvent(kind=kind, call=self.call, data={"approval_id": self.request.id, **data})
        for sink in self.sinks:
            with contextlib.suppress(Exception):  # a sink's fault must not decide a question
                sink(event)
