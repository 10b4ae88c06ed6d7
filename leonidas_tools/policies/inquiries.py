"""Ask a person for the input that a running call needs, outside the timeouts of the call."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leonidas_tools.approvals import wording
from leonidas_tools.approvals.channels import ask, channel_of
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.inquiry import CallPausedError, PausedCalls
from leonidas_tools.approvals.question import Question
from leonidas_tools.approvals.request import ApprovalRequest, Decision
from leonidas_tools.approvals.session_policy import SessionPolicy, user_of
from leonidas_tools.approvals.transcript import Transcript
from leonidas_tools.approvals.untrusted import has_read_untrusted
from leonidas_tools.calls.events import EventKind
from leonidas_tools.calls.invocation import current
from leonidas_tools.results.texts import AS_IT_IS
from leonidas_tools.rules.engine import Circumstances
from leonidas_tools.rules.rule import Decide, Rule
from leonidas_tools.tools.metadata import ToolCategory, fingerprint_of, hash_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leonidas_tools.approvals.inquiry import Inquiry
    from leonidas_tools.approvals.question import Asking
    from leonidas_tools.calls.call import Run, ToolCall, ToolResult
    from leonidas_tools.mcp.features.ongoing_calls import OngoingCall
    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.results.texts import Wording
    from leonidas_tools.rules.engine import RuleBook, Verdict
    from leonidas_tools.rules.rule import Mode
    from leonidas_tools.settings.effective import EffectiveOptions
    from leonidas_tools.settings.rules import ApprovalSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class Inquiries:
    """Asks a person for the input that a call needs, and resumes the call with the answer.

    While it waits for a person, the call holds neither its lane nor a concurrency slot, and its
    timeout does not run: each part of the call between two questions is a run with its own limits.
    """

    rules: RuleBook
    """All rules, since a rule may answer some questions."""
    mode: Mode
    """The mode of sessions that have no mode of their own."""
    fingerprint: str
    """Identifies the tool's definition."""
    settings: ApprovalSettings
    asking: Asking
    wording: Wording
    """The texts of the question."""

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run the call, and run it again after each question that it asks."""
        result = await run(call)
        while isinstance(result.error, CallPausedError):
            paused = result.error.paused
            pending = await self._await_answer(call, paused)
            if pending is not None:
                return pending
            paused_calls = call.session.get(PausedCalls)
            paused_calls.put(call.number, paused)
            try:
                result = await run(call)
            finally:
                paused_calls.drop(call.number)
        return result

    async def _await_answer(self, call: ToolCall, paused: OngoingCall) -> ToolResult | None:
        """Obtain the answer to a question; return a result if the answer comes later."""
        inquiry = paused.inquiry
        verdict = self._verdict(call, inquiry)
        if verdict is not None and verdict.decide is not Decide.ASK:
            _decide(inquiry, paused, verdict)
            return None
        desk, question = call.session.get(Approvals), self._question(call, paused, verdict)
        channel = channel_of(call.session, self.asking)
        if self.asking.by_voice() and desk.is_full:
            paused.answer(Decision.deny(), "too_many_questions")
            return None
        if channel is not None:
            question.waiter = asyncio.get_running_loop().create_future()
        desk.open(question)
        paused.on_gone = lambda: desk.withdraw_by_tool(question)
        answer = None if channel is None else await ask(desk, question, channel)
        if answer is None:
            return desk.pending_result(question)
        paused.answer(*answer)
        return None

    def _verdict(self, call: ToolCall, inquiry: Inquiry) -> Verdict | None:
        if inquiry.subject is None:
            return None
        session, mode = call.session, self.mode
        policy = session.find(SessionPolicy) or SessionPolicy()
        about = Circumstances(
            arguments=inquiry.details,
            mode=policy.mode_or(mode),
            user=user_of(session),
        )
        return self.rules.for_tool(inquiry.subject).decide(about, policy.all_rules)

    def _question(self, call: ToolCall, paused: OngoingCall, verdict: Verdict | None) -> Question:
        session, invocation, inquiry = call.session, current(), paused.inquiry
        policy = session.find(SessionPolicy) or SessionPolicy()
        rule = None if verdict is None else verdict.rule
        rule = rule or Rule(name=inquiry.rule, decide=Decide.ASK)
        now = time.time()
        title = inquiry.title(policy.language, self.wording)
        # After untrusted content, neither silence nor the model's claim counts as a yes.
        has_read = has_read_untrusted(call.session)
        return Question(
            request=ApprovalRequest(
                id=secrets.token_hex(4),
                tool=call.name if inquiry.subject is None else inquiry.subject.names[0],
                title=title,
                details=inquiry.details,
                schema=inquiry.schema,
                hash=hash_of(call.name, self.fingerprint, call.arguments),
                created=now,
                deadline=now + (rule.deadline_seconds or self.settings.deadline),
                on_expiry="cancel" if has_read else _on_expiry(inquiry, rule, self.settings),
                session=session.id,
                user=user_of(session),
                call_id=call.id,
                rule=rule.name,
                words=self.wording,
                lexicon=self.settings.lexicon(policy.language),
            ),
            call=invocation.call if invocation.call.name == call.name else call,
            fingerprint=_definition(inquiry) or self.fingerprint,
            rule=rule,
            validate=inquiry.validate,
            asking=self.asking,
            sinks=invocation.sinks,
            position=session.get(Transcript).mark(),
            voice=wording.fixed_question(title, policy.language),
            trusts_model=self.settings.trust_model and not has_read,
            paused=paused,
        )


def _on_expiry(inquiry: Inquiry, rule: Rule, settings: ApprovalSettings) -> str:
    """Return the effect of expiry: `cancel` if no rule can answer or values are needed."""
    if inquiry.subject is None or inquiry.schema is not None:
        return "cancel"
    return rule.on_expiry or settings.on_expiry


def _definition(inquiry: Inquiry) -> str | None:
    """Return the fingerprint of the inquiry's subject, if the subject is not the tool itself."""
    return None if inquiry.subject is None else inquiry.subject.fingerprint


def _decide(inquiry: Inquiry, paused: OngoingCall, verdict: Verdict) -> None:
    """Answer by a rule, without asking."""
    allowed = verdict.decide is not Decide.DENY
    decision = verdict.decide.value if not verdict.lifted else "always"
    about = {} if inquiry.subject is None else {"for": inquiry.subject.names[0]}
    rule = {} if verdict.rule is None else {"rule": verdict.rule.name}
    current().emit(EventKind.APPROVAL_ANSWER, decision=decision, by="rule", **rule, **about)
    paused.answer(Decision.approve() if allowed else Decision.deny(), "denied_by_rule")


def for_tool(options: EffectiveOptions, shared: Shared) -> Iterator[Inquiries]:
    """Yield the inquiries of an MCP tool while it runs; other tools never ask."""
    metadata, policies = options.tool.metadata, shared.policies
    if metadata.category is ToolCategory.MCP:
        yield Inquiries(
            rules=shared.rules,
            mode=policies.mode,
            fingerprint=fingerprint_of(metadata),
            settings=policies.approval,
            wording=shared.settings.wording or AS_IT_IS,
            asking=shared.asking,
        )
