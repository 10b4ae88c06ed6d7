"""The tokens of live sessions, by turn."""

from __future__ import annotations

import json
import secrets
import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, and_, cast, func, select

from leonidas_tools.approvals.session_policy import user_of
from leonidas_tools.store.database import insert_new
from leonidas_tools.store.recorder import name_of, user_name_of
from leonidas_tools.store.rows import ReplayEvent
from leonidas_tools.store.schema import usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Row
    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.store.database import Database
    from leonidas_tools.store.outbox import Outbox

_DAY_SECONDS = 86_400
_FLUSHING_SECONDS = 1.0
_KIND = "usage"


class UsageTable:
    """The tokens of live sessions in all processes that share the database."""

    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox

    def on_live(self, kind: str, session: ToolSession, data: Mapping[str, Any]) -> None:
        """Store an event `usage` of a live session, in the background."""
        if kind != _KIND:
            return
        row = {
            "id": secrets.token_hex(16),
            "session": name_of(session.id),
            "user": user_name_of(user_of(session)),
            "at": time.time(),
            "turn": data["turn"],
            "model": name_of(data["model"]),
            "tokens": json.dumps(data["tokens"]),
            "input_tokens": data["input_tokens"],
            "output_tokens": data["output_tokens"],
            "cost": data.get("cost"),
        }

        async def write(connection: AsyncConnection) -> None:
            await connection.execute(insert_new(connection, usage), row)

        self._outbox.put(write, size=len(row["tokens"]))

    async def spent(
        self, session: str, *, user: str | None, at: float
    ) -> dict[str, tuple[int, float]]:
        """Return the tokens and the cost of a session, and of its user on the day (UTC) of `at`."""
        is_of_user = usage.c.user == user_name_of(user)
        filters = {
            "session": and_(is_of_user, usage.c.session == name_of(session)),
            "user_day": and_(is_of_user, usage.c.at >= at - at % _DAY_SECONDS),
        }
        count = cast(func.sum(usage.c.input_tokens + usage.c.output_tokens), BigInteger)
        spent: dict[str, tuple[int, float]] = {}
        await self._outbox.flush(_FLUSHING_SECONDS)
        async with self._database.reading() as connection:
            for name, which in filters.items():
                query = select(count, func.sum(usage.c.cost)).where(which)
                tokens, cost = (await connection.execute(query)).one()
                spent[name] = (tokens or 0, cost or 0.0)
        return spent

    async def replay(self, session: str, *, user: str | None, limit: int) -> list[ReplayEvent]:
        """Return the last counted turns of a session, as events, the newest first."""
        query = select(usage).where(usage.c.session == session)
        if user is not None:
            query = query.where(usage.c.user == user)
        async with self._database.reading() as connection:
            rows = await connection.execute(query.order_by(usage.c.at.desc()).limit(limit))
            return [_event(row) for row in rows]


def _event(row: Row[Any]) -> ReplayEvent:
    data = {"turn": row.turn, "model": row.model, "tokens": row.tokens}
    data |= {} if row.cost is None else {"cost": row.cost}
    return ReplayEvent(at=row.at, kind=_KIND, tool="", trace_id="", data=data)
