"""Check the spoken answers that the model reports against the transcript."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals import wording
from leonidas_tools.approvals.choices import is_no, is_yes
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.question import Proof
from leonidas_tools.approvals.request import Decision
from leonidas_tools.calls.call import ResultStatus, ToolResult
from leonidas_tools.errors import ToolDeniedError
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.approvals.question import Question
    from leonidas_tools.calls.call import ToolSession

logger = visible_logger(__name__)

MAX_UNCLEAR_ANSWERS = 3
"""Number of unclear answers after which a call is denied."""
_HEAR_SECONDS = 4.0
"""Seconds after the model's call within which a transcription may arrive."""
_QUIET_SECONDS = 1.5
"""Seconds of silence after which an answer without a marked end counts."""
_AFTERTHOUGHT_SECONDS = 0.3
"""Seconds to wait for more words after an answer whose transcription has finished."""


async def confirm(
    session: ToolSession, approval_id: str, *, yes: bool, reason: str | None = None
) -> tuple[Question, ToolResult]:
    """Accept the yes or no that the model reports, if the transcript supports it.

    A yes counts only if, by the transcript, the model has asked this question and the user has said
    only yes since. A no needs no evidence; if it contradicts a clear yes, the question is repeated.

    Returns:
        The question, and the result: the tool's own if the call was approved.

    Raises:
        ToolDeniedError: The question is unknown or already closed.
    """
    desk = session.get(Approvals)
    question = _get_model_question(desk, approval_id)
    if question.request.schema is not None and yes:
        raise ToolDeniedError(say("wants_answers"), reason_code="wants_answers")
    if question.voice is None and yes:
        return question, question.pending_result()
    refusal = None if question.is_word_enough else await _unproven_yes(desk, question, yes=yes)
    if refusal is not None and refusal.reason_code != "contradicted":
        return question, refusal
    if refusal is not None or not yes:
        decision = desk.settle(question, Decision.deny(reason), by="voice")
        if question.paused is not None:
            return question, await desk.run(question, decision)
        denied = refusal or wording.build_denial(question.request.tool, "refused", reason)
        desk.tell_outcome(question.call, denied)
        return question, denied
    decision = desk.settle(question, Decision.approve(), by="voice")
    return question, await desk.run(question, decision)


def _get_model_question(desk: Approvals, question_id: str) -> Question:
    """Return an open question; raise if a channel asks it, as the model does not know of it."""
    question = desk.question(question_id)
    if question.waiter is not None:
        raise ToolDeniedError(say("question_elsewhere"), reason_code="asked_elsewhere")
    return question


async def _unproven_yes(desk: Approvals, question: Question, *, yes: bool) -> ToolResult | None:
    """Return the refusal of the reported answer; `None` if the answer counts."""
    if not yes:
        said_yes = question.proof(question.exchange()) is Proof.YES
        return await _ask_again(desk, question, "doubtful") if said_yes else None
    if desk.is_behind_another(question):
        return question.pending_result("waits")
    proof = await _wait_for_proof(question)
    desk.question(question.request.id)  # raises if another answer has arrived meanwhile
    if proof is Proof.NO:
        return wording.build_denial(question.request.tool, "contradicted")
    return None if proof is Proof.YES else await _unproven(desk, question, proof)


async def _unproven(desk: Approvals, question: Question, proof: Proof) -> ToolResult:
    """Return the result that explains to the model why the transcript shows no yes."""
    if proof is Proof.UNFINISHED:
        return wording.still_open(question.request, "not_transcribed_yet", "not_answered")
    if proof is Proof.DOUBTFUL:
        return await _ask_again(desk, question, "doubtful")
    exchange = question.exchange()
    if not question.transcript.user_is_heard:
        return _deny_without_transcript("user_not_transcribed")
    if not exchange.model_spoke:
        return question.pending_result("not_answered")
    if not exchange.model_words:
        return _deny_without_transcript("model_not_transcribed")
    return question.pending_result(proof.value)


async def _ask_again(desk: Approvals, question: Question, why: str) -> ToolResult:
    """Return the result that makes the model ask again; deny the call after the last attempt."""
    question.unclear_answers += 1
    if question.unclear_answers < MAX_UNCLEAR_ANSWERS:
        question.discard_answers()
        return question.pending_result(why)
    decision = desk.settle(question, Decision.deny(), by="voice")
    if question.paused is not None:
        return await desk.run(question, decision)
    denied = wording.build_denial(question.request.tool, "not_understood")
    desk.tell_outcome(question.call, denied)
    return denied


