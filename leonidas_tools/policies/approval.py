"""Enforce the rules, here and nowhere else: deny a call, or ask a person before it runs."""

from __future__ import annotations

import asyncio
import operator
import secrets
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals import wording
from leonidas_tools.approvals.channels import ask, channel_of
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.question import Question
from leonidas_tools.approvals.request import Answer, ApprovalRequest
from leonidas_tools.approvals.session_policy import SessionPolicy, user_of
from leonidas_tools.approvals.transcript import Transcript
from leonidas_tools.approvals.untrusted import Foreign, foreign, has_read_untrusted
from leonidas_tools.calls.events import EventKind
from leonidas_tools.calls.invocation import current
from leonidas_tools.errors import ToolValidationError
from leonidas_tools.json_schema import error_without
from leonidas_tools.policies.base import answered
from leonidas_tools.results.texts import AS_IT_IS, say
from leonidas_tools.rules.engine import Circumstances, ToolRules, Verdict, stricter
from leonidas_tools.rules.rule import AFTER_UNTRUSTED, Decide, Mode
from leonidas_tools.rules.subject import add_facts, subject_of
from leonidas_tools.tools.metadata import AfterUntrusted, fingerprint_of, hash_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from leonidas_tools.approvals.question import Asking
    from leonidas_tools.calls.call import Run, ToolCall, ToolResult
    from leonidas_tools.policies.base import Policy
    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.results.texts import Wording
    from leonidas_tools.rules.rule import Rule
    from leonidas_tools.settings.effective import EffectiveOptions
    from leonidas_tools.settings.rules import ApprovalSettings

_MAX_NAMED = 3
_ALLOW = Decide.ALLOW
_ASK = Decide.ASK


