"""One open question: the call that waits for it, and the data with which to run that call."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals import wording
from leonidas_tools.approvals.choices import (
    are_chosen,
    are_numbers_said,
    is_no,
    is_yes,
    properties_of,
)
from leonidas_tools.approvals.inquiry import PausedCalls
from leonidas_tools.approvals.lexicon import Meaning
from leonidas_tools.approvals.log import ApprovalLog, Closing
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.approvals.transcript import Transcript
from leonidas_tools.approvals.untrusted import tools_read_in
from leonidas_tools.approvals.words import repeats
from leonidas_tools.calls.events import EventKind, Sink, ToolEvent

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from leonidas_tools.approvals.request import ApprovalRequest, Channel, Decision
    from leonidas_tools.approvals.transcript import Exchange, Utterance
    from leonidas_tools.approvals.untrusted import Foreign
    from leonidas_tools.calls.call import ToolCall, ToolResult
    from leonidas_tools.mcp.features.ongoing_calls import OngoingCall
    from leonidas_tools.rules.rule import Rule
    from leonidas_tools.runtime.executor import Executor


MAX_SEARCHED_CHARACTERS = 5_000
"""Maximum characters that are searched for a no; longer speech may contain one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """The ways to ask questions, and the runner of approved calls."""

    runner: Executor
    channel: Channel | None = None
    """Asks a person; without a channel, the answer comes by `Approvals.decide` or by voice."""
    by_voice: Callable[[], bool] = lambda: False
    """True if the model can ask the question aloud and report the answer."""
    save: Callable[[Mapping[str, Any]], object] | None = None
    """Merges an "always" into the settings file, under `policies.always`."""


class Proof(StrEnum):
    """The evidence of the transcript for a question and its answer."""

    NOT_ASKED = "not_asked"
    NOT_ANSWERED = "not_answered"
    UNFINISHED = "unfinished"
    DOUBTFUL = "doubtful"
    NO = "no"
    YES = "yes"


