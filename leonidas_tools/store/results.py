"""Results that are too long for the model, by handle."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, insert, or_, select

from leonidas_tools.errors import StoreError
from leonidas_tools.store.rows import KeptResult, SpilledResult
from leonidas_tools.store.schema import results

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.results.spill import Piece, ResultMemory
    from leonidas_tools.store.database import Database
    from leonidas_tools.store.outbox import Outbox, Write

_MAX_BYTES = 64 * 1024 * 1024
_HANDLE = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ResultTable:
    """Stores results until they expire; beyond `max_bytes`, the oldest are deleted."""

    def __init__(
        self, database: Database, *, max_bytes: int = _MAX_BYTES, keep_seconds: float = 3600.0
    ) -> None:
        self._database = database
        self._max_bytes = max_bytes
        self._keep_seconds = keep_seconds

    def putting(
        self,
        handle: str,
        content: bytes,
        *,
        mime_type: str,
        session: str | None,
        user: str,
    ) -> Write:
        """Return the write that stores a result under a unique handle of the caller's choice."""
        now = time.time()
        row = {
            "handle": handle,
            "session": session,
            "user": user,
            "mime_type": mime_type,
            "size": len(content),
            "content": content,
            "created": now,
            "expires": now + self._keep_seconds,
        }

        async def write(connection: AsyncConnection) -> None:
            await self._make_room(connection, len(content))
            await connection.execute(insert(results).values(row))

        return write

    async def _make_room(self, connection: AsyncConnection, size: int) -> None:
        """Delete the oldest results until `size` more bytes are within the limit."""
        stored = (await connection.execute(select(func.sum(results.c.size)))).scalar_one() or 0
        surplus = int(stored) + size - self._max_bytes
        if surplus <= 0:
            return
        oldest = select(results.c.handle, results.c.size).order_by(results.c.created)
        deleted = []
        for row in (await connection.execute(oldest)).all():
            if surplus <= 0:
                break
            deleted.append(row.handle)
            surplus -= row.size
        await connection.execute(delete(results).where(results.c.handle.in_(deleted)))

    async def find(
        self, *, session: str | None = None, user: str | None = None, limit: int | None = 100
    ) -> list[KeptResult]:
        """Return the results that have not expired, without their contents, the newest first.

        `user` has the form of `KeptResult.user`.
        """
        columns = [column for column in results.c if column.name != "content"]
        query = select(*columns).where(results.c.expires > time.time())
        if session is not None:
            query = query.where(results.c.session == session)
        if user is not None:
            query = query.where(or_(results.c.user.is_(None), results.c.user == user))
        newest = query.order_by(results.c.created.desc(), results.c.handle).limit(limit)
        async with self._database.reading() as connection:
            return [KeptResult(**row) for row in (await connection.execute(newest)).mappings()]

    async def read(
        self,
        handle: str,
        *,
        offset: int = 0,
        limit: int | None = None,
        session: str | None = None,
        user: str | None = None,
    ) -> SpilledResult:
        """Return a piece of a result, or all of it; only the piece is read.

        `offset` and `limit` are in bytes; `session` and `user` are those of the reader.

        Raises:
            StoreError: There is no such result, it has expired, or it cannot be read.
        """
        length = _MAX_BYTES if limit is None else max(limit, 0)
        start = min(max(offset, 0), _MAX_BYTES)  # a larger number may overflow
        piece = func.substr(results.c.content, start + 1, length, type_=results.c.content.type)
        query = select(
            results.c.session,
            results.c.user,
            results.c.mime_type,
            results.c.size,
            results.c.expires,
            piece.label("piece"),
        ).where(results.c.handle == handle, results.c.expires > time.time())
        async with self._database.reading() as connection:
            # The handle is from the model, and a database does not accept every text.
            is_handle = _HANDLE.fullmatch(handle) is not None
            found = (await connection.execute(query)).one_or_none() if is_handle else None
        if found is None or found.session not in (None, session) or found.user not in (None, user):
            raise StoreError(
                f"There is no result {handle!r}, or it has expired: make the call again"
            )
        return SpilledResult(
            handle=handle,
            mime_type=found.mime_type,
            size=found.size,
            offset=start,
            content=bytes(found.piece or b""),
            expires=found.expires,
        )


class SessionResults:
    """Stores the long results of one session in memory, and in the database for later.

    No call waits for the disk.

    `owner` returns the user of the session: several users may have sessions of one id.
    """

    def __init__(
        self, table: ResultTable, outbox: Outbox, memory: ResultMemory, owner: Callable[[], str]
    ) -> None:
        self.memory = memory
        self._owner = owner
        self._table = table
        self._outbox = outbox

    async def put(self, content: bytes, *, mime_type: str, session: str | None) -> str:
        """Store a result without secrets; raise `StoreError` if it exceeds the limit in memory."""
        handle = await self.memory.put(content, mime_type=mime_type)
        write = self._table.putting(
            handle, content, mime_type=mime_type, session=session, user=self._owner()
        )
        self._outbox.put(write, size=len(content))
        return handle

    async def read(
        self, handle: str, *, offset: int, limit: int | None, session: str | None
    ) -> Piece:
        """Return a piece of a result of this process or an earlier one."""
        try:
            return await self.memory.read(handle, offset=offset, limit=limit)
        except StoreError:
            return await self._table.read(
                handle, offset=offset, limit=limit, session=session, user=self._owner()
            )
