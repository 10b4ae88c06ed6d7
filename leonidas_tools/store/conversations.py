"""The conversations of users, counted across all processes."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from sqlalchemy import and_, delete, func, insert, select, text, update

from leonidas_tools.store.outbox import executes
from leonidas_tools.store.recorder import name_of
from leonidas_tools.store.runs import living_runs, lost_runs
from leonidas_tools.store.schema import conversations

if TYPE_CHECKING:
    from leonidas_tools.store.database import Database
    from leonidas_tools.store.outbox import Outbox

_WINDOW_SECONDS = 60.0
_LOCK = text("SELECT pg_advisory_xact_lock(:key)")


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationStart:
    """The start of a conversation, or its refusal."""

    id: str | None  # `None` if a limit is reached
    at_once: int  # conversations of the user that run already
    in_last_minute: int  # conversations that the user began in the minute before


class ConversationTable:
    """Counts the conversations of each user in all processes that share the database.

    The conversations of a process that has died do not count.
    """

    def __init__(self, database: Database, outbox: Outbox, *, run: str) -> None:
        self._database = database
        self._outbox = outbox
        self._run = run

    async def begin(self, user: str, *, at_once: int, per_minute: int) -> ConversationStart:
        """Begin a conversation of a user, unless a limit is reached."""
        id_, owner = f"{self._run}-{secrets.token_hex(8)}", name_of(user)
        self._outbox.conversations += 1
        try:
            start = await self._begin(id_, owner, at_once=at_once, per_minute=per_minute)
        except BaseException:
            self.end(id_)  # it may have been written
            raise
        if start.id is None:
            self._outbox.conversations -= 1
        return start

    def end(self, id_: str) -> None:
        """End a conversation; the end is written in the background."""
        self._outbox.conversations -= 1
        ended = update(conversations).where(conversations.c.id == id_).values(ended=time.time())
        self._outbox.put(executes(ended))

    async def _begin(
        self, id_: str, user: str, *, at_once: int, per_minute: int
    ) -> ConversationStart:
        is_of_user, table = conversations.c.user == user, conversations.c
        elsewhere = select(table.run).where(is_of_user, table.ended.is_(None))
        lost = await lost_runs(self._database, elsewhere.where(table.run != self._run))
        async with self._database.writing() as connection:
            if not self._database.is_file:  # a file has one writer at a time
                await connection.execute(_LOCK, {"key": _key(user)})
            await self._outbox.register(connection)
            now = time.time()
            alive = [self._run, *await living_runs(connection, lost)]
            is_open = and_(table.ended.is_(None), table.run.in_(alive))
            is_late = table.started > now - _WINDOW_SECONDS
            await connection.execute(delete(conversations).where(is_of_user, ~is_open, ~is_late))
            count = select(
                func.count().filter(is_open).label("at_once"),
                func.count().filter(is_late).label("in_last_minute"),
            ).where(is_of_user)
            found = (await connection.execute(count)).one()
            is_refused = found.at_once >= at_once or found.in_last_minute >= per_minute
            if not is_refused:
                row = {"id": id_, "user": user, "run": self._run, "started": now}
                await connection.execute(insert(conversations).values(row))
        return ConversationStart(
            id=None if is_refused else id_,
            at_once=found.at_once,
            in_last_minute=found.in_last_minute,
        )


def _key(user: str) -> int:
    """Return the key of the advisory lock for a user's conversations."""
    digest = blake2b(user.encode(), digest_size=8, person=b"conversation")
    return int.from_bytes(digest.digest(), signed=True)
