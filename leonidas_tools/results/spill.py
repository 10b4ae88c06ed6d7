"""Results that are too long for the model, stored so that the model can read the rest."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from leonidas_tools.errors import StoreError

_MAX_BYTES = 16 * 1024 * 1024


class Piece(Protocol):
    """A piece of a stored result."""

    @property
    def content(self) -> bytes:
        """Return the bytes of the piece."""

    @property
    def size(self) -> int:
        """Return the size of the whole result in bytes."""


class KeepsResults(Protocol):
    """A store of long results: in memory, or in a database."""

    async def put(self, content: bytes, *, mime_type: str, session: str | None) -> str:
        """Store a result, and return a handle for it."""
        ...

    async def read(
        self, handle: str, *, offset: int, limit: int | None, session: str | None
    ) -> Piece:
        """Return a piece of a result, and raise `StoreError` if there is no such result."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class _StoredPiece:
    content: bytes
    size: int


class ResultMemory:
    """Stores results in memory; drops the oldest beyond `max_bytes`."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    async def put(
        self,
        content: bytes,
        *,
        mime_type: str = "text/plain",
        session: str | None = None,  # noqa: ARG002 - each session has its own memory
    ) -> str:
        """Store a result, and return a handle for it.

        Raises:
            StoreError: The result is longer than `max_bytes`.
        """
        if len(content) > self.max_bytes:
            raise StoreError(f"A {mime_type} of {len(content)} bytes is too long to be kept")
        handle = f"result-{secrets.token_hex(8)}"
        self._kept[handle] = content
        self._bytes += len(content)
        while self._bytes > self.max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest)
        return handle

    async def read(
        self,
        handle: str,
        *,
        offset: int = 0,
        limit: int | None = None,
        session: str | None = None,  # noqa: ARG002 - each session has its own memory
    ) -> Piece:
        """Return a piece of a result.

        Raises:
            StoreError: There is no such result, or it was dropped.
        """
        content = self._kept.get(handle)
        if content is None:
            raise StoreError(f"There is no result {handle!r}, or no longer: make the call again")
        end = None if limit is None else offset + limit
        return _StoredPiece(content=content[offset:end], size=len(content))


class Results:
    """The store of a session's long results.

    Args:
        keeps: Whether long results are stored; otherwise they are cut.

    Example:
        >>> import asyncio
        >>> from leonidas_tools.calls.call import ToolSession
        >>> results = ToolSession("kitchen").get(Results)
        >>> handle = asyncio.run(results.store.put(b"long", mime_type="text/plain", session="k"))
        >>> asyncio.run(results.store.read(handle, offset=1, limit=2, session="k")).content
        b'on'
    """

    __slots__ = ("keeps", "store")

    def __init__(self, *, keeps: bool = True) -> None:
        self.keeps = keeps
        self.store: KeepsResults = ResultMemory()
        """By default the memory of this session; an application may set a database."""
