"""The queue of other writes: questions and answers, task lists, long results."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from leonidas_tools.errors import StoreError
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.store.database import may_be_the_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.store.database import Database

logger = visible_logger(__name__)

Write: TypeAlias = Callable[["AsyncConnection"], Awaitable[object]]
"""Writes something, in the transaction that it is given; made once more where that fails."""

_ERRAND_BYTES = 1024
_BATCH, _BATCH_BYTES = 64, 4 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Errand:
    """Something to write.

    Args:
        write: Writes it.
        size: How much it holds, in bytes.
    """

    write: Write
    size: int


class Errands:
    """Keeps what is to be written until it is, in its order, bounded in number and size.

    Args:
        most: How many may wait.
        max_bytes: How much they may hold together.

    Example:
        >>> errands = Errands(most=1, max_bytes=10_000)
        >>> async def write(connection): ...
        >>> errands.put(write), errands.put(write), errands.dropped
        (True, False, 1)
    """

    def __init__(self, *, most: int, max_bytes: int) -> None:
        self.dropped = 0
        """What there was no room for, and what the database would not take."""
        self._most = most
        self._max_bytes = max_bytes
        self._bytes = 0
        self._numbers = itertools.count()
        self._waiting: OrderedDict[Hashable, Errand] = OrderedDict()

    def __len__(self) -> int:
        """Return how many wait to be written."""
        return len(self._waiting)

    def put(self, write: Write, *, key: Hashable | None = None, size: int = 0) -> bool:
        """Take something that is to be written.

        Args:
            write: Writes it.
            key: What it is about: it takes the place of what waits under the same key.
            size: How much it holds, in bytes.

        Returns:
            Whether there was room.
        """
        key = next(self._numbers) if key is None else key
        errand, before = Errand(write=write, size=size + _ERRAND_BYTES), self._waiting.get(key)
        grown = errand.size - (0 if before is None else before.size)
        is_full = before is None and len(self._waiting) >= self._most
        if is_full or self._bytes + grown > self._max_bytes:
            if not self.dropped:
                logger.warning("Not everything is kept: more happens than the store can write")
            self.dropped += 1
            return False
        self._bytes += grown
        self._waiting[key] = errand
        return True

    async def write(self, database: Database) -> None:
        """Write the first of them; those that cannot be written stay.

        Raises:
            StoreError: Nothing can be written.
        """
        batch = self._first()
        if not batch:
            return
        try:
            await _write_together(database, [errand for _, errand in batch])
        except StoreError as error:
            if not may_be_the_values(error):
                raise
            await self._write_singly(database, batch)
        else:
            self._written(batch)

    def throw_away(self) -> None:
        """Forget the first of them, since they cannot be written."""
        batch = self._first()
        self.dropped += len(batch)
        self._written(batch)

    async def _write_singly(
        self, database: Database, batch: Sequence[tuple[Hashable, Errand]]
    ) -> None:
        """Write one by one, since one of them may be invalid."""
        for key, errand in batch:
            try:
                await _write_together(database, [errand])
            except StoreError as error:
                if not may_be_the_values(error):
                    raise
                logger.warning("Something is not kept, since the database refuses it")
                self.dropped += 1
            self._written([(key, errand)])

    def _first(self) -> list[tuple[Hashable, Errand]]:
        batch: list[tuple[Hashable, Errand]] = []
        size = 0
        for key, errand in itertools.islice(self._waiting.items(), _BATCH):
            size += errand.size
            if batch and size > _BATCH_BYTES:
                break
            batch.append((key, errand))
        return batch

    def _written(self, batch: Sequence[tuple[Hashable, Errand]]) -> None:
        for key, errand in batch:
            if self._waiting.get(key) is errand:  # and not what has taken its place meanwhile
                del self._waiting[key]
                self._bytes -= errand.size


async def _write_together(database: Database, errands: Sequence[Errand]) -> None:
    async with database.writing() as connection:
        for errand in errands:
            await errand.write(connection)
