"""How the model tells what the user has answered to a question."""

from __future__ import annotations

from typing import Any, Literal

from leonidas_tools.approvals.answering import answer
from leonidas_tools.approvals.confirmation import confirm
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.calls import ToolResult
from leonidas_tools.context import ToolContext
from leonidas_tools.invocation import current
from leonidas_tools.rules.rule import ANSWER, CONFIRM
from leonidas_tools.tool import tool


# What it lets run has limits of its own; and what has begun is not to be lost with this answer.
@tool(
    name=CONFIRM,
    category="action",
    effect="once",
    on_cancel="finish",
    retry_attempts=0,
    tags=["approval"],
)
async def confirm_action(
    approval_id: str, decision: Literal["yes", "no"], ctx: ToolContext, reason: str = ""
) -> ToolResult:
    """Tells what the user has answered to the question of a call that is `pending_approval`.

    Call it only after the user has answered, never before and never by yourself. Its answer is the
    result of the call that was asked about.

    Args:
        approval_id: The `approval_id` of that call's answer.
        decision: What the user has said.
        reason: Why not, if the user has said so.
    """
    question, result = await confirm(
        ctx.session, approval_id, yes=decision == "yes", reason=reason or None
    )
    if not current().wanted:  # the model took this call back: it is to hear of it all the same
        ctx.session.get(Approvals).tell_late(question, result)
    return result


@tool(
    name=ANSWER,
    category="action",
    effect="once",
    on_cancel="finish",
    retry_attempts=0,
    tags=["approval"],
)
async def answer_question(
    question_id: str,
    ctx: ToolContext,
    answers: dict[str, Any] | None = None,
    declined: bool = False,
) -> ToolResult:
    """Tells what the user has answered to a call that asks something with a `question_id`.

    Call it only after the user has answered, never before and never by yourself. Its answer is the
    result of the call that has asked.

    Args:
        question_id: The `question_id` of that call's answer.
        answers: What the user has said, by the names in `answers` of that call's answer.
        declined: Whether the user does not want to answer.
    """
    given = None if declined else answers or {}
    question, result = await answer(ctx.session, question_id, given)
    if not current().wanted:
        ctx.session.get(Approvals).tell_late(question, result)
    return result
