"""Ask a question through a channel, and wait for the answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals.desk import FAILURE
from leonidas_tools.approvals.request import Decision
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.errors import ToolValidationError
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from leonidas_tools.approvals.desk import Approvals
    from leonidas_tools.approvals.question import Asking, Question
    from leonidas_tools.approvals.request import Channel
    from leonidas_tools.calls.call import ToolSession

logger = visible_logger(__name__)

_GRACE_SECONDS = 1.0
_MAX_ATTEMPTS = 3
"""Number of invalid answers after which the question counts as denied."""


def channel_of(session: ToolSession, asking: Asking) -> Channel | None:
    """Return the session's own channel, else the channel of all sessions."""
    policy = session.find(SessionPolicy)
    return (None if policy is None else policy.channel) or asking.channel


async def ask(desk: Approvals, question: Question, channel: Channel) -> tuple[Decision, str] | None:
    """Return the first answer by the channel or `Approvals.decide`; `None` if it comes later.

    Cancellation withdraws the question.
    """
    assert question.waiter is not None
    asking = asyncio.get_running_loop().create_task(_by_channel(desk, question, channel))
    waiting: set[asyncio.Future[Any]] = {asking, question.waiter}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        desk.withdraw(question)
        raise
    finally:
        asking.cancel()
        await asyncio.wait({asking}, timeout=_GRACE_SECONDS)
    if question.waiter.done():
        return question.waiter.result()
    desk.stop_waiting(question)
    return None


async def _by_channel(desk: Approvals, question: Question, channel: Channel) -> None:
    """Ask through the channel, and deny the question if the channel fails."""
    try:
        for _ in range(_MAX_ATTEMPTS):
            decision = await channel(question.request)
            if decision is not None and not isinstance(decision, Decision):
                raise TypeError(f"a channel returns a Decision or None, not {decision!r}")  # noqa: TRY301 - handled as any failure
            by = getattr(channel, "name", "channel")
            if decision is None or _is_done(question) or _fits(desk, question, decision, by):
                return
        raise ToolValidationError("no answer fits")  # noqa: TRY301 - handled as any failure
    except EOFError as ended:  # no one can answer: that is not the user's no
        if not _is_done(question):
            desk.decide(question.request.id, Decision.deny(*ended.args[:1]), by=FAILURE)
    except Exception as error:  # noqa: BLE001 - a channel that raises has not approved
        logger.warning("The channel for approvals raised %s", type(error).__name__)
        if not _is_done(question):
            desk.decide(question.request.id, Decision.deny(), by=FAILURE)


def _fits(desk: Approvals, question: Question, decision: Decision, by: str) -> bool:
    """Close the question; return `False` if the values are invalid and must be asked for again."""
    try:
        desk.decide(question.request.id, decision, by=by)
    except ToolValidationError as error:
        if question.request.schema is None:
            raise
        question.request = replace(question.request, problem=error.message)
        return False
    return True


def _is_done(question: Question) -> bool:
    return question.waiter is None or question.waiter.done()
