"""The user's spoken answer, as the model tells it, held against what the user was heard to say."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from leonidas_tools.approvals import wording
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.lexicon import Said
from leonidas_tools.approvals.request import Decision
from leonidas_tools.calls import ResultStatus, ToolResult
from leonidas_tools.errors import ToolDeniedError

if TYPE_CHECKING:
    from leonidas_tools.approvals.question import Question
    from leonidas_tools.calls import ToolSession

_HEAR_SECONDS = 2.0
_PATIENCE_SECONDS = {Said.YES: 0.3, Said.NO: 0.3, Said.DOUBTFUL: 0.6}
"""How long more may follow what was heard: "yes" may become "yes, but not now"."""


async def confirm(
    session: ToolSession, approval_id: str, *, yes: bool, reason: str | None = None
) -> tuple[Question, ToolResult]:
    """Takes the model's word for what the user has answered, as far as the user was heard.

    A no needs no evidence. A yes counts only if the user has spoken since the question was put,
    and was heard to say yes.

    Args:
        session: The conversation.
        approval_id: The question.
        yes: What the model says the user has said.
        reason: Why not.

    Returns:
        The question, and the result: that of the tool where it was allowed to run.

    Raises:
        ToolDeniedError: There is no such question, or not any more.
    """
    desk = session.get(Approvals)
    question = desk.question(approval_id)
    if question.answered is not None:  # a call waits, and no model was told of the question
        raise ToolDeniedError("That question is not for you.", reason_code="asked_elsewhere")
    if question.request.schema is not None and yes:
        raise ToolDeniedError(
            "That question asks for more than a yes: call answer_question instead.",
            reason_code="wants_answers",
        )
    refusal = None if question.trusts_model else await _unproven(question, yes=yes)
    desk.question(approval_id)  # somebody else may have answered meanwhile
    if refusal is not None and refusal.reason_code != "contradicted":
        return question, refusal
    if refusal is not None or not yes:
        decision = desk.allow(question, Decision.deny(reason), by="voice")
        if question.paused is not None:
            return question, await desk.run(question, decision)
        return question, refusal or wording.denied(question.request.tool, "refused", reason)
    question.transcript.use()
    decision = desk.allow(question, Decision.approve(), by="voice")
    return question, await desk.run(question, decision)


async def _unproven(question: Question, *, yes: bool) -> ToolResult | None:
    """What to answer where the model's word does not count; `None` where it does."""
    said = await heard(question) if yes else question.said()
    if said is Said.DOUBTFUL and yes:
        return _again(question)
    if said is None and yes:
        return unheard(question)
    if said is Said.NO and yes:
        return wording.denied(question.request.tool, "contradicted")
    return _again(question) if said is Said.YES and not yes else None


def _again(question: Question) -> ToolResult:
    question.ask_again()
    return wording.pending(question.request, by_voice=True, again="doubtful")


def unheard(question: Question) -> ToolResult:
    """What to answer where the user was not heard to answer."""
    if question.transcript.user_is_heard:
        return wording.pending(question.request, by_voice=True, again="not_answered")
    return ToolResult(
        status=ResultStatus.DENIED,
        message=(
            "Nothing was done: what the user says is not transcribed in this session, so that "
            "nothing can be confirmed by voice. Tell the user so."
        ),
        reason_code="no_transcript",
    )


async def heard(question: Question) -> Said | None:
    """What the user has said; a transcript may come later than the model's call, and in pieces."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + _HEAR_SECONDS
    while True:
        said = question.said()
        if said is None and not question.transcript.is_put(question.place):
            return None
        left = ends - loop.time()
        patience = left if said is None else min(_PATIENCE_SECONDS[said], left)
        if patience <= 0 or not await question.transcript.news(patience):
            return question.said()
