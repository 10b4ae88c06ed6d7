"""Queries about stored calls."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Double,
    and_,
    case,
    cast,
    false,
    func,
    literal,
    null,
    or_,
    select,
    union_all,
    update,
)

from leonidas_tools.calls.call import CANCELLED_CALL, ResultStatus
from leonidas_tools.calls.events import EventKind
from leonidas_tools.policies.call_limits import EarlierCalls
from leonidas_tools.store.rows import (
    INTERRUPTED,
    STARTED,
    Execution,
    SessionSummary,
    Step,
)
from leonidas_tools.store.runs import living_runs, lost_runs
from leonidas_tools.store.schema import executions, usage
from leonidas_tools.tools.metadata import ToolEffect

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy import ColumnElement, RowMapping, Select

    from leonidas_tools.store.database import Database

_COLUMNS = [column for column in executions.c if column.name != "run"]
_PENDING = "pending_approval"
_GOOD = ("ok", "no_results", STARTED)
HAPPENED = tuple(
    status.value
    for status in (ResultStatus.OK, ResultStatus.NO_RESULTS, ResultStatus.UNKNOWN_OUTCOME)
)
MAY_HAVE_RUN = (
    "ok", "no_results", "failed", "timeout", "unknown_outcome", "cancelled", STARTED, INTERRUPTED,
)  # fmt: skip
_MAX_REPEATED = 1000
RESUMABLE_SECONDS = 86_400.0
"""Seconds after which no live session can be resumed."""
_MAX_UNTRUSTED = 16
_MAX_RECENT = 10_000
_MINUTE_SECONDS = 60.0


def _filter(filters: dict[str, Any]) -> Select[Any]:
    """Return the query of the calls that match all given filters."""
    query = select(*_COLUMNS)
    for name in ("tool", "status", "session", "user"):
        if filters[name] is not None:
            query = query.where(executions.c[name] == str(filters[name]))
    if filters["since"] is not None:
        query = query.where(executions.c.started >= filters["since"])
    if filters["until"] is not None:
        query = query.where(executions.c.started <= filters["until"])
    if filters["text"]:
        searched = ("tool", "arguments", "result", "message", "reason")
        found = (
            executions.c[name].icontains(filters["text"], autoescape=True) for name in searched
        )
        query = query.where(or_(*found))
    return query


async def find_executions(
    database: Database, *, limit: int | None, newest_first: bool, **filters: Any
) -> list[Execution]:
    """Return the matching calls, in the order in which they began."""
    order = [executions.c.started, executions.c.id]
    query = _filter(filters).order_by(*(c.desc() if newest_first else c for c in order))
    return await _fetch(database, query.limit(limit))


@dataclass(frozen=True, kw_only=True, slots=True)
class CallsElsewhere:
    """The calls of a session in other openings of the store, when the session began here.

    Their times say nothing: the clocks of two machines may differ.
    """

    open: Collection[str]  # the ids of the calls that were running
    newest: Mapping[str, float]  # when the newest of each opening began, by its own clock


@dataclass(frozen=True, kw_only=True, slots=True)
class Repetition:
    """A call that may repeat an earlier one."""

    session: str
    user: str
    tool: str
    call_id: str
    run: str  # the id of this opening of the store
    bound: float  # when the session began in this process, in seconds since the epoch
    known_until: float  # until when the model knows the results, in seconds since the epoch
    elsewhere: CallsElsewhere | None  # when the session began here; `None` if they are unknown


async def find_elsewhere(
    database: Database, *, session: str, user: str, run: str
) -> CallsElsewhere:
    """Return the calls of a session in other openings of the store."""
    table = executions.c
    made = and_(table.session == session, table.user == user, table.run != run)
    still_open = (
        select(table.id, table.run, table.started)
        .where(made, table.ended.is_(None))
        .order_by(table.started.desc())
        .limit(_MAX_REPEATED)
        .subquery()
    )
    newest = select(literal(""), table.run, func.max(table.started)).where(made).group_by(table.run)
    # One statement: a call that begins or ends meanwhile must not be missing from both.
    query = union_all(select(still_open), newest)
    async with database.reading() as connection:
        found = (await connection.execute(query)).all()
    return CallsElsewhere(
        open=frozenset(id_ for id_, _, _ in found if id_),
        newest={run: started for id_, run, started in found if not id_},
    )


def _ran_elsewhere_after(call: Repetition) -> ColumnElement[bool]:
    """Return the condition of calls that ran elsewhere after the session began here."""
    before, table = call.elsewhere, executions.c
    if before is None:
        return false()
    return or_(
        table.id.in_(before.open),
        and_(table.run != call.run, table.run.not_in(before.newest)),
        *(and_(table.run == run, table.started > at) for run, at in before.newest.items()),
    )


async def find_repeated(database: Database, call: Repetition) -> list[Execution]:
    """Return the calls that may have had the effect of this call, the newest first.

    They are the session's calls of the tool with this id, and those with any id whose outcome the
    model may not have received: they began elsewhere and have not ended, were cancelled by another
    process (as when it stops) or by the model (but they continued), ended after `known_until`, or
    ran after the session began here, whatever the clock of their machine says. With them are the
    calls that have received the result of one that continued.
    """
    is_same_id = and_(executions.c.call_id == call.call_id, executions.c.status.in_(MAY_HAVE_RUN))
    is_unheard = or_(
        executions.c.ended.is_(None),
        and_(
            executions.c.status == ResultStatus.CANCELLED.value,
            executions.c.reason.is_(None),
            executions.c.run != call.run,
        ),
        and_(
            executions.c.status.in_(HAPPENED),
            or_(
                executions.c.ending == EventKind.CANCEL.value,
                executions.c.reason == CANCELLED_CALL,
            ),
        ),
        and_(
            executions.c.status.in_(MAY_HAVE_RUN),
            or_(executions.c.ended > call.known_until, _ran_elsewhere_after(call)),
        ),
    )
    is_elsewhere = and_(
        or_(executions.c.run != call.run, executions.c.started < call.bound),
        executions.c.effect == ToolEffect.ONCE.value,
        executions.c.acknowledged.is_(None),
        executions.c.started > time.time() - RESUMABLE_SECONDS,
    )
    query = (
        select(*_COLUMNS)
        .where(executions.c.session == call.session, executions.c.user == call.user)
        .where(executions.c.tool == call.tool)
        .where(or_(is_same_id, and_(is_elsewhere, is_unheard)))
        .order_by(executions.c.started.desc(), executions.c.id.desc())
        .limit(_MAX_REPEATED)
    )
    return await _fetch(database, query)


async def find_execution(database: Database, id_: str) -> Execution | None:
    """Return one call."""
    found = await _fetch(database, select(*_COLUMNS).where(executions.c.id == id_))
    return found[0] if found else None


async def find_earlier_calls(
    database: Database, *, session: str, user: str, before: float
) -> list[EarlierCalls]:
    """Return the number of calls that a session of the user made before a time, by tool."""
    table, now = executions.c, time.time()
    made = and_(
        table.session == session,
        table.user == user,
        table.started < before,
        table.status.in_(MAY_HAVE_RUN),
        table.cached.is_(False),
    )
    counted = select(table.tool, func.count(), func.max(table.started)).where(made)
    recent = select(table.tool, table.started).where(made, table.started > now - _MINUTE_SECONDS)
    async with database.reading() as connection:
        found = (await connection.execute(counted.group_by(table.tool))).all()
        ages: dict[str, list[float]] = {}
        if any(last > now - _MINUTE_SECONDS for _, _, last in found):
            for tool, started in await connection.execute(recent.limit(_MAX_RECENT)):
                ages.setdefault(tool, []).append(now - started)
    return [
        EarlierCalls(tool=tool, number=number, ages=ages.get(tool, ())) for tool, number, _ in found
    ]


async def find_untrusted(database: Database, *, session: str, user: str) -> list[str]:
    """Return the tools whose untrusted results a session of the user has read, oldest first."""
    first = func.min(executions.c.started)
    query = (
        select(executions.c.tool)
        .where(executions.c.session == session, executions.c.user == user)
        .where(executions.c.steps.contains(f'"{EventKind.UNTRUSTED.value}"'))
        .group_by(executions.c.tool)
        .order_by(first)
        .limit(_MAX_UNTRUSTED)
    )
    async with database.reading() as connection:
        return list(await connection.scalars(query))


async def find_sessions(
    database: Database, *, user: str | None, limit: int | None
) -> list[SessionSummary]:
    """Return the sessions of each user, the latest first."""
    calls = select(
        executions.c.session,
        executions.c.user,
        executions.c.started.label("at"),
        literal(1).label("calls"),
        case((executions.c.status.in_((*_GOOD, _PENDING)), 0), else_=1).label("failures"),
        case((executions.c.status == _PENDING, 1), else_=0).label("pending_approvals"),
        literal(0).label("input_tokens"),
        literal(0).label("output_tokens"),
        cast(null(), Double).label("cost"),
    )
    none, of = literal(0), usage.c
    turns = select(
        of.session, of.user, of.at, none, none, none, of.input_tokens, of.output_tokens, of.cost
    )
    records = union_all(calls, turns).subquery().c
    counts = ("calls", "failures", "pending_approvals", "input_tokens", "output_tokens")
    last = func.max(records.at)
    query = (
        select(
            records.session,
            records.user,
            func.min(records.at).label("started"),
            last.label("last"),
            *(cast(func.sum(records[name]), BigInteger).label(name) for name in counts),
            func.sum(records.cost).label("cost"),
        )
        .group_by(records.session, records.user)
        .order_by(last.desc())
        .limit(limit)
    )
    if user is not None:
        query = query.where(records.user == user)
    async with database.reading() as connection:
        return [SessionSummary(**row) for row in (await connection.execute(query)).mappings()]


async def mark_interrupted(database: Database, *, run: str) -> None:
    """Mark the calls whose process ended while they ran as interrupted."""
    open_ = (executions.c.ended.is_(None), executions.c.status == STARTED)
    lost = await lost_runs(database, select(executions.c.run).where(*open_))
    async with database.writing() as connection:
        alive = [run, *await living_runs(connection, lost)]
        await connection.execute(
            update(executions)
            .where(*open_, executions.c.run.not_in(alive))
            .values(status=INTERRUPTED)
        )


async def find_interrupted(database: Database, *, acknowledged: bool) -> list[Execution]:
    """Return the interrupted calls, the oldest first."""
    query = select(*_COLUMNS).where(executions.c.status == INTERRUPTED)
    if not acknowledged:
        query = query.where(executions.c.acknowledged.is_(None))
    return await _fetch(database, query.order_by(executions.c.started, executions.c.id))


async def find_unfinished(database: Database, *, session: str, user: str) -> list[Execution]:
    """Return the `once` calls of a session that a crash interrupted, oldest first."""
    query = (
        select(*_COLUMNS)
        .where(executions.c.session == session, executions.c.user == user)
        .where(executions.c.status == INTERRUPTED, executions.c.acknowledged.is_(None))
        .where(executions.c.effect == ToolEffect.ONCE.value, executions.c.call_id.is_not(None))
        .where(executions.c.started > time.time() - RESUMABLE_SECONDS)
        .order_by(executions.c.started, executions.c.id)
        .limit(_MAX_REPEATED)
    )
    return await _fetch(database, query)


async def store_outcome(database: Database, id_: str, ending: Mapping[str, Any]) -> bool:
    """Store the outcome of a call; return `False` if the call already has a final one."""
    open_ = executions.c.status.in_((STARTED, INTERRUPTED, ResultStatus.CANCELLED.value))
    settled = update(executions).where(executions.c.id == id_, open_).values(**ending)
    async with database.writing() as connection:
        return bool((await connection.execute(settled)).rowcount)


async def acknowledge(database: Database, ids: Sequence[str]) -> None:
    """Mark interrupted calls as acknowledged by a person."""
    noted = update(executions).where(executions.c.id.in_(ids)).values(acknowledged=time.time())
    async with database.writing() as connection:
        await connection.execute(noted)


async def _fetch(database: Database, query: Select[Any]) -> list[Execution]:
    async with database.reading() as connection:
        return [_execution(row) for row in (await connection.execute(query)).mappings()]


def _execution(row: RowMapping) -> Execution:
    steps = [
        Step(kind=kind, after_seconds=at - row["started"], data=data)
        for at, kind, data in row["steps"] or ()
    ]
    return Execution(**{**row, "steps": tuple(steps)})
