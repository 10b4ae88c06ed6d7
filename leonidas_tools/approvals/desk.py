"""The open questions of a session, until they are answered, withdrawn or expired."""

from __future__ import annotations

import asyncio
import glob
import time
from collections import OrderedDict
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.approvals import wording
from leonidas_tools.approvals.request import Answer, Decision
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.calls.call import (
    REPEATED,
    ResultStatus,
    ToolCall,
    ToolResult,
    build_repeated_result,
)
from leonidas_tools.calls.listeners import Listeners
from leonidas_tools.errors import (
    ConfigurationError,
    ToolDeniedError,
    ToolValidationError,
    log_level,
)
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import join, say
from leonidas_tools.rules.rule import PROGRAM_FILES, RISKS, Decide, Rule, Tier
from leonidas_tools.tools.metadata import hash_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.approvals.question import Question
    from leonidas_tools.approvals.request import ApprovalRequest, Scope
    from leonidas_tools.calls.invocation import Invocation


logger = visible_logger(__name__)

FAILURE = "failure"
"""The `by` of a denial because nobody could be asked."""

_MAX_CLOSED = 256
_MAX_SPOKEN = 16
"""Maximum number of spoken questions that are open at once."""
_EXPIRED = "approval_expired"
_CLOSED = {
    "approval_used": "question_used",
    _EXPIRED: "question_expired",
    "withdrawn": "question_withdrawn",
}
"""The text key for each way in which a question was closed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """A permission for one run of a call whose question was approved.

    Args:
        digest: The hash of the call that may run.
        request: The question.
        by_silence: Whether the call proceeds because the question expired without an answer.
    """

    digest: str
    request: ApprovalRequest
    by_silence: bool


OnResult: TypeAlias = Callable[[ToolCall, ToolResult], None]


class Approvals:
    """Keeps the open questions of a session, and closes them with their answers.

    The `ToolSession` owns it, so that a question survives interruptions and reconnects.

    Example:
        >>> from leonidas_tools.calls.call import ToolSession
        >>> ToolSession().get(Approvals).pending()
        []
    """

    def __init__(self) -> None:
        self._open: dict[str, Question] = {}
        self._closed: OrderedDict[str, tuple[str, str]] = OrderedDict()
        """The closing codes and the hashes of the last closed questions, by question id."""
        self._grants: dict[int, Grant] = {}
        """The permissions of approved calls, by call number."""
        self._approved: dict[int, Question] = {}
        """The questions of approved calls, by call number."""
        self._moved: dict[int, tuple[str, str]] = {}
        """The id and the hash that a question had in another process, by call number."""
        self._sharing: dict[str | int, list[ToolCall]] = {}
        """The equal calls that wait for the answer to one question, by the key of its call."""
        self._current: Question | None = None
        self._changes = Listeners[[]]("approvals")
        self._left = Listeners["Question"]("open questions")
        self._results = Listeners[ToolCall, ToolResult]("late results")
        self._outcomes = Listeners[ToolCall, ToolResult]("outcomes")

    def pending(self) -> list[ApprovalRequest]:
        """Return the open questions, the oldest first."""
        return [question.request for question in self._open.values()]

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Subscribe to questions being opened or closed; return a function that unsubscribes."""
        return self._changes.subscribe(listener)

    def on_left(self, listener: Callable[[Question], None]) -> Callable[[], None]:
        """Subscribe to open questions that no channel asks; their answers come later, or by voice.

        Returns:
            A function that unsubscribes.
        """
        return self._left.subscribe(listener)

    def on_result(self, listener: OnResult) -> Callable[[], None]:
        """Subscribe to new results of calls that already have a result.

        The first result was `pending_approval`, or a failure that a person has then decided about.

        Args:
            listener: Receives the call and its result. It is not called if the result is the
                answer to `confirm_action`.

        Returns:
            A function that unsubscribes.
        """
        return self._results.subscribe(listener)

    def on_outcome(self, listener: OnResult) -> Callable[[], None]:
        """Subscribe to the results of `on_result`, and to answers to `confirm_action`.

        Returns:
            A function that unsubscribes.
        """
        return self._outcomes.subscribe(listener)

    def decide(self, approval_id: str, decision: Decision, *, by: str = "person") -> None:
        """Answer a question; an approved call starts at once.

        Args:
            approval_id: The id of the question.
            decision: The answer; edited arguments are validated here.
            by: The person or channel that answers, for events and the store.

        Raises:
            ToolDeniedError: The question is unknown or already closed.
            ToolValidationError: The edited arguments are invalid; the question stays open.
        """
        question = self.question(approval_id)
        decision = self.settle(question, decision, by=by)
        if question.waiter is not None:
            why_not = "approval_failed" if by == FAILURE else "refused"
            question.waiter.set_result((decision, why_not))
        elif decision.answer is Answer.DENY and question.paused is None:
            self.deliver(
                question, wording.build_denial(_tool(question), "refused", decision.reason)
            )
        else:
            self._start(question, decision)

    # Used by the approval policy and the tools that confirm.

    def question(self, approval_id: str) -> Question:
        """Return an open question.

        Raises:
            ToolDeniedError: The question is unknown or already closed.
        """
        question = self._open.get(approval_id)
        if question is not None:
            return question
        code, _ = self._closed.get(approval_id, ("unknown_approval", ""))
        key = _CLOSED.get(code)
        message = say("unknown_question", question=approval_id) if key is None else say(key)
        raise ToolDeniedError(message, reason_code=code, valid_options=list(self._open) or None)

    def with_hash(self, digest: str) -> Question | None:
        """Return the open question about exactly this call, if any."""
        return next((q for q in self._open.values() if q.request.hash == digest), None)

    def was_answered(self, digest: str) -> bool:
        """Return whether a question about exactly this call was answered here, or has expired."""
        return any(code != "withdrawn" and of == digest for code, of in self._closed.values())

    @property
    def is_full(self) -> bool:
        """Return whether no further spoken question may be opened."""
        return sum(question.is_spoken for question in self._open.values()) >= _MAX_SPOKEN

    def is_behind_another(self, question: Question) -> bool:
        """Return whether another spoken question must be answered first.

        Only one question at a time accepts spoken answers, so that a yes is unambiguous.
        """
        return self._current is not None and self._current is not question

    def pending_result(self, question: Question) -> ToolResult:
        """Return the result of a call whose question is open."""
        is_second = question.is_spoken and self.is_behind_another(question)
        return question.pending_result("waits" if is_second else None)

    def share(self, question: Question, call: ToolCall) -> ToolResult:
        """Return the result of a call that is equal to the call of an open question.

        One answer serves both calls, and the `on_outcome` listeners receive a result for each.
        """
        self._sharing.setdefault(_key(question.call), []).append(call)
        return self.pending_result(question)

    def leave_open(self, question: Question, call: ToolCall) -> ToolResult:
        """Return the result of a call whose channel left its question open for a later answer.

        If equal calls are made at once, only the first one that is left opens a question.
        """
        left = (q for q in self._open.values() if q.waiter is None and q is not question)
        first = next((q for q in left if q.request.hash == question.request.hash), None)
        if first is None or question.request.id not in self._open:
            return self.pending_result(question)
        self.withdraw(question)
        return self.share(first, call)

    def open(self, question: Question) -> None:
        """Open a question until it is answered or expires."""
        request = question.request
        self._open[request.id] = question
        seconds = max(request.deadline - time.time(), 0.0)
        # In an empty context: the timer would otherwise keep the call's whole stream in memory.
        question.timer = asyncio.get_running_loop().call_later(
            seconds, self._expire, question, context=Context()
        )
        question.announce()
        self._select_next()
        self._changes.notify()
        if question.waiter is None:
            self._left.notify(question)

    def expect(self, number: int, approval_id: str, digest: str) -> None:
        """Let the question of a call keep the id that it has in another process."""
        self._moved[number] = (approval_id, digest)

    def take_moved(self, number: int) -> tuple[str, str] | None:
        """Remove and return the id and the hash that a question had in another process, if any."""
        return self._moved.pop(number, None)

    def redeem(self, number: int, digest: str) -> bool:
        """Use up the permission of a call, and return whether it covers the call about to run."""
        grant = self._grants.pop(number, None)
        return grant is not None and grant.digest == digest

    def grant_of(self, number: int) -> Grant | None:
        """Return the permission of a call, if it has one."""
        return self._grants.get(number)

    def record_approval(self, number: int, question: Question) -> None:
        """Record that a call was approved; the call may have to wait before it runs."""
        self._approved[number] = question

    def remove_approved(self, number: int) -> None:
        """Remove an approved call."""
        self._approved.pop(number, None)

    def is_taken_back(self, number: int) -> bool:
        """Return whether the user has said no since the call was approved."""
        question = self._approved.get(number)
        return question is not None and question.is_refused_since(question.position)

    def stop_waiting(self, question: Question) -> None:
        """Detach the waiting call; the question stays open."""
        question.waiter = None
        self._select_next()
        self._left.notify(question)

    def withdraw(self, question: Question) -> None:
        """Close a question without an answer, and end the call that waits for it."""
        if self._open.get(question.request.id) is question:
            self._close(question, "withdrawn")
            if question.waiter is not None and not question.waiter.done():
                question.waiter.set_result((Decision.deny(), "withdrawn"))
            if question.paused is not None:
                question.paused.abort()
            question.announce_closed("withdrawn", by="session")
            self._tell_sharing(question.call, wording.build_denial(_tool(question), "withdrawn"))

    def withdraw_by_tool(self, question: Question) -> None:
        """Withdraw a question for the tool that asked it, and let the call continue."""
        if self._open.get(question.request.id) is question:
            self._close(question, "withdrawn")
            question.announce_closed("withdrawn", by="tool")
            self._resume(question, Decision.deny(), "withdrawn")

    def withdraw_all(self) -> None:
        """Withdraw all questions, such as when the session has ended."""
        for question in tuple(self._open.values()):
            self.withdraw(question)

    def settle(self, question: Question, decision: Decision, *, by: str) -> Decision:
        """Close a question with a validated answer; the caller then runs or denies the call."""
        decision = _fit_decision(question, decision)
        self._close(question, "approval_used")
        if decision.answer is Answer.ALWAYS:
            _remember(question, decision.scope)
        question.announce_closed(decision.answer.value, by=by, decision=decision)
        return decision

    async def run(
        self,
        question: Question,
        decision: Decision,
        *,
        waits: bool = False,
        instead_of: Invocation | None = None,
    ) -> ToolResult:
        """Run the call of a closed question again, and return its result.

        With `waits`, the first call waits for the result, so that it need not name the question.
        `instead_of` is the first call, if it runs the other in its place.
        """
        call = self._grant_call(question, decision)
        if call.tool is None:
            question.abort_resume(call)
            return _unknown_tool(question)
        if waits:
            call = replace(call, retried=True)  # it repeats only the call that waits

        def deliver(result: ToolResult) -> None:
            self.deliver(question, _with_question(question, decision, result))

        self.tell_running(question.call)
        try:
            result = await question.asking.runner.run(
                call, question.sinks, instead_of=instead_of, on_left=deliver
            )
        finally:
            self._revoke(question, call)
        self.tell_outcome(question.call, result)
        return result if waits else _with_question(question, decision, result)

    def start_soon(self, question: Question, decision: Decision) -> None:
        """Start the call of a closed question after the call that asked has ended."""
        # In an empty context, since it is a separate call.
        asyncio.get_running_loop().call_soon(self._start, question, decision, context=Context())

    def tell_running(self, call: ToolCall) -> None:
        """Notify the `on_outcome` listeners that a call runs again, so its result is outdated."""
        self.tell_outcome(call, build_repeated_result(call.name))

    def tell_outcome(self, call: ToolCall, result: ToolResult) -> None:
        """Notify the `on_outcome` listeners of a result that another call returns."""
        self._outcomes.notify(call, result)
        self._tell_sharing(call, result)

    def tell(self, call: ToolCall, result: ToolResult) -> None:
        """Notify the `on_result` listeners of a new result of a call that was answered before."""
        self.tell_outcome(call, result)
        self._results.notify(call, result)

    def _tell_sharing(self, call: ToolCall, result: ToolResult) -> None:
        """Notify the `on_outcome` listeners of the calls that share the question of another."""
        sharing = self._sharing.get(_key(call))
        if sharing is None:
            return
        for each in tuple(sharing):
            self._outcomes.notify(each, result)
        if result.status is not ResultStatus.PENDING_APPROVAL and result.reason_code != REPEATED:
            self._sharing.pop(_key(call), None)

    def _start(self, question: Question, decision: Decision, why_not: str = "refused") -> None:
        call = self._grant_call(question, decision, why_not)
        if call.tool is None:
            question.abort_resume(call)
            self.deliver(question, _unknown_tool(question))
            return

        def on_end(_: object, result: ToolResult) -> None:
            self._revoke(question, call)
            self.deliver(question, _with_question(question, decision, result))

        self.tell_running(question.call)
        question.asking.runner.start(call, on_end, question.sinks)

    def _resume(self, question: Question, decision: Decision, why_not: str) -> None:
        """Resume the waiting call that asked, or run it as a new call if it has ended."""
        if question.waiter is not None:
            question.waiter.set_result((decision, why_not))
        else:
            self._start(question, decision, why_not)

    def _revoke(self, question: Question, call: ToolCall) -> None:
        self._grants.pop(call.number, None)
        self.remove_approved(call.number)
        question.abort_resume(call)

    def _grant_call(
        self, question: Question, decision: Decision, why_not: str = "refused"
    ) -> ToolCall:
        """Return a new copy of the call, with the permission to run once."""
        edited = None if question.paused is not None else decision.arguments
        digest = question.request.hash
        if edited is not None:
            digest = hash_of(_tool(question), question.fingerprint, edited)
        arguments = question.call.arguments if edited is None else edited
        call = question.asking.runner.renewed(question.call, arguments)
        self._grants[call.number] = Grant(
            digest=digest, request=question.request, by_silence=why_not == _EXPIRED
        )
        if decision.answer is not Answer.DENY:
            self.record_approval(call.number, question)
        question.resume(call, decision, why_not)
        return call

    def _expire(self, question: Question) -> None:
        """Close an expired question; with `on_expiry: proceed`, run a call without an answer."""
        proceeds = question.request.on_expiry == "proceed" and question.is_met_with_silence()
        self._close(question, _EXPIRED)
        decision = Decision.approve() if proceeds else Decision.deny()
        question.announce_closed("proceed" if proceeds else "cancel", by="expiry")
        if question.waiter is not None or proceeds or question.paused is not None:
            self._resume(question, decision, _EXPIRED)
        else:
            self.deliver(question, wording.build_denial(_tool(question), _EXPIRED))

    def _close(self, question: Question, code: str) -> None:
        del self._open[question.request.id]
        self._closed[question.request.id] = (code, question.request.hash)
        if len(self._closed) > _MAX_CLOSED:
            self._closed.popitem(last=False)
        if question.timer is not None:
            question.timer.cancel()
        question.discard_answers()
        self._select_next()
        self._changes.notify()

    def _select_next(self) -> None:
        """Let the next spoken question accept answers that are spoken from now on."""
        if self._current is not None and self._current.request.id in self._open:
            return
        self._current = next((each for each in self._open.values() if each.is_spoken), None)
        if self._current is not None:
            self._current.discard_answers()

    def deliver(self, question: Question, result: ToolResult) -> None:
        """Notify the `on_result` listeners of a result, since no call waits for it."""
        self.tell(question.call, question.asking.runner.reworded(result))


