"""Memories of users: texts with vectors, found by their meaning."""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import delete, func, select

from leonidas_tools.embeddings.nearest import Nearest, packed
from leonidas_tools.session.user_data import MAX_MEMORIES, Memory
from leonidas_tools.store.recorder import owner_of
from leonidas_tools.store.schema import memories
from leonidas_tools.store.user_table import UserTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.embeddings import Embedder
    from leonidas_tools.store.database import Database

_MAX_INDEX_BYTES = 256 * 2**20
_AT_ONCE = 10_000
_MAX_FOUND = 100

_Key: TypeAlias = tuple[int, str, str, int]
"""The number of the file, the owner, the embedding space and the number of dimensions."""


class MemoryTable(UserTable[Memory]):
    """Stores memories.

    The vectors of the latest users stay in memory: 450 bytes for each vector of 384 dimensions,
    and at most 256 MiB. Methods that embed raise `ModelError` if that fails.
    """

    table, entry, max_entries = memories, Memory, MAX_MEMORIES

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._indexes: OrderedDict[_Key, Nearest] = OrderedDict()
        self._turn = asyncio.Lock()

    async def remember(
        self,
        user: str | None,
        texts: Sequence[str],
        embedder: Embedder,
        *,
        source: str = "",
        created: float | None = None,
    ) -> list[Memory]:
        """Store texts, each only once, and return their memories.

        Only the same embedder recalls them. `source` is the file that they were read from. Raise
        `TooManyEntriesError` if the user would have too many.
        """
        owner, wanted = owner_of(user), {_digest(text): text for text in texts}
        if not wanted:
            return []
        vectors = packed(await embedder.embed(list(wanted.values()), "passage"))
        found = {}
        own = (memories.c.user == owner, memories.c.space == embedder.space)
        async with self._database.writing() as connection:
            await self._check_number(connection, user, len(wanted))
            for (digest, text), vector in zip(wanted.items(), vectors, strict=True):
                known = select(memories).where(*own, memories.c.digest == digest)
                row = (await connection.execute(known)).mappings().one_or_none()
                if row is not None:
                    found[digest] = self._build(row)
                    continue
                found[digest] = new = Memory(
                    id=uuid.uuid4().hex[:12],
                    text=text,
                    source=source,
                    created=time.time() if created is None else created,
                )
                values = {"user": owner, "space": embedder.space, "digest": digest}
                await self._insert(connection, new, **values, vector=vector)
        return list(found.values())

    async def recall(
        self, user: str | None, query: str, embedder: Embedder, *, limit: int = 10
    ) -> list[Memory]:
        """Return the memories of the user that are nearest to a query, the nearest first.

        The embedder is the one that they were stored with; `limit` is at most 100.
        """
        [vector] = await embedder.embed([query], "query")
        return await self.nearest(user, vector, embedder.space, limit=limit)

    async def nearest(
        self, user: str | None, vector: Any, space: str, *, limit: int = 10
    ) -> list[Memory]:
        """Return the memories of the user that are nearest to a vector, the nearest first."""
        limit = min(limit, _MAX_FOUND)
        key = (self._database.files, owner_of(user), space, len(vector))
        async with self._turn, self._database.reading() as connection:
            index = self._indexes.pop(key, None) or Nearest(len(vector))
            await _extend_index(connection, index, key)
            found, gone = await self._find_nearest(connection, index, key, vector, limit)
            if gone and len(found) < limit:  # many were deleted: read the others again
                index = Nearest(len(vector))
                await _extend_index(connection, index, key)
                found, _ = await self._find_nearest(connection, index, key, vector, limit)
            self._indexes[key] = index
            while sum(each.size_bytes for each in self._indexes.values()) > _MAX_INDEX_BYTES:
                self._indexes.popitem(last=False)
        return found

    async def forget_source(self, user: str | None, source: str) -> int:
        """Delete all memories of the user that were read from a file; return how many."""
        where = (memories.c.source == source, memories.c.user == owner_of(user))
        async with self._database.writing() as connection:
            return (await connection.execute(delete(memories).where(*where))).rowcount

    async def sources(self, user: str | None, embedder: Embedder) -> dict[str, float]:
        """Return the files that memories of the user were read from, and when each was read."""
        query = select(memories.c.source, func.min(memories.c.created).label("read")).where(
            memories.c.user == owner_of(user),
            memories.c.space == embedder.space,
            memories.c.source != "",
        )
        async with self._database.reading() as connection:
            rows = await connection.execute(query.group_by(memories.c.source))
            return {row.source: row.read for row in rows.all()}

    def _build(self, row: Mapping[Any, Any], similarity: float | None = None) -> Memory:
        return super()._build({**row, "similarity": similarity})

    async def _find_nearest(
        self, connection: AsyncConnection, index: Nearest, key: _Key, vector: Any, limit: int
    ) -> tuple[list[Memory], bool]:
        """Return the nearest memories that still exist, and whether others were deleted."""
        best = dict(await asyncio.to_thread(index.best, vector, 2 * limit))
        query = select(memories).where(memories.c.number.in_(best), memories.c.user == key[1])
        rows = {row["number"]: row for row in (await connection.execute(query)).mappings()}
        found = [self._build(rows[number], best[number]) for number in best if number in rows]
        return found[:limit], len(rows) < len(best)


async def _extend_index(connection: AsyncConnection, index: Nearest, key: _Key) -> None:
    """Read the vectors that an index does not have yet."""
    _, owner, space, _ = key
    vectors = select(memories.c.number, memories.c.vector).order_by(memories.c.number)
    vectors = vectors.where(memories.c.user == owner, memories.c.space == space).limit(_AT_ONCE)
    last = index.last
    while True:
        rows = (await connection.execute(vectors.where(memories.c.number > last))).all()
        if not rows:
            return
        last = rows[-1].number
        await asyncio.to_thread(index.add, [(row.number, row.vector) for row in rows])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
