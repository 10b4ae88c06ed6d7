"""Long results of a session, in memory for now and in the database for later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.errors import StoreError

if TYPE_CHECKING:
    from leonidas_tools.results.spill import Piece, ResultMemory
    from leonidas_tools.store.results import ResultTable
    from leonidas_tools.store.writer import Writer


class KeptResults:
    """Keeps the long results of one session, and has no call wait for a disk.

    Args:
        table: Where they can be read after a restart.
        writer: Writes them.
        memory: Where they can be read meanwhile.
    """

    def __init__(self, table: ResultTable, writer: Writer, memory: ResultMemory) -> None:
        self.memory = memory
        self._table = table
        self._writer = writer

    async def put(self, content: bytes, *, mime_type: str, session: str | None) -> str:
        """Keep a result.

        Args:
            content: All of it, without secrets.
            mime_type: What it is.
            session: The conversation it belongs to.

        Raises:
            StoreError: It is longer than all in memory may be together.
        """
        handle = await self.memory.put(content, mime_type=mime_type)
        write = self._table.putting(handle, content, mime_type=mime_type, session=session)
        self._writer.put(write, size=len(content))
        return handle

    async def read(
        self, handle: str, *, offset: int, limit: int | None, session: str | None
    ) -> Piece:
        """Return a piece of a result.

        Args:
            handle: What `put` has returned, in this process or in an earlier one.
            offset: Where the piece begins, in bytes.
            limit: How long it is at most, in bytes.
            session: Who asks.

        Raises:
            StoreError: There is no such result, or no longer, or it cannot be read.
        """
        try:
            return await self.memory.read(handle, offset=offset, limit=limit)
        except StoreError:
            return await self._table.read(handle, offset=offset, limit=limit, session=session)
