"""Approval questions and their answers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, insert, or_, select, update

from leonidas_tools.approvals.log import CLOSED_BY_NO_PERSON, Closing
from leonidas_tools.calls.call import ResultStatus
from leonidas_tools.calls.invocation import innermost
from leonidas_tools.redaction import MASK
from leonidas_tools.store.outbox import executes
from leonidas_tools.store.queries import RESUMABLE_SECONDS
from leonidas_tools.store.recorder import clean, name_of, user_name_of
from leonidas_tools.store.rows import Approval, Decision
from leonidas_tools.store.runs import living_runs, lost_runs
from leonidas_tools.store.schema import approvals, executions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Row, Select, Update
    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.approvals.desk import Grant
    from leonidas_tools.approvals.question import Question
    from leonidas_tools.approvals.request import ApprovalRequest
    from leonidas_tools.store.database import Database
    from leonidas_tools.store.outbox import Write
    from leonidas_tools.store.recorder import Recorder


_MAX_TEXT_LENGTH = 1024
_COLUMNS = [column for column in approvals.c if column.name != "run"]
_OF_CALLS = ("approval_id", "tool", "call_id", "arguments")
_ANSWERS = {
    "approve": Decision.APPROVED,
    "edit": Decision.APPROVED,
    "always": Decision.APPROVED,
    "deny": Decision.DENIED,
    "withdrawn": Decision.WITHDRAWN,
    "proceed": Decision.EXPIRED,
    "cancel": Decision.EXPIRED,
}
"""The decision for each answer."""
_PLAIN_YES = frozenset({"approve", "always", "proceed"})
"""The answers after which the call runs with the arguments of the question."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftQuestion:
    """An approval question without an answer, which can be asked again in this process."""

    id: str
    digest: str  # the hash that binds the answer to the call
    tool: str
    call_id: str | None
    arguments: Any


class ApprovalTable:
    """Stores approval questions and their answers; methods raise `StoreError` if it fails."""

    def __init__(self, database: Database, recorder: Recorder) -> None:
        self._database = database
        self._recorder = recorder

    def asked(self, question: Question) -> Write:
        """Return the write that stores a question about a running call."""
        request, call = question.request, question.call
        redaction = call.redaction.hiding(call.arguments)
        arguments = self._recorder.arguments(call.with_arguments(redaction(request.details)))
        row = {
            "id": self.id_of(request),
            "session": name_of(request.session),
            "user": user_name_of(request.user),
            "trace_id": name_of(call.trace_id),
            "call_id": None if request.call_id is None else name_of(request.call_id),
            "tool": name_of(request.tool),
            "arguments": arguments,
            "fingerprint": _hash_of(question, arguments),
            "message": clean(redaction(request.title)[:_MAX_TEXT_LENGTH]),
            "requested": request.created,
            "expires": request.deadline,
            "rule": name_of(request.rule),
            "on_expiry": request.on_expiry,
            "run": self._recorder.run,
        }
        return executes(insert(approvals).values(row))

    def closed(self, question: Question, closing: Closing) -> Write:
        """Return the write that stores an answer; it also replaces `unanswered`."""
        request, call, decision = question.request, question.call, closing.decision
        redaction = call.redaction.hiding(call.arguments)
        user = user_name_of(request.user)
        reason = None if decision is None else decision.reason
        edited = None if decision is None else decision.arguments
        values = {
            "decision": _ANSWERS.get(closing.answer, Decision.WITHDRAWN).value,
            "decided": time.time(),
            "decided_by": None if closing.by in CLOSED_BY_NO_PERSON else user,
            "note": None if reason is None else clean(redaction(reason)[:_MAX_TEXT_LENGTH]),
            "answer": closing.answer,
            "channel": name_of(closing.by),
            "edited": None
            if edited is None
            else self._recorder.arguments(call.with_arguments(edited)),
        }
        return executes(_update_unanswered(self.id_of(request)).values(values))

    def id_of(self, request: ApprovalRequest) -> str:
        """Return the id of a question's row, which ends with the id of the request."""
        return f"{self._recorder.run}-{request.created:.6f}-{request.id}"

    async def find(
        self,
        *,
        session: str | None = None,
        user: str | None = None,
        tool: str | None = None,
        decision: Decision | str | None = None,
        limit: int | None = 100,
    ) -> list[Approval]:
        """Return the matching questions, open and closed, the newest first.

        A question whose process died before an answer is `unanswered`: its call does not run.

        `user` has the form of `Approval.user`.

        Raises:
            StoreError: The questions cannot be read.
            ValueError: The decision is unknown.
        """
        filters = {"session": session, "user": user, "tool": tool}
        query = select(*_COLUMNS).order_by(approvals.c.requested.desc(), approvals.c.id)
        for name, value in filters.items():
            if value is not None:
                query = query.where(approvals.c[name] == value)
        if decision is not None:
            query = query.where(approvals.c.decision == Decision(decision).value)
        await self._mark_unanswered()
        async with self._database.reading() as connection:
            return await _fetch(connection, query.limit(limit))

    async def _mark_unanswered(self) -> None:
        """Mark the questions whose process ended before an answer as `unanswered`."""
        open_ = (approvals.c.decision.is_(None), approvals.c.run.is_not(None))
        lost = await lost_runs(self._database, select(approvals.c.run).where(*open_))
        async with self._database.reading() as connection:
            if (await connection.execute(select(approvals.c.id).where(*open_).limit(1))).first():
                alive = [self._recorder.run, *await living_runs(connection, lost)]
            else:
                return
        dead = update(approvals).where(*open_, approvals.c.run.not_in(alive))
        async with self._database.writing() as connection:
            await connection.execute(dead.values(decision=Decision.UNANSWERED.value))

    async def left(self, session: str, *, user: str) -> list[LeftQuestion]:
        """Return the unanswered questions that can be asked again, in order.

        They have not expired, and their calls wait for the answer. A question is omitted if the
        model has repeated its call since.

        `user` has the form of `Approval.user`.
        """
        table, now = approvals.c, time.time()
        asked = (
            select(table.id, table.fingerprint, table.decision, table.channel, table.expires)
            .where(table.session == session, table.user == user)
            .where(table.fingerprint.is_not(None), table.requested > now - RESUMABLE_SECONDS)
            .order_by(table.requested, table.id)
        )
        waits = (
            select(*(executions.c[name] for name in _OF_CALLS))
            .where(executions.c.session == session, executions.c.user == user)
            .where(executions.c.status == ResultStatus.PENDING_APPROVAL.value)
            .order_by(executions.c.started)
        )
        async with self._database.reading() as connection:
            rows = (await connection.execute(asked)).all()
            ids = _find_unanswered_ids(rows, now)
            if not ids:
                return []
            calls = await connection.execute(waits.where(executions.c.approval_id.in_(ids)))
            found = {row.approval_id: row for row in calls}
        return [
            LeftQuestion(
                id=id_,
                digest=digest,
                tool=found[id_].tool,
                call_id=found[id_].call_id,
                arguments=found[id_].arguments,
            )
            for id_, digest in ids.items()
            if id_ in found
        ]

    async def is_answered_elsewhere(self, grant: Grant, *, is_once: bool) -> bool:
        """Return whether a question was answered elsewhere, so that its call does not run here.

        A `once` call that was approved there unchanged continues: it gets the outcome of the call
        there. If the question was asked again elsewhere, its expiry here does not permit the call.
        """
        table, request = approvals.c, grant.request
        is_later = table.requested > request.created
        is_again = and_(
            table.fingerprint == request.hash, table.run != self._recorder.run, is_later
        )
        query = (
            select(table.id, table.decision, table.channel, table.answer, is_later.label("later"))
            .where(table.session == name_of(request.session))
            .where(table.user == user_name_of(request.user))
            .where(table.id != self.id_of(request))
            .where(or_(table.id.endswith(f"-{request.id}"), is_again))
        )
        is_edited = grant.digest != request.hash
        async with self._database.reading() as connection:
            for row in await connection.execute(query):
                if _is_open(row) or row.answer == "cancel":
                    if grant.by_silence and row.later:
                        return True
                    continue
                is_plain_yes = row.answer in _PLAIN_YES and row.id.endswith(f"-{request.id}")
                if is_edited or not (is_plain_yes and is_once):
                    return True
        return False

    async def pending(
        self, *, session: str | None = None, user: str | None = None
    ) -> list[Approval]:
        """Return the open questions that have not expired, the oldest first.

        `user` has the form of `Approval.user`.
        """
        await self._mark_unanswered()
        in_time = or_(approvals.c.expires.is_(None), approvals.c.expires > time.time())
        query = select(*_COLUMNS).where(approvals.c.decision.is_(None), in_time)
        if session is not None:
            query = query.where(approvals.c.session == session)
        if user is not None:
            query = query.where(approvals.c.user == user)
        async with self._database.reading() as connection:
            oldest_first = query.order_by(approvals.c.requested, approvals.c.id)
            return await _fetch(connection, oldest_first)