def _deny_without_transcript(key: str) -> ToolResult:
    logger.warning(
        "A question cannot be answered by voice, because speech is not transcribed: set "
        "input_audio_transcription and output_audio_transcription in the configuration of the "
        "session, or give the tools a channel with `approval`"
    )
    return ToolResult(status=ResultStatus.DENIED, message=say(key), reason_code="no_transcript")


async def _wait_for_proof(question: Question, *, hears_out: bool = False) -> Proof:
    """Wait for the transcript, and return the proof that it contains.

    Transcriptions may arrive in pieces, and later than the model's call. An answer counts when its
    transcription has finished. Some models never mark the end: then an answer counts if the model's
    call came after it (so the server has ended the user's turn) and silence follows. Pieces that
    arrive after the call and have no end do not count. With `hears_out`, wait for the end of a no.
    """
    loop, transcript = asyncio.get_running_loop(), question.transcript
    called = transcript.mark()
    ends = loop.time() + _HEAR_SECONDS
    while True:
        exchange = question.exchange()
        proof = question.proof(exchange)
        if proof is Proof.NOT_ASKED or (proof is Proof.NO and not hears_out):
            return proof
        answers = exchange.answers
        is_over = bool(answers) and all(each.over or each.broken for each in answers)
        may_end = not transcript.tells_end and all(each.last < called for each in answers)
        left = ends - loop.time()
        if is_over:
            left = min(left, _AFTERTHOUGHT_SECONDS)
        elif answers and may_end:
            left = min(left, _QUIET_SECONDS)
        if left > 0 and await transcript.wait_for_change(left):
            continue
        if left <= 0 or question.proof(question.exchange()) is not proof:
            return Proof.UNFINISHED if answers else proof
        return proof if is_over or may_end else Proof.UNFINISHED


def _values(decision: Decision) -> list[Any]:
    values = (decision.arguments or {}).values()
    return [one for value in values for one in (value if isinstance(value, list) else [value])]


def _refuses(decision: Decision) -> bool:
    """Return whether every value means no, so that a no is the answer."""
    values = [each for each in _values(decision) if each is not None and each != ""]
    return bool(values) and all(map(is_no, values))


async def answer(
    session: ToolSession, question_id: str, answers: Mapping[str, Any] | None
) -> tuple[Question, ToolResult]:
    """Accept the values that the model reports, if the transcript shows that the user answered.

    `None` declines, which needs no evidence.

    Returns:
        The question, and the result of the call that resumes with the answer.

    Raises:
        ToolDeniedError: The question is unknown or already closed.
        ToolValidationError: The answers are invalid; the question stays open.
    """
    desk = session.get(Approvals)
    question = _get_model_question(desk, question_id)
    if question.request.schema is None:
        raise ToolDeniedError(say("wants_confirmation"), reason_code="wants_confirmation")
    decision = Decision.deny() if answers is None else Decision.fill(question.validate(answers))
    if answers is not None and not question.is_word_enough:
        if desk.is_behind_another(question):
            return question, question.pending_result("waits")
        refusal = await _unproven_values(desk, question, decision)
        if refusal is not None:
            return question, refusal
    decision = desk.settle(question, decision, by="voice")
    return question, await desk.run(question, decision)


async def _unproven_values(
    desk: Approvals, question: Question, decision: Decision
) -> ToolResult | None:
    """Return the refusal of values without evidence in the transcript; `None` if they count."""
    given = decision.arguments or {}
    refuses = _refuses(decision)
    proof = await _wait_for_proof(question, hears_out=refuses)
    desk.question(question.request.id)  # raises if another answer has arrived meanwhile
    if proof is Proof.NO and refuses:
        proof = Proof.YES
    elif proof is Proof.YES:
        is_agreed = question.is_agreed() or not any(map(is_yes, _values(decision)))
        if not is_agreed or question.is_contradicted(given):
            proof = Proof.DOUBTFUL
    if proof is not Proof.YES:
        return await _unproven(desk, question, proof)
    if not question.is_chosen(given):
        return await _ask_again(desk, question, "not_chosen")
    if not question.are_numbers_said(given):
        return await _ask_again(desk, question, "not_said")
    return None
