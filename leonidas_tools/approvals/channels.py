"""Putting a question to whoever asks the person, and waiting for the answer."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals.desk import FAILURE
from leonidas_tools.approvals.request import Decision
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.errors import ToolValidationError

if TYPE_CHECKING:
    from leonidas_tools.approvals.desk import Approvals
    from leonidas_tools.approvals.question import Asking, Question
    from leonidas_tools.approvals.request import Channel
    from leonidas_tools.calls import ToolSession

logger = logging.getLogger(__name__)

_GRACE_SECONDS = 1.0
_MOST_ATTEMPTS = 3
"""How often a person may answer with what does not fit a question before that is no answer."""


def channel_of(session: ToolSession, asking: Asking) -> Channel | None:
    """Who asks: the session's own channel goes before that of all.

    Args:
        session: The conversation.
        asking: How questions are put.
    """
    policy = session.find(SessionPolicy)
    return (None if policy is None else policy.channel) or asking.channel


async def ask(desk: Approvals, question: Question, channel: Channel) -> tuple[Decision, str] | None:
    """What the channel or anybody else answers first; `None` where that comes later.

    Args:
        desk: Where the question lies; cancelling this withdraws it.
        question: The question.
        channel: Asks a person.
    """
    assert question.answered is not None
    asking = asyncio.get_running_loop().create_task(_by_channel(desk, question, channel))
    waiting: set[asyncio.Future[Any]] = {asking, question.answered}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        desk.withdraw(question)
        raise
    finally:
        asking.cancel()
        await asyncio.wait({asking}, timeout=_GRACE_SECONDS)
    if question.answered.done():
        return question.answered.result()
    desk.park(question)
    return None


async def _by_channel(desk: Approvals, question: Question, channel: Channel) -> None:
    """Asks through the channel; one that fails has not said yes."""
    try:
        for _ in range(_MOST_ATTEMPTS):
            decision = await channel(question.request)
            if decision is not None and not isinstance(decision, Decision):
                raise TypeError(f"a channel returns a Decision or None, not {decision!r}")  # noqa: TRY301 - a fault like any other
            by = getattr(channel, "name", "channel")
            if decision is None or _is_done(question) or _fits(desk, question, decision, by):
                return
        raise ToolValidationError("no answer fits")  # noqa: TRY301 - a fault like any other
    except Exception as error:  # noqa: BLE001 - whatever a channel raises, it is no yes
        logger.warning("The channel for approvals raised %s", type(error).__name__)
        if not _is_done(question):
            desk.decide(question.request.id, Decision.deny(), by=FAILURE)


def _fits(desk: Approvals, question: Question, decision: Decision, by: str) -> bool:
    """Answers the question, unless what was asked for is to be asked for once more."""
    try:
        desk.decide(question.request.id, decision, by=by)
    except ToolValidationError as error:
        if question.request.schema is None:
            raise
        question.request = replace(question.request, problem=error.message)
        return False
    return True


def _is_done(question: Question) -> bool:
    return question.answered is None or question.answered.done()
