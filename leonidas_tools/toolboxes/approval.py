"""Tools with which the model reports the user's answer to a question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.evidence import answer, confirm
from leonidas_tools.approvals.question import Question
from leonidas_tools.calls.call import ToolResult
from leonidas_tools.calls.context import ToolContext
from leonidas_tools.calls.invocation import current
from leonidas_tools.rules.rule import ANSWER, CONFIRM
from leonidas_tools.tools.tool import Tool


def _answering(name: str) -> Callable[[Callable[..., Any]], Tool[..., Any]]:
    """Return a decorator for a tool that reports an answer; an approved call keeps its limits."""

    def build(function: Callable[..., Any]) -> Tool[..., Any]:
        return Tool(
            function,
            name=name,
            category="action",
            effect="once",
            on_cancel="finish",  # the approved call continues even if this one is cancelled
            retry_attempts=0,
            tags=["approval"],
            answers_questions=True,
        )

    return build


@_answering(CONFIRM)
async def confirm_action(
    approval_id: str, decision: Literal["yes", "no"], ctx: ToolContext, reason: str = ""
) -> ToolResult:
    """Report the user's answer to the question of a call that is `pending_approval`.

    Call it only after the user has answered, never before and never by yourself. Its answer is the
    result of the call that was asked about.

    Args:
        approval_id: The `approval_id` of that call's answer.
        decision: What the user has said.
        reason: The user's reason for a no, if given.
    """
    question, result = await confirm(
        ctx.session, approval_id, yes=decision == "yes", reason=reason or None
    )
    _deliver_if_cancelled(ctx, question, result)
    return result


@_answering(ANSWER)
async def answer_question(
    question_id: str,
    ctx: ToolContext,
    answers: dict[str, Any] | None = None,
    declined: bool = False,
) -> ToolResult:
    """Report the user's answer to a call that asks something with a `question_id`.

    Call it only after the user has answered, never before and never by yourself. Its answer is the
    result of the call that has asked.

    Args:
        question_id: The `question_id` of that call's answer.
        answers: What the user has said, by the names in `answers` of that call's answer.
        declined: Whether the user does not want to answer.
    """
    given = None if declined else answers or {}
    question, result = await answer(ctx.session, question_id, given)
    _deliver_if_cancelled(ctx, question, result)
    return result


def _deliver_if_cancelled(ctx: ToolContext, question: Question, result: ToolResult) -> None:
    """Deliver the result of the approved call even if the call that has asked is cancelled.

    It may be cancelled before or after its end: the model then still needs the result.
    """
    desk = ctx.session.get(Approvals)

    async def deliver() -> None:
        desk.deliver(question, result)

    current().undo = deliver
