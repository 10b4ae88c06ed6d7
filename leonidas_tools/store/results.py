"""Results that are too long for the model, by a handle it can ask more of."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, insert, select

from leonidas_tools.errors import StoreError
from leonidas_tools.store.rows import SpilledResult
from leonidas_tools.store.tables import results

if TYPE_CHECKING:
    from leonidas_tools.store.database import Database

_MOST_BYTES = 64 * 1024 * 1024


class ResultTable:
    """Keeps results until they expire. They are what tools returned, unmasked.

    Args:
        database: Where they are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(
        self,
        content: bytes,
        *,
        mime_type: str = "application/json",
        session: str | None = None,
        expires_in_seconds: float = 3600.0,
    ) -> str:
        """Keeps a result.

        Args:
            content: All of it.
            mime_type: What it is.
            session: The only conversation that may read it; any where left out.
            expires_in_seconds: How long it is kept.

        Returns:
            A handle that cannot be guessed.

        Raises:
            ValueError: It is longer than 64 MiB.
            StoreError: It cannot be written.
        """
        if len(content) > _MOST_BYTES:
            raise ValueError(f"The result is longer than {_MOST_BYTES} bytes: keep a part of it")
        handle, now = secrets.token_urlsafe(12), time.time()
        row = insert(results).values(
            handle=handle,
            session=session,
            mime_type=mime_type,
            size=len(content),
            content=content,
            created=now,
            expires=now + expires_in_seconds,
        )
        async with self._database.writing() as connection:
            await connection.execute(row)
        return handle

    async def read(
        self,
        handle: str,
        *,
        offset: int = 0,
        limit: int | None = None,
        session: str | None = None,
    ) -> SpilledResult:
        """A piece of a result, or all of it; only the piece is read.

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
        """Throws a result away, if it is there still.

        Args:
            handle: What `put` returned.

        Raises:
            StoreError: The database cannot be written to.
        """
        async with self._database.writing() as connection:
            await connection.execute(delete(results).where(results.c.handle == handle))