def _key(call: ToolCall) -> str | int:
    """Return a key that a call shares with its copies, such as the approved one."""
    return call.number if call.id is None else call.id


def _tool(question: Question) -> str:
    return question.request.tool


def _unknown_tool(question: Question) -> ToolResult:
    name = _tool(question)
    return ToolResult.not_found(say("tool_gone", tool=name), reason_code="unknown_tool")


def _remember(question: Question, scope: Scope) -> None:
    """Store an "always" in the session, the user's preferences or the settings file.

    It covers only the question of the same rule, about the same tool of the same server, with the
    same definition of the tool. A question about the facts of a call is asked again, since another
    call may have others.
    """
    if question.rule.name in (RISKS.name, PROGRAM_FILES.name):
        return
    policy = question.call.session.get(SessionPolicy)
    tool, asks = question.request.tool, question.rule.name
    name, pattern = f"{tool} {asks}", glob.escape(tool)
    origin = None if question.call.tool is None else question.call.tool.origin
    rule = Rule(
        name=name,
        decide=Decide.ALLOW,
        tools=(pattern,),
        servers=() if origin is None else (glob.escape(origin.server),),
        tier=Tier.USER,
        lifts=asks,
        fingerprint=question.fingerprint,
    )
    if scope == "user" and policy.keep_always is not None:
        policy.keep_always(rule)  # applies at once, and can be revoked in all sessions
        return
    policy.always.append(rule)
    if scope == "file":
        entry = {"tools": pattern, "question": asks, "fingerprint": question.fingerprint}
        _save_always(
            question, name, {**entry, **({"servers": rule.servers[0]} if rule.servers else {})}
        )
    elif scope == "user":
        logger.warning(
            "'always' for %r applies to this session only: there are no user preferences", name
        )