@dataclass(kw_only=True, slots=True, eq=False)
class Question:
    """One open question."""

    request: ApprovalRequest
    call: ToolCall
    """The call as it arrived, before user policies changed it: they will process the copy too."""
    fingerprint: str
    """Identifies the tool's definition at the time of the question."""
    rule: Rule
    """The rule that asks."""
    validate: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    """Validates and coerces arguments that a person has edited."""
    asking: Asking
    sinks: tuple[Sink, ...]
    position: int
    """The transcript position after which an answer counts."""
    voice: str | None
    """The spoken question; `None` if it cannot be spoken in full, and so not approved by voice."""
    trusts_model: bool
    """True if the model's claim that the user agreed is enough, unless the model reads untrusted
    content while the question is open."""
    untrusted: Foreign | None = None
    """Set if the call may follow from untrusted content."""
    waiter: asyncio.Future[tuple[Decision, str]] | None = None
    """Set while the call itself waits: receives the decision, and a reason code for a denial."""
    timer: asyncio.TimerHandle | None = None
    """Closes the question at its deadline."""
    paused: OngoingCall | None = None
    """The started call that asks, to be resumed with the answer; `None` for an approval."""
    unclear_answers: int = 0
    """Number of answers of the user that were neither yes nor no."""
    opening_position: int = field(init=False)
    """The transcript position at which the question was opened; unlike `position`, it is fixed."""
    _read_before: tuple[str, ...] = field(init=False)
    """The tools whose untrusted results had been read when the question was opened."""

    def __post_init__(self) -> None:
        self.opening_position = self.position
        self._read_before = tools_read_in(self.call.session)

    @property
    def is_word_enough(self) -> bool:
        """Return whether the model's claim that the user agreed is enough now."""
        return self.trusts_model and tools_read_in(self.call.session) == self._read_before

    @property
    def transcript(self) -> Transcript:
        """Return the transcript of the session."""
        return self.call.session.get(Transcript)

    @property
    def is_spoken(self) -> bool:
        """Return whether the model is expected to ask this question aloud."""
        return self.waiter is None and self.voice is not None and self.asking.by_voice()

    def pending_result(self, again: str | None = None) -> ToolResult:
        """Return the result of the call while the question is open.

        `again` is the reason code if the model has received this result before.
        """
        if not self.asking.by_voice():
            return wording.still_open(self.request, "asked_elsewhere")
        if self.voice is None:
            return wording.still_open(self.request, "not_by_voice")
        is_repeated = self.unclear_answers > 0
        return wording.pending(self.request, self._forms[is_repeated], again)

    def exchange(self) -> Exchange:
        """Return the speech since the model received the question."""
        wants_more = self.request.schema is not None
        return self.transcript.exchange(
            self.position,
            self._is_asked_in,
            repeats=lambda speech: self.voice is not None and repeats(speech, self.voice),
            interrupted=wants_more,
        )

    def proof(self, exchange: Exchange) -> Proof:
        """Judge an exchange: a yes counts only if all later speech of the user is a yes."""
        answers = [each for each in exchange.answers if each.text.strip()]
        if exchange.forgotten or not exchange.asked:
            return Proof.NOT_ASKED
        if any(self._judge(each.text) is Meaning.NO for each in answers):
            return Proof.NO
        if not answers:
            return Proof.NOT_ANSWERED
        if self.request.schema is not None:
            return Proof.YES  # the model supplies the values, which are validated elsewhere
        texts = [each.text for each in answers]
        joined = " " if all(each.over for each in answers) else ""
        whole = [*texts, joined.join(texts)]
        is_yes = (
            all(self._judge(each) is Meaning.YES for each in whole)
            and not any(each.broken for each in answers)
            and not all(each.ambiguous for each in answers)
            and all(map(self._is_harmless, exchange.meanwhile))
        )
        return Proof.YES if is_yes else Proof.DOUBTFUL

    def is_met_with_silence(self) -> bool:
        """Return whether the question was asked, and the user has neither answered nor refused.

        A question that the model must ask counts as asked only if the transcript contains it. If
        the connection was lost since, a refusal may be missing from the transcript.
        """
        since = self.opening_position
        if self.is_refused_since(since) or self.transcript.was_cut_since(since):
            return False
        return not self.is_spoken or self.proof(self.exchange()) is Proof.NOT_ANSWERED

    def is_refused_since(self, position: int) -> bool:
        """Return whether the user may have said no after a position of the transcript."""
        exchange = self.transcript.exchange(position, lambda _: False)
        texts = [each.text for each in exchange.earlier]
        is_known = not exchange.forgotten and sum(map(len, texts)) <= MAX_SEARCHED_CHARACTERS
        return not is_known or any(map(self.request.lexicon.refuses, texts))

    def is_agreed(self) -> bool:
        """Return whether the user has clearly said yes to the words of the question.

        Other values count after any turn of the model, which may ask in its own words.
        """
        exchange = self.exchange()
        asked = str(self.request.details.get("message", self.request.title))
        forms = {asked, self.voice or asked}
        return any(self.request.lexicon.asks(exchange.speech, each) for each in forms) and any(
            self._judge(each.text) is Meaning.YES for each in exchange.answers
        )

    def is_contradicted(self, given: Mapping[str, Any]) -> bool:
        """Return whether a value means no although the user has clearly said yes.

        If another value means yes, a no that is a default of the server is ignored.
        """
        agrees = any(is_yes(each) for each in given.values())
        fields = properties_of(self.request.schema or {})
        defaults = {
            name: each["default"]
            for name, each in fields.items()
            if isinstance(each, dict) and "default" in each
        }
        said_no = [
            name
            for name, each in given.items()
            if is_no(each) and not (agrees and name in defaults and defaults[name] == each)
        ]
        answers = self.exchange().answers if said_no else []
        return any(self._judge(each.text) is Meaning.YES for each in answers)

    def is_chosen(self, given: Mapping[str, Any]) -> bool:
        """Return whether the user has since named the choices among the values."""
        exchange = self.exchange()
        said = [each.text for each in exchange.answers if each.text.strip()]
        return are_chosen(self.request.schema or {}, given, said, exchange.speech)

    def are_numbers_said(self, given: Mapping[str, Any]) -> bool:
        """Return whether the user has since said the numbers among the values."""
        said = [each.text for each in self.exchange().answers]
        return are_numbers_said(self.request.schema or {}, given, said)

    def _judge(self, text: str) -> Meaning:
        return self.request.judge(text, self.voice or "")

    def _is_harmless(self, said: Utterance) -> bool:
        """Return whether an utterance during the question leaves the answer unambiguous.

        It may be the late transcription of an earlier sentence, so it never counts as the answer.
        Unless its transcription has finished, the next words may belong to it.
        """
        words = self._judge(said.text)
        return said.over and words is not Meaning.NO and (said.goes_on or words is Meaning.YES)

    def _is_asked_in(self, speech: str) -> bool:
        if self.voice is None:
            return False
        if self.request.schema is not None:
            return bool(speech.strip())
        return any(self.request.lexicon.asks(speech, form) for form in self._forms)

    @property
    def _forms(self) -> tuple[str, str]:
        """Return the question, and its wording after an unclear answer."""
        asked = self.voice or ""
        more = self.request.schema is None
        return asked, f"{asked} {self.request.lexicon.again(self.language)}" if more else asked

    def resume(self, call: ToolCall, decision: Decision, why_not: str) -> None:
        """Pass the answer to the paused call, if any, and let `call` resume it."""
        if self.paused is not None:
            self.paused.answer(decision, why_not)
            call.session.get(PausedCalls).put(call.number, self.paused)

    def abort_resume(self, call: ToolCall) -> None:
        """End the paused call if `call` has not resumed it."""
        if self.paused is not None:
            call.session.get(PausedCalls).drop(call.number)

    @property
    def language(self) -> str:
        """Return the language of the session."""
        policy = self.call.session.find(SessionPolicy)
        return SessionPolicy().language if policy is None else policy.language

    def discard_answers(self) -> None:
        """Count only speech from now on as an answer."""
        self.position = self.transcript.mark()

    def announce(self) -> None:
        """Emit an event, and notify `ApprovalLog`, that the question was opened."""
        self._emit(
            EventKind.APPROVAL_REQUEST,
            rule=self.rule.name,
            expires_at=self.request.deadline,
            on_expiry=self.request.on_expiry,
            **({} if self.untrusted is None else {"untrusted": list(self.untrusted.tools)}),
        )
        self._log(None)

    def announce_closed(self, answer: str, *, by: str, decision: Decision | None = None) -> None:
        """Emit an event, and notify `ApprovalLog`, how the question was closed; see `Closing`."""
        self._emit(EventKind.APPROVAL_ANSWER, decision=answer, by=by)
        self._log(Closing(answer=answer, by=by, decision=decision))

    def _log(self, closing: Closing | None) -> None:
        log = self.call.session.find(ApprovalLog)
        if log is not None:
            log.notify(self, closing)

    def _emit(self, kind: EventKind, **data: Any) -> None:
        """Emit an event without arguments or sentences, which may be confidential."""
        event = ToolEvent(kind=kind, call=self.call, data={"approval_id": self.request.id, **data})
        for sink in self.sinks:
            with contextlib.suppress(Exception):  # a failing sink must not decide a question
                sink(event)
