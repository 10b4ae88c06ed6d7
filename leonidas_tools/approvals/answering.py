"""Accept the values that a user has spoken, as the model reports them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals.confirmation import again, proven, unproven
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.lexicon import Said, judge
from leonidas_tools.approvals.question import Proof
from leonidas_tools.approvals.request import Decision
from leonidas_tools.errors import ToolDeniedError
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.approvals.question import Question
    from leonidas_tools.calls.call import ToolResult, ToolSession


def _values(decision: Decision) -> list[Any]:
    values = (decision.arguments or {}).values()
    return [one for value in values for one in (value if isinstance(value, list) else [value])]


def _agrees(decision: Decision) -> bool:
    """Whether one of the values is a yes, which the user must have said explicitly."""
    values = _values(decision)
    return any(one is True or (isinstance(one, str) and judge(one) is Said.YES) for one in values)


def _refuses(decision: Decision) -> bool:
    """Whether each value is a no, so that a no is the answer."""
    values = [each for each in _values(decision) if each is not None and each != ""]
    return bool(values) and all(
        one is False or (isinstance(one, str) and judge(one) is Said.NO) for one in values
    )


async def answer(
    session: ToolSession, question_id: str, answers: Mapping[str, Any] | None
) -> tuple[Question, ToolResult]:
    """Accept the values that the model reports, if the user was heard to answer.

    `None` declines, which needs no evidence.

    Returns:
        The question, and the result of the call that resumes with the answer.

    Raises:
        ToolDeniedError: The question is unknown or already closed.
        ToolValidationError: The answers are invalid; the question stays open.
    """
    desk = session.get(Approvals)
    question = desk.question(question_id)
    if question.waiter is not None:  # a channel asks a person: the model does not know of it
        raise ToolDeniedError(say("question_elsewhere"), reason_code="asked_elsewhere")
    if question.request.schema is None:
        raise ToolDeniedError(
            say("wants_confirmation"),
            reason_code="wants_confirmation",
        )
    decision = Decision.deny() if answers is None else Decision.fill(question.validate(answers))
    if answers is not None and not question.trusts_model:
        if desk.is_behind_another(question):
            return question, question.pending_result("waits")
        refusal = await _unproven(question, decision)
        desk.question(question_id)  # raises if another answer has arrived meanwhile
        if refusal is not None:
            return question, refusal
    decision = desk.settle(question, decision, by="voice")
    return question, await desk.run(question, decision)


async def _unproven(question: Question, decision: Decision) -> ToolResult | None:
    """Return the refusal of values that the user was not heard to give; `None` if they count."""
    refuses = _refuses(decision)
    proof = await proven(question, hears_out=refuses)
    if proof is Proof.NO and refuses:
        proof = Proof.YES
    elif proof is Proof.YES and _agrees(decision) and not question.is_agreed():
        proof = Proof.DOUBTFUL
    if proof is not Proof.YES:
        return unproven(question, proof)
    return None if question.is_chosen(decision.arguments or {}) else again(question, "not_chosen")
