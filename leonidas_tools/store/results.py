"""Results that are too long for the model, by a handle it can ask more of."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, insert, select

from leonidas_tools.errors import StoreError
from leonidas_tools.store.rows import KeptResult, SpilledResult
from leonidas_tools.store.tables import results

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.store.database import Database
    from leonidas_tools.store.errands import Write

_MOST_BYTES = 64 * 1024 * 1024


class ResultTable:
    """Keeps results until they expire, as they are given; where they are too much, the oldest go.

    Args:
        database: Where they are.
        max_bytes: How long they may be together.
        keep_seconds: How long a result is kept by default.
    """

    def __init__(
        self, database: Database, *, max_bytes: int = _MOST_BYTES, keep_seconds: float = 3600.0
    ) -> None:
        self._database = database
        self._max_bytes = max_bytes
        self._keep_seconds = keep_seconds

    async def put(
        self,
        content: bytes,
        *,
        mime_type: str = "application/json",
        session: str | None = None,
        expires_in_seconds: float | None = None,
    ) -> str:
        """Keep a result.

        Args:
            content: All of it.
            mime_type: What it is.
            session: The only conversation that may read it; any where left out.
            expires_in_seconds: How long it is kept, if not as long as others are.

        Returns:
            A handle that cannot be guessed.

        Raises:
            ValueError: It is longer than 64 MiB, or than all may be together.
            StoreError: It cannot be written.
        """
        most = min(_MOST_BYTES, self._max_bytes)
        if len(content) > most:
            raise ValueError(f"The result is longer than {most} bytes: keep a part of it")
        handle = secrets.token_urlsafe(12)
        write = self.putting(
            handle,
            content,
            mime_type=mime_type,
            session=session,
            expires_in_seconds=expires_in_seconds,
        )
        async with self._database.writing() as connection:
            await write(connection)
        return handle

    def putting(
        self,
        handle: str,
        content: bytes,
        *,
        mime_type: str,
        session: str | None,
        expires_in_seconds: float | None = None,
    ) -> Write:
        """Return what keeps a result under a handle of the caller's choice.

        Args:
            handle: The handle; no other result has it.
            content: All of it.
            mime_type: What it is.
            session: The only conversation that may read it.
            expires_in_seconds: How long it is kept, if not as long as others are.
        """
        now = time.time()
        seconds = self._keep_seconds if expires_in_seconds is None else expires_in_seconds
        row = {
            "handle": handle,
            "session": session,
            "mime_type": mime_type,
            "size": len(content),
            "content": content,
            "created": now,
            "expires": now + seconds,
        }

        async def write(connection: AsyncConnection) -> None:
            await self._make_room(connection, len(content))
            await connection.execute(insert(results).values(row))

        return write

    async def _make_room(self, connection: AsyncConnection, size: int) -> None:
        """Throw the oldest away until there is room for another."""
        held = (await connection.execute(select(func.sum(results.c.size)))).scalar_one() or 0
        surplus = int(held) + size - self._max_bytes
        if surplus <= 0:
            return
        oldest = select(results.c.handle, results.c.size).order_by(results.c.created)
        gone = []
        for row in (await connection.execute(oldest)).all():
            if surplus <= 0:
                break
            gone.append(row.handle)
            surplus -= row.size
        await connection.execute(delete(results).where(results.c.handle.in_(gone)))

    async def find(
        self, *, session: str | None = None, limit: int | None = 100
    ) -> list[KeptResult]:
        """Return the results that have not expired, without their contents, the newest first.

        Args:
            session: Only those of this conversation.
            limit: How many at most; `None` for all.

        Raises:
            StoreError: They cannot be read.
        """
        columns = [column for column in results.c if column.name != "content"]
        query = select(*columns).where(results.c.expires > time.time())
        if session is not None:
            query = query.where(results.c.session == session)
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
    ) -> SpilledResult:
        """Return a piece of a result, or all of it; only the piece is read.

        Args:
            handle: What `put` returned.
            offset: Where the piece begins, in bytes.
            limit: How long it is at most, in bytes.
            session: Who asks, where the result belongs to one conversation.

        Raises:
            StoreError: There is no such result, it has expired, or it cannot be read.
        """
        length = _MOST_BYTES if limit is None else max(limit, 0)
        start = max(offset, 0)
        piece = func.substr(results.c.content, start + 1, length, type_=results.c.content.type)
        query = select(
            results.c.session, results.c.mime_type, results.c.size, results.c.expires, piece
        ).where(results.c.handle == handle, results.c.expires > time.time())
        async with self._database.reading() as connection:
            found = (await connection.execute(query)).one_or_none()
        if found is None or found.session not in (None, session):
            raise StoreError(f"There is no result {handle!r}, or no longer: make the call again")
        return SpilledResult(
            handle=handle,
            mime_type=found.mime_type,
            size=found.size,
            offset=start,
            content=bytes(found[4] or b""),
            expires=found.expires,
        )

    async def remove(self, handle: str) -> None:
        """Throw a result away, if it is there still.

        Args:
            handle: What `put` returned.

        Raises:
            StoreError: The database cannot be written to.
        """
        async with self._database.writing() as connection:
            await connection.execute(delete(results).where(results.c.handle == handle))
