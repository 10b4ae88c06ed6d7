"""Questions whether a call may run, and their answers."""

from __future__ import annotations

import json
import secrets
import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, or_, select, update

from leonidas_tools.errors import StoreError
from leonidas_tools.store.rows import Approval, Decision, User
from leonidas_tools.store.tables import approvals

if TYPE_CHECKING:
    from sqlalchemy import Row
    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.calls import ToolCall
    from leonidas_tools.store.database import Database
    from leonidas_tools.store.recorder import Recorder


class ApprovalTable:
    """Keeps each question until it is answered, and each answer.

    Args:
        database: Where they are.
        recorder: Takes secrets out of arguments.
    """

    def __init__(self, database: Database, recorder: Recorder) -> None:
        self._database = database
        self._recorder = recorder

    async def ask(
        self,
        call: ToolCall,
        *,
        message: str | None = None,
        fingerprint: str | None = None,
        expires_in_seconds: float | None = None,
    ) -> Approval:
        """Keeps the question whether a call may run.

        Args:
            call: The call.
            message: What the person reads.
            fingerprint: What binds the answer to the call's arguments.
            expires_in_seconds: When the question lapses.

        Raises:
            StoreError: It cannot be written.
        """
        now = time.time()
        row = {
            "id": secrets.token_hex(8),
            "session": call.session.id,
            "user": call.session.get(User).id,
            "trace_id": call.trace_id,
            "call_id": call.id,
            "tool": call.name,
            "arguments": self._recorder.arguments(call),
            "fingerprint": fingerprint,
            "message": message,
            "requested": now,
            "expires": None if expires_in_seconds is None else now + expires_in_seconds,
        }
        async with self._database.writing() as connection:
            await connection.execute(insert(approvals).values(row))
            return await _one(connection, str(row["id"]))

    async def decide(
        self,
        approval_id: str,
        decision: Decision,
        *,
        by: str | None = None,
        note: str | None = None,
    ) -> Approval:
        """Answers a question; the first answer holds, and is what comes back.

        One that has lapsed is `expired` whatever the answer.

        Args:
            approval_id: Which question.
            decision: The answer.
            by: Who or what answers.
            note: What is said with it.

        Raises:
            StoreError: There is no such question, or it cannot be written.
        """
        now = time.time()
        answered = {"decided": now, "decided_by": by, "note": note}
        unanswered = update(approvals).where(
            approvals.c.id == approval_id, approvals.c.decision.is_(None)
        )
        in_time = or_(approvals.c.expires.is_(None), approvals.c.expires > now)
        async with self._database.writing() as connection:
            await connection.execute(
                unanswered.where(in_time).values(decision=decision.value, **answered)
            )
            lapsed = unanswered.where(approvals.c.expires <= now)
            await connection.execute(lapsed.values(decision=Decision.EXPIRED.value, decided=now))
            return await _one(connection, approval_id)

    async def get(self, approval_id: str) -> Approval:
        """One question.

        Args:
            approval_id: Which.

        Raises:
            StoreError: There is no such question, or it cannot be read.
        """
        async with self._database.reading() as connection:
            return await _one(connection, approval_id)

    async def pending(
        self, *, session: str | None = None, user: str | None = None
    ) -> list[Approval]:
        """The questions that wait for an answer and have not lapsed, the oldest first.

        Args:
            session: Only those of this conversation.
            user: Only those of this user.

        Raises:
            StoreError: They cannot be read.
        """
        in_time = or_(approvals.c.expires.is_(None), approvals.c.expires > time.time())
        query = select(approvals).where(approvals.c.decision.is_(None), in_time)
        if session is not None:
            query = query.where(approvals.c.session == session)
        if user is not None:
            query = query.where(approvals.c.user == user)
        async with self._database.reading() as connection:
            found = await connection.execute(query.order_by(approvals.c.requested, approvals.c.id))
            return [_approval(row) for row in found]


async def _one(connection: AsyncConnection, approval_id: str) -> Approval:
    query = select(approvals).where(approvals.c.id == approval_id)
    found = (await connection.execute(query)).one_or_none()
    if found is None:
        raise StoreError(f"There is no approval {approval_id!r}: ask for one first")
    return _approval(found)


def _approval(row: Row[Any]) -> Approval:
    values = dict(row._mapping)  # noqa: SLF001 - its public name for the columns of a row
    values["arguments"] = json.loads(values["arguments"])
    if values["decision"] is not None:
        values["decision"] = Decision(values["decision"])
    return Approval(**values)