@dataclass(frozen=True, kw_only=True, slots=True)
class Approval:
    """Applies the rules to a call, and asks a person if a rule requires it.

    The policy runs inside validation, so that it sees the arguments that will run, and outside all
    policies that run the call. A permission covers one run of one call: this tool, with this
    definition and these arguments.
    """

    rules: ToolRules
    mode: Mode
    """The mode of sessions that have no mode of their own."""
    fingerprint: str
    """Identifies the tool's definition."""
    validate: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    """Validates and coerces arguments that a person has edited."""
    settings: ApprovalSettings
    asking: Asking
    wording: Wording
    """The texts of the question."""
    has_rules: bool
    """Whether a rule may ask, deny or record."""
    after_untrusted: AfterUntrusted | None
    """The treatment of a call with foreign arguments after untrusted content was read; `None` to
    ask, and to deny in the mode `autonomous`."""
    presets: Mapping[str, Any]
    """The arguments that the settings supply."""

    def __call__(self, call: ToolCall, run: Run) -> Awaitable[ToolResult]:
        """Run the call, deny it, or ask a person first."""
        if not self.has_rules and not has_read_untrusted(call.session):
            return run(call)
        verdict = self._verdict(call)
        if verdict.decide is _ASK:
            verdict = self._autonomous_verdict(call) or verdict
        rule = verdict.rule
        if rule is None or verdict.decide is _ALLOW:
            return run(call)
        return self._apply_verdict(call, run, verdict, rule)

    async def _apply_verdict(
        self, call: ToolCall, run: Run, verdict: Verdict, rule: Rule
    ) -> ToolResult:
        """Deny, record or ask, according to the verdict."""
        if verdict.decide is Decide.DENY:
            return self._deny(call, rule)
        if verdict.decide is Decide.AUDIT:
            _record(call, "always" if verdict.lifted else "allow", rule)
            return await run(call)
        digest = hash_of(call.name, self.fingerprint, call.arguments)
        desk = call.session.get(Approvals)
        if desk.redeem(call.number, digest):
            return await run(call)
        moved = desk.take_moved(call.number)
        if moved is not None and (moved[1] != digest or desk.was_answered(digest)):
            return wording.build_denial(call.name, "withdrawn")
        asked = desk.with_hash(digest)
        if asked is not None and asked.waiter is None:
            return desk.share(asked, call)
        question = self._question(call, verdict, digest, moved)
        return await self._ask(call, run, question, has_moved=moved is not None)

    def _verdict(self, call: ToolCall, mode: Mode | None = None) -> Verdict:
        session = call.session
        policy = session.find(SessionPolicy)
        more: tuple[Rule, ...] = () if policy is None else policy.all_rules
        mode = mode or self._mode_of(policy)
        arguments = add_facts(self.rules.subject.metadata, call.as_run())
        about = Circumstances(arguments=arguments, mode=mode, user=user_of(session))
        verdict = self.rules.decide(about, more)
        found = self._untrusted_reason(call)
        if found is None:
            return verdict
        asks = self.rules.verdict_of(AFTER_UNTRUSTED, about, more)
        by_default = self.after_untrusted is None and mode is Mode.AUTONOMOUS
        if self.after_untrusted is AfterUntrusted.DENY or (by_default and not asks.lifted):
            reason = say("after_untrusted_denied", tools=", ".join(found.tools))
            rule = replace(AFTER_UNTRUSTED, decide=Decide.DENY, message=reason)
            return stricter(Verdict(decide=rule.decide, rule=rule), verdict)
        return stricter(asks, verdict)

    def _untrusted_reason(self, call: ToolCall) -> Foreign | None:
        """Return why the call may follow from untrusted content; `None` if it may not."""
        if self.after_untrusted is AfterUntrusted.ALLOW or not has_read_untrusted(call.session):
            return None
        parameters = {} if call.tool is None else call.tool.metadata.parameters
        return foreign(call, parameters, self.presets)

    def _mode_of(self, policy: SessionPolicy | None) -> Mode:
        return self.mode if policy is None else policy.mode_or(self.mode)

    def _autonomous_verdict(self, call: ToolCall) -> Verdict | None:
        """Return the verdict on a call that is autonomous by itself; `None` for any other call.

        A permission of the session for one call of the tool is used up here.
        """
        policy = call.session.find(SessionPolicy)
        if self._mode_of(policy) is not Mode.ASK:
            return None
        if policy is not None and not policy.preferred.is_known:
            return None  # the user may have chosen a stricter mode
        if self._untrusted_reason(call) is not None:
            return None  # a person is there to ask
        if not call.autonomous and (policy is None or not policy.use_once(call.name)):
            return None
        return self._verdict(call, Mode.AUTONOMOUS)

    def _deny(self, call: ToolCall, rule: Rule) -> ToolResult:
        _record(call, "deny", rule)
        return wording.build_rule_denial(call.name, _masked_arguments(call), rule)

    async def _ask(
        self, call: ToolCall, run: Run, question: Question, *, has_moved: bool
    ) -> ToolResult:
        """Ask the question; the call waits until the channel returns."""
        desk = call.session.get(Approvals)
        channel = channel_of(call.session, self.asking)
        if self.asking.by_voice() and desk.is_full:
            return wording.too_many(call.name)
        if channel is not None:
            question.waiter = asyncio.get_running_loop().create_future()
        in_force = self._in_force(call)
        desk.open(question)
        answer = None if channel is None else await ask(desk, question, channel)
        if has_moved and answer is not None and answer[0].answer is not Answer.DENY:
            desk.start_soon(question, answer[0])  # `run` would not run it
            answer = None
        if answer is None:
            return desk.leave_open(question, call)
        decision, why_not = answer
        if decision.answer is Answer.DENY:
            return wording.build_denial(call.name, why_not, decision.reason)
        is_edited = decision.answer is Answer.EDIT
        if is_edited or not all(map(operator.is_, in_force, self._in_force(call))):
            here = current()
            return await desk.run(question, decision, waits=not is_edited, instead_of=here)
        return await self._run_approved(call, run, question)

    async def _run_approved(self, call: ToolCall, run: Run, question: Question) -> ToolResult:
        """Run an approved call, which has waited here."""
        desk = call.session.get(Approvals)
        verdict = self._verdict(call)  # the session's mode may have become stricter meanwhile
        if verdict.decide is Decide.DENY and verdict.rule is not None:
            return self._deny(call, verdict.rule)
        number = current().call.number
        desk.record_approval(number, question)
        try:
            return await run(call)
        finally:
            desk.remove_approved(number)

    def _in_force(self, call: ToolCall) -> tuple[object, object]:
        """Return the settings and the tool that a call would use if it started now."""
        runner = self.asking.runner
        return runner.settings, runner.registry.get(call.name)

    def _question(
        self, call: ToolCall, asks: Verdict, digest: str, moved: tuple[str, str] | None
    ) -> Question:
        session, invocation, rule = call.session, current(), asks.rule
        assert rule is not None
        policy = session.find(SessionPolicy) or SessionPolicy()
        now = time.time()
        seconds = rule.deadline_seconds or self.settings.deadline
        # The call as it arrived: user policies will change the new copy again.
        original = invocation.call if invocation.call.name == call.name else call
        shown, language = _masked_arguments(call), policy.language
        notice, found = self._notice(call, language, changed=asks.outdated)
        # After untrusted content, neither silence nor the model's claim counts as a yes. If the
        # question comes from another process, silence does not count either.
        on_expiry = "cancel" if found or moved else rule.on_expiry or self.settings.on_expiry
        return Question(
            request=ApprovalRequest(
                id=secrets.token_hex(4) if moved is None else moved[0],
                tool=call.name,
                title=wording.prepend_notice(
                    notice, wording.question(call.name, shown, rule, language, self.wording)
                ),
                details=shown,
                hash=digest,
                created=now,
                deadline=now + seconds,
                on_expiry=on_expiry,
                session=session.id,
                user=user_of(session),
                call_id=call.id,
                rule=rule.name,
                words=self.wording,
                lexicon=self.settings.lexicon(language),
            ),
            call=original,
            fingerprint=self.fingerprint,
            rule=rule,
            validate=partial(self._edited_arguments, call, shown),
            asking=self.asking,
            sinks=invocation.sinks,
            position=session.get(Transcript).mark(),
            voice=wording.build_spoken_question(
                call.name,
                shown,
                rule,
                language=language,
                shortens=self.settings.shorten_values,
                notice=notice,
                words=self.wording,
            ),
            trusts_model=self.settings.trust_model and found is None,
            untrusted=found,
        )

    def _edited_arguments(
        self, call: ToolCall, shown: Mapping[str, Any], edited: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the arguments that a person has edited, with masked secrets restored.

        A masked value that is unchanged means the secret; an error quotes no secret.
        """
        arguments: Mapping[str, Any] = _restore_masked(dict(edited), shown, dict(call.as_run()))
        try:
            return self.validate(arguments)
        except ToolValidationError as error:
            declared = call.secretive_arguments()
            secrets = (*call.known, declared) if declared else call.known
            raise error_without(secrets, error, self.validate, arguments) from None

    def _notice(
        self, call: ToolCall, language: str, *, changed: bool
    ) -> tuple[str, Foreign | None]:
        """Return the notice before the question (foreign content, changed tool), and its cause."""
        notices, found = [], self._untrusted_reason(call)
        if found is not None:
            tools = ", ".join(tool.replace("_", " ") for tool in found.tools[-_MAX_NAMED:])
            notices.append(self.wording.template("after_untrusted", language).format(tools=tools))
        if changed:
            notices.append(self.wording.template("definition_changed", language))
        return " ".join(notices), found


def _masked_arguments(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of the run with secrets masked, for display and speech."""
    return call.redaction.arguments(call.as_run())


def _restore_masked(edited: Any, shown: Any, original: Any) -> Any:
    """Return an edited value, with the original of each part that is unchanged."""
    if edited == shown:
        return original
    kinds = {type(edited), type(shown), type(original)}
    if kinds == {dict}:
        known = shown.keys() & original.keys()
        return {
            key: _restore_masked(value, shown[key], original[key]) if key in known else value
            for key, value in edited.items()
        }
    if kinds == {list} and len(edited) == len(shown) == len(original):
        return list(map(_restore_masked, edited, shown, original))
    return edited


def _record(call: ToolCall, decision: str, rule: Rule) -> None:
    """Emit a decision that was made without asking; `call` may be that of a fallback tool."""
    current().emit(
        EventKind.APPROVAL_ANSWER,
        decision=decision,
        by="rule",
        rule=rule.name,
        **({} if current().call.name == call.name else {"for": call.name}),
    )


def stop_if_taken_back(call: ToolCall, run: Run) -> Awaitable[ToolResult]:
    """Run the call, unless the user has withdrawn the approval while the call was waiting."""
    desk = call.session.find(Approvals)
    if desk is not None and desk.is_taken_back(current().call.number):
        return answered(wording.build_denial(call.name, "contradicted"))
    return run(call)


def for_tool(options: EffectiveOptions, shared: Shared) -> Iterator[Approval]:
    """Yield the approval of a tool's calls, unless no rule can ask, deny or record."""
    policies, metadata = shared.policies, options.tool.metadata
    rules, has_rules = _rules_of(options, shared)
    if has_rules or options.after_untrusted is not AfterUntrusted.ALLOW:
        yield Approval(
            rules=rules,
            mode=policies.mode,
            fingerprint=fingerprint_of(metadata),
            validate=options.tool.validator,
            settings=policies.approval,
            wording=shared.settings.wording or AS_IT_IS,
            asking=shared.asking,
            has_rules=has_rules,
            after_untrusted=options.after_untrusted,
            presets=options.settings.custom_parameters,
        )


def late_for_tool(options: EffectiveOptions, shared: Shared) -> Iterator[Policy]:
    """Yield the check for a no when an approved call starts, if calls may need approval."""
    if options.after_untrusted is not AfterUntrusted.ALLOW or _rules_of(options, shared)[1]:
        yield stop_if_taken_back


def _rules_of(options: EffectiveOptions, shared: Shared) -> tuple[ToolRules, bool]:
    """Return the rules of a tool, and whether one may ask, deny or record."""
    rules = shared.rules.for_tool(subject_of(options.tool.metadata, options.settings))
    return rules, options.guarded or rules.acts_in(shared.policies.mode)
