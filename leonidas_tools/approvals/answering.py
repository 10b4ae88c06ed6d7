"""The user's spoken answer to a question that wants to know something, as the model tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals.confirmation import heard, unheard
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Decision
from leonidas_tools.errors import ToolDeniedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.approvals.question import Question
    from leonidas_tools.calls import ToolResult, ToolSession


async def answer(
    session: ToolSession, question_id: str, answers: Mapping[str, Any] | None
) -> tuple[Question, ToolResult]:
    """Takes what the model says the user has answered, if the user was heard to say anything.

    Args:
        session: The conversation.
        question_id: The question.
        answers: The answers by name; `None` where the user does not want to answer, which needs no
            evidence.

    Returns:
        The question, and the result: that of the call that goes on with the answer.

    Raises:
        ToolDeniedError: There is no such question, or not any more.
        ToolValidationError: The answers are not what was asked for; the question stays open.
    """
    desk = session.get(Approvals)
    question = desk.question(question_id)
    if question.answered is not None:  # a call waits, and no model was told of the question
        raise ToolDeniedError("That question is not for you.", reason_code="asked_elsewhere")
    if question.request.schema is None:
        raise ToolDeniedError(
            "That question asks for a yes or a no: call confirm_action instead.",
            reason_code="wants_confirmation",
        )
    decision = Decision.deny() if answers is None else Decision.fill(question.validate(answers))
    if answers is not None and not question.trusts_model:
        if await heard(question) is None:
            return question, unheard(question)
        desk.question(question_id)  # somebody else may have answered meanwhile
        question.transcript.use()
    decision = desk.allow(question, decision, by="voice")
    return question, await desk.run(question, decision)
