"""Where the questions of a session lie until a person has answered them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.approvals import wording
from leonidas_tools.approvals.always import remember
from leonidas_tools.approvals.lexicon import Said
from leonidas_tools.approvals.outcome import told, valid
from leonidas_tools.approvals.request import Answer, Decision, hash_of
from leonidas_tools.calls import ToolCall, ToolResult
from leonidas_tools.errors import ToolDeniedError
from leonidas_tools.redaction import described

if TYPE_CHECKING:
    from leonidas_tools.approvals.question import Question
    from leonidas_tools.approvals.request import ApprovalRequest

logger = logging.getLogger(__name__)

FAILURE = "failure"
"""Who answers no where the person could not be asked."""

_REMEMBERED = 256
_CLOSED = {
    "approval_used": "That was answered already, and counts once: do not confirm it again.",
    "approval_expired": "That question is closed: nobody has answered in time. Nothing was done.",
    "withdrawn": "That question was withdrawn. Nothing was done.",
}

OnResult: TypeAlias = Callable[[ToolCall, ToolResult], None]


class Approvals:
    """The open questions of a session, and what was answered.

    It lives in the `ToolSession`, so that a question outlives interruptions and connections.

    Example:
        >>> from leonidas_tools.calls import ToolSession
        >>> ToolSession().get(Approvals).pending()
        []
    """

    def __init__(self) -> None:
        self._open: dict[str, Question] = {}
        self._closed: OrderedDict[str, str] = OrderedDict()
        self._grants: dict[int, str] = {}
        self._listeners: list[Callable[[], None]] = []
        self._result_listeners: list[OnResult] = []

    def pending(self) -> list[ApprovalRequest]:
        """The open questions, the oldest first."""
        return [question.request for question in self._open.values()]

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls back when a question was opened or closed; returns a function that ends that."""
        return _subscribed(self._listeners, listener)

    def on_result(self, listener: OnResult) -> Callable[[], None]:
        """Calls back with what has become of a call that was answered `pending_approval`.

        Args:
            listener: Given the call and its result, unless the result answers `confirm_action`.

        Returns:
            A function that ends it.
        """
        return _subscribed(self._result_listeners, listener)

    def decide(self, approval_id: str, decision: Decision, *, by: str = "person") -> None:
        """Answers a question. What was allowed runs at once.

        Args:
            approval_id: The question.
            decision: The answer; other arguments are validated here.
            by: Who answers, for the record.

        Raises:
            ToolDeniedError: There is no such question, or not any more.
            ToolValidationError: The other arguments do not fit the tool; the question stays open.
        """
        question = self.question(approval_id)
        decision = self._settle(question, decision, by=by)
        if question.answered is not None:
            why_not = "approval_failed" if by == FAILURE else "refused"
            question.answered.set_result((decision, why_not))
        elif decision.answer is Answer.DENY and question.paused is None:
            self._deliver(question, wording.denied(_tool(question), "refused", decision.reason))
        else:
            self._start(question, decision)

    # What the policy and the confirming tool need.

    def question(self, approval_id: str) -> Question:
        """An open question.

        Raises:
            ToolDeniedError: There is none of that id, or not any more.
        """
        question = self._open.get(approval_id)
        if question is not None:
            return question
        code = self._closed.get(approval_id, "unknown_approval")
        unknown = f"There is no question {approval_id!r}. Nothing was done."
        message = _CLOSED.get(code, unknown)
        raise ToolDeniedError(message, reason_code=code, valid_options=list(self._open) or None)

    def with_hash(self, digest: str) -> Question | None:
        """The open question about just this call, if there is one."""
        return next((q for q in self._open.values() if q.request.hash == digest), None)

    def open(self, question: Question) -> None:
        """Puts a question on the desk; it leaves when it is answered, or its time is up."""
        request = question.request
        self._open[request.id] = question
        seconds = max(request.deadline - time.time(), 0.0)
        # In an empty context: that of the call would keep its whole stream alive until then.
        question.timer = asyncio.get_running_loop().call_later(
            seconds, self._expire, question, context=Context()
        )
        question.asked()
        self._changed()

    def redeem(self, number: int, digest: str) -> bool:
        """Whether a person has allowed this very call, which uses up the permission.

        Args:
            number: The call's number in its session.
            digest: What is about to run.
        """
        return self._grants.pop(number, None) == digest

    def park(self, question: Question) -> None:
        """Nobody waits for the answer any more; the question stays open."""
        question.answered = None

    def withdraw(self, question: Question) -> None:
        """Closes a question that nobody is to answer any more, and ends what waits for it."""
        if self._open.get(question.request.id) is question:
            self._close(question, "withdrawn")
            if question.answered is not None and not question.answered.done():
                question.answered.set_result((Decision.deny(), "withdrawn"))
            if question.paused is not None:
                question.paused.abort()
            question.closed("withdrawn", by="session")

    def let_go(self, question: Question) -> None:
        """Closes a question that who has asked it takes back; the call goes on without."""
        if self._open.get(question.request.id) is question:
            self._close(question, "withdrawn")
            question.closed("withdrawn", by="tool")
            self._end(question, Decision.deny(), "withdrawn")

    def withdraw_all(self) -> None:
        """Closes all questions: the session has ended, and no one is there to answer."""
        for question in tuple(self._open.values()):
            self.withdraw(question)

    def refuse(self, question: Question, *, by: str, reason: str | None = None) -> None:
        """Notes a no."""
        self._settle(question, Decision.deny(reason), by=by)

    def allow(self, question: Question, decision: Decision, *, by: str) -> Decision:
        """Notes a yes, which is good for one run by `run`."""
        return self._settle(question, decision, by=by)

    async def run(self, question: Question, decision: Decision) -> ToolResult:
        """Runs what was allowed, and waits for it."""
        call = self._granted(question, decision)
        if call.tool is None:
            question.leave(call)
            return _gone(question)
        try:
            result = await question.asking.runs.run(call, question.sinks)
        finally:
            self._leave(question, call)
        return told(question, decision, result)

    def tell_late(self, question: Question, result: ToolResult) -> None:
        """Hands a result to whoever brings it to the model, since no call waits for it."""
        self._deliver(question, result)

    def _start(self, question: Question, decision: Decision, why_not: str = "refused") -> None:
        call = self._granted(question, decision, why_not)
        if call.tool is None:
            question.leave(call)
            self._deliver(question, _gone(question))
            return

        def on_end(_: object, result: ToolResult) -> None:
            self._leave(question, call)
            self._deliver(question, told(question, decision, result))

        question.asking.runs.start(call, on_end, question.sinks)

    def _end(self, question: Question, decision: Decision, why_not: str) -> None:
        """Ends the wait of the call that has asked, wherever it waits."""
        if question.answered is not None:
            question.answered.set_result((decision, why_not))
        else:
            self._start(question, decision, why_not)

    def _leave(self, question: Question, call: ToolCall) -> None:
        self._grants.pop(call.number, None)
        question.leave(call)

    def _granted(
        self, question: Question, decision: Decision, why_not: str = "refused"
    ) -> ToolCall:
        """The call once more, with the permission to run."""
        if question.paused is not None:
            call = question.asking.runs.renewed(question.call, question.call.arguments)
            self._grants[call.number] = question.request.hash
            question.go_on(call, decision, why_not)
            return call
        edited = decision.arguments
        digest = question.request.hash
        if edited is not None:
            digest = hash_of(_tool(question), question.fingerprint, edited)
        arguments = question.call.arguments if edited is None else edited
        call = question.asking.runs.renewed(question.call, arguments)
        self._grants[call.number] = digest
        return call

    def _settle(self, question: Question, decision: Decision, *, by: str) -> Decision:
        decision = valid(question, decision)
        self._close(question, "approval_used")
        if decision.answer is Answer.ALWAYS:
            remember(question, decision.scope)
        question.closed(decision.answer.value, by=by, decision=decision)
        return decision

    def _expire(self, question: Question) -> None:
        """The time is up; words of the user that say no are heard even so."""
        self._close(question, "approval_expired")
        proceeds = question.request.on_expiry == "proceed" and question.said() is not Said.NO
        decision = Decision.approve() if proceeds else Decision.deny()
        told = "proceed" if proceeds else "cancel"
        question.closed(told, by="expiry")
        if question.answered is not None or proceeds or question.paused is not None:
            self._end(question, decision, "approval_expired")
        else:
            self._deliver(question, wording.denied(_tool(question), "approval_expired"))

    def _close(self, question: Question, code: str) -> None:
        del self._open[question.request.id]
        self._closed[question.request.id] = code
        if len(self._closed) > _REMEMBERED:
            self._closed.popitem(last=False)
        if question.timer is not None:
            question.timer.cancel()
        self._changed()

    def _deliver(self, question: Question, result: ToolResult) -> None:
        for listener in tuple(self._result_listeners):
            listener(question.call, result)

    def _changed(self) -> None:
        for listener in tuple(self._listeners):
            try:
                listener()
            except Exception as error:  # noqa: BLE001 - its fault must not decide a question
                logger.warning("A listener for approvals failed: %s", described(error))


def _tool(question: Question) -> str:
    return question.request.tool


def _gone(question: Question) -> ToolResult:
    name = _tool(question)
    return ToolResult.not_found(f"There is no tool {name!r} any more.", reason_code="unknown_tool")


def _subscribed(listeners: list[Any], listener: Any) -> Callable[[], None]:
    listeners.append(listener)

    def unsubscribe() -> None:
        with suppress(ValueError):
            listeners.remove(listener)

    return unsubscribe
