"""Rules hold here and nowhere else: what they deny does not run, and what they ask about waits."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals import wording
from leonidas_tools.approvals.channels import ask, channel_of
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.question import Question
from leonidas_tools.approvals.request import Answer, ApprovalRequest, hash_of
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.approvals.transcript import Transcript
from leonidas_tools.events import EventKind
from leonidas_tools.invocation import current
from leonidas_tools.rules.engine import Circumstances, ToolRules, Verdict
from leonidas_tools.rules.rule import Decide

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from leonidas_tools.approvals.question import Asking
    from leonidas_tools.calls import Run, ToolCall, ToolResult
    from leonidas_tools.rules.rule import Mode, Rule
    from leonidas_tools.settings.rules import ApprovalSettings

_ALLOW = Decide.ALLOW


@dataclass(frozen=True, kw_only=True, slots=True)
class Approval:
    """Holds a call to the rules, and asks a person where they say so.

    It stands inside validation, so that it sees the arguments that will run, and outside all that
    runs them. A permission is good for one run of one call: this tool, with this schema and these
    arguments.

    Args:
        rules: The rules about the tool.
        mode: The mode of sessions that have none of their own.
        fingerprint: Stands for what the tool says it is.
        validate: Makes valid arguments of those a person gives.
        settings: How long a question stays open, and what then.
        asking: How a person is asked.
    """

    rules: ToolRules
    mode: Mode
    fingerprint: str
    validate: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    settings: ApprovalSettings
    asking: Asking

    def __call__(self, call: ToolCall, run: Run) -> Awaitable[ToolResult]:
        """Runs the call if it may run."""
        verdict = self._verdict(call)
        rule = verdict.rule
        if rule is None or verdict.decide is _ALLOW:
            return run(call)
        return self._held(call, run, verdict, rule)

    async def _held(self, call: ToolCall, run: Run, verdict: Verdict, rule: Rule) -> ToolResult:
        """What a rule makes of the call that does not just let it run."""
        if verdict.decide is Decide.DENY:
            return self._denied(call, rule)
        if verdict.decide is Decide.AUDIT:
            told = "always" if verdict.lifted else "allow"
            _record(call, told, rule)
            return await run(call)
        digest = hash_of(call.name, self.fingerprint, call.arguments)
        desk = call.session.get(Approvals)
        if desk.redeem(call.number, digest):
            return await run(call)
        asked = desk.with_hash(digest)
        if asked is not None and asked.answered is None:
            return wording.pending(asked.request, by_voice=self.asking.by_voice())
        return await self._ask(call, run, rule, digest)

    def _verdict(self, call: ToolCall) -> Verdict:
        session = call.session
        policy = session.find(SessionPolicy)
        more: tuple[Rule, ...]
        if policy is None:
            mode, user, more = self.mode, session.user, ()
        else:
            mode, user = policy.mode_or(self.mode), policy.user or session.user
            more = policy.all_rules
        about = Circumstances(arguments=call.arguments, mode=mode, user=user)
        return self.rules.decide(about, more)

    def _denied(self, call: ToolCall, rule: Rule) -> ToolResult:
        _record(call, "deny", rule)
        return wording.denied_by_rule(call.name, _shown(call), rule)

    async def _ask(self, call: ToolCall, run: Run, rule: Rule, digest: str) -> ToolResult:
        """Puts the question; the call waits for as long as the channel does."""
        desk, question = call.session.get(Approvals), self._question(call, rule, digest)
        channel = channel_of(call.session, self.asking)
        if channel is not None:
            question.answered = asyncio.get_running_loop().create_future()
        desk.open(question)
        answer = None if channel is None else await ask(desk, question, channel)
        if answer is None:
            return wording.pending(question.request, by_voice=self.asking.by_voice())
        decision, why_not = answer
        if decision.answer is Answer.DENY:
            return wording.denied(call.name, why_not, decision.reason)
        if decision.answer is Answer.EDIT:
            return await desk.run(question, decision)
        verdict = self._verdict(call)  # the session may have become a stricter one meanwhile
        if verdict.decide is Decide.DENY and verdict.rule is not None:
            return self._denied(call, verdict.rule)
        return await run(call)

    def _question(self, call: ToolCall, rule: Rule, digest: str) -> Question:
        session, invocation = call.session, current()
        policy = session.find(SessionPolicy) or SessionPolicy()
        now = time.time()
        seconds = rule.deadline_seconds or self.settings.deadline
        # As it came: what policies of the user have made of it, they make of it again.
        came = invocation.call if invocation.call.name == call.name else call
        return Question(
            request=ApprovalRequest(
                id=secrets.token_hex(4),
                tool=call.name,
                title=wording.question(call.name, _shown(call), rule, policy.language),
                details=_shown(call),
                hash=digest,
                created=now,
                deadline=now + seconds,
                on_expiry=rule.on_expiry or self.settings.on_expiry,
                session=session.id,
                user=policy.user or session.user,
                call_id=call.id,
                rule=rule.name,
            ),
            call=came,
            fingerprint=self.fingerprint,
            rule=rule,
            validate=self.validate,
            asking=self.asking,
            sinks=invocation.sinks,
            place=session.get(Transcript).mark(),
            trusts_model=self.settings.trust_model,
        )


def _shown(call: ToolCall) -> dict[str, Any]:
    """The arguments as they may be shown and spoken."""
    return call.redaction.arguments(call.arguments)


def _record(call: ToolCall, decision: str, rule: Rule) -> None:
    """Shows what was decided without asking; `call` may be that of a tool that stands in."""
    current().emit(
        EventKind.APPROVAL_ANSWER,
        decision=decision,
        by="rule",
        rule=rule.name,
        **({} if current().call.name == call.name else {"for": call.name}),
    )