def _hash_of(question: Question, arguments: str) -> str | None:
    """Return the hash of a question; `None` if it cannot be asked again in another process.

    The hash would reveal a short secret among the arguments. A call that asks while it runs, and a
    call made by another call, end with their process.
    """
    around = innermost()
    is_nested = around is not None and around.outer is not None
    if question.paused is not None or is_nested or question.call.id is None:
        return None
    # The stored arguments may be cut before a secret, and those of the request are not.
    if MASK in arguments or MASK in str(question.request.details):
        return None
    return question.request.hash


def _find_unanswered_ids(rows: Iterable[Any], now: float) -> dict[str, str]:
    """Return the ids of the questions that have no answer, with their hashes.

    A question that was asked again elsewhere has several rows, and one answer closes them all.
    """
    left: dict[str, str] = {}
    closed: set[str] = set()
    for row in rows:
        id_ = row.id.rpartition("-")[2]
        is_open = _is_open(row)
        for other in [other for other, digest in left.items() if digest == row.fingerprint]:
            del left[other]  # the model has made the call again
        if not is_open:
            closed.add(id_)
        elif row.expires > now:
            left[id_] = row.fingerprint
    return {id_: digest for id_, digest in left.items() if id_ not in closed}


def _is_open(row: Row[Any]) -> bool:
    """Return whether a question has no answer, even if its session withdrew it."""
    is_left = row.decision == Decision.WITHDRAWN.value and row.channel == "session"
    return is_left or row.decision in (None, Decision.UNANSWERED.value)


def _update_unanswered(approval_id: str) -> Update:
    is_open = or_(approvals.c.decision.is_(None), approvals.c.decision == Decision.UNANSWERED.value)
    return update(approvals).where(approvals.c.id == approval_id, is_open)


async def _fetch(connection: AsyncConnection, query: Select[Any]) -> list[Approval]:
    rows = (await connection.execute(query)).mappings()
    return [
        Approval(**{**row, "decision": row["decision"] and Decision(row["decision"])})
        for row in rows
    ]
