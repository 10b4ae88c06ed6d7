"""What an answer means for the call that was asked about, and what is told of the call."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals import wording
from leonidas_tools.approvals.request import Answer, Decision
from leonidas_tools.calls import ResultStatus, ToolResult
from leonidas_tools.errors import ToolValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.approvals.question import Question


def valid(question: Question, decision: Decision) -> Decision:
    """A decision that fits its question.

    Args:
        question: What was asked.
        decision: What was answered.

    Raises:
        ToolValidationError: It does not fit.
    """
    given = decision.arguments or {}
    if question.request.schema is not None:
        if decision.answer is Answer.DENY:
            return decision
        return replace(decision, answer=Answer.FILL, arguments=question.validate(given))
    if decision.answer is Answer.FILL or (decision.answer is Answer.EDIT and question.paused):
        raise ToolValidationError("This question is answered with yes or no.")
    if question.paused is not None and question.paused.inquiry.subject is None:
        is_no = decision.answer is Answer.DENY
        return decision if is_no else Decision.approve()  # "always" means nothing here
    if decision.answer is not Answer.EDIT:
        return decision
    return replace(decision, arguments=question.validate(_unmasked(question, given)))


def told(question: Question, decision: Decision, result: ToolResult) -> ToolResult:
    """A result with the name of its tool and its question, since it answers another call.

    Args:
        question: What was asked.
        decision: What was answered.
        result: How the call ended; one that asks once more stays as it is.
    """
    if result.status is ResultStatus.PENDING_APPROVAL:
        return replace(result, error=None)
    message = result.message
    if decision.answer is Answer.EDIT and decision.arguments is not None:
        shown = question.call.redaction.arguments(decision.arguments)
        changed = wording.changes(question.request.details, shown)
        message = " ".join(filter(None, (changed, message))) or None
    key = "approval_id" if question.request.schema is None else "question_id"
    body: dict[str, Any] = {key: question.request.id, "tool": question.call.name}
    if result.result is not None:
        body["result"] = result.result
    # Without the exception: nothing that retries is to run the answer once more.
    return replace(result, result=body, message=message, error=None)


def _unmasked(question: Question, edited: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a person, to whom secrets were not shown."""
    shown, asked = question.request.details, question.call.arguments
    as_it_was = {k for k, v in edited.items() if k in asked and k in shown and shown[k] == v}
    return {k: asked[k] if k in as_it_was else v for k, v in edited.items()}
