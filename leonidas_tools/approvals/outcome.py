"""Fit an answer to its question, and the result of the call to the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals import wording
from leonidas_tools.approvals.request import Answer, Decision
from leonidas_tools.calls.call import ResultStatus, ToolResult
from leonidas_tools.errors import ToolValidationError
from leonidas_tools.results.texts import join, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.approvals.question import Question


def fit_decision(question: Question, decision: Decision) -> Decision:
    """Return the decision in the form that its question needs, with valid arguments.

    Raises:
        ToolValidationError: The decision does not answer this question.
    """
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
    return replace(decision, arguments=question.validate(_without_fixed(question, given)))


def with_question(question: Question, decision: Decision, result: ToolResult) -> ToolResult:
    """Add the tool and the question to a result, since it is the answer to another call.

    A result that asks a further question stays as it is.
    """
    if result.status is ResultStatus.PENDING_APPROVAL:
        return replace(result, error=None)
    message = result.message
    if decision.answer is Answer.EDIT and decision.arguments is not None:
        call = question.call
        shown = call.redaction.arguments(call.as_run(decision.arguments))
        changed = wording.changes(question.request.details, shown)
        message = join(changed, message) or None
    key = "approval_id" if question.request.schema is None else "question_id"
    body: dict[str, Any] = {key: question.request.id, "tool": question.call.name}
    if result.result is not None:
        body["result"] = result.result
    # Without the exception, so that no retry policy runs the confirming tool again.
    return replace(result, result=body, message=message, error=None)


def _without_fixed(question: Question, edited: Mapping[str, Any]) -> dict[str, Any]:
    """Return edited arguments without those that the settings fix.

    Raises:
        ToolValidationError: One of those was edited.
    """
    shown, fixed = question.request.details, question.call.as_run({})
    for name in edited.keys() & fixed.keys():
        if edited[name] != shown.get(name):
            raise ToolValidationError(say("fixed_argument", argument=name))
    return {name: value for name, value in edited.items() if name not in fixed}