def _save_always(question: Question, name: str, entry: dict[str, Any]) -> None:
    user, save = question.request.user, question.asking.save
    if user is not None:
        entry["users"] = user
    try:
        if save is None:
            raise ConfigurationError("there is no settings file to save it in")  # noqa: TRY301 - logged below
        save({"policies": {"always": {name: entry}}})
    except ConfigurationError as error:  # the call is approved nevertheless
        level = log_level(error)
        logger.log(level, "'always' for %r applies to this session only: %s", name, error)


def _fit_decision(question: Question, decision: Decision) -> Decision:
    """Return the decision in the form that its question needs, with valid arguments."""
    given = decision.arguments or {}
    if question.request.schema is not None:
        if decision.answer is Answer.DENY:
            return decision
        return replace(decision, answer=Answer.FILL, arguments=question.validate(given))
    if decision.answer is Answer.FILL or (decision.answer is Answer.EDIT and question.paused):
        raise ToolValidationError(say("wants_yes_or_no"))
    if question.paused is not None and question.paused.inquiry.subject is None:
        is_no = decision.answer is Answer.DENY
        return decision if is_no else Decision.approve()  # no rule asks: "always" has no meaning
    if decision.answer is not Answer.EDIT:
        return decision
    return replace(decision, arguments=question.validate(_drop_fixed(question, given)))


def _with_question(question: Question, decision: Decision, result: ToolResult) -> ToolResult:
    """Add the tool and the question to a result, since another call returns it.

    A result that asks a further question loses only its exception.
    """
    if result.status is ResultStatus.PENDING_APPROVAL:
        return replace(result, error=None)
    message = result.message
    if decision.answer is Answer.EDIT and decision.arguments is not None:
        call = question.call
        shown = call.redaction.arguments(call.as_run(decision.arguments))
        changed = wording.changes(question.request.details, shown)
        message = join(changed, message) or None
    key = wording.id_key(question.request)
    body: dict[str, Any] = {key: question.request.id, "tool": question.call.name}
    if result.result is not None:
        body["result"] = result.result
    # Without the exception, so that no retry policy runs the confirming tool again.
    return replace(result, result=body, message=message, error=None)


def _drop_fixed(question: Question, edited: Mapping[str, Any]) -> dict[str, Any]:
    """Return edited arguments without the arguments that the settings fix."""
    shown, fixed = question.request.details, question.call.as_run({})
    for name in edited.keys() & fixed.keys():
        if edited[name] != shown.get(name):
            raise ToolValidationError(say("fixed_argument", argument=name))
    return {name: value for name, value in edited.items() if name not in fixed}
