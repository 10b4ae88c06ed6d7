"""The queues of the store's writes: ordered, with limits of number and size."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Collection, Sequence

    from sqlalchemy.ext.asyncio import AsyncConnection

logger = visible_logger(__name__)

Row: TypeAlias = dict[str, Any]
Write: TypeAlias = Callable[["AsyncConnection"], Awaitable[object]]
"""Writes in the transaction of the connection; called again if the transaction fails."""

ENDING_BYTES = 512
"""The bytes reserved for the end of each open call, which may be stored without long texts."""
_ROW_BYTES = 1024
"""The bytes of a row without its long texts."""
_RECORD_BYTES = 1024
"""The bytes of any other write beside its content."""
_BATCH, _BATCH_BYTES = 64, 4 * 1024 * 1024
_LONG_TEXTS = ("arguments", "result", "message", "steps")


@dataclass(slots=True, eq=False)
class CallWrite:
    """The pending write of one call, whose row has `id`; its size is in bytes."""

    id: str
    row: Row | None
    """All columns of a new row; `None` once it is written."""
    ending: Row | None = None
    """The columns that the end of the call sets in a written row."""
    is_open: bool = False
    """True while the call has begun and not ended."""
    size: int = 0
    waiting: list[Future[bool]] = field(default_factory=list)
    """Futures that are resolved once the row is written."""


class CallWriteQueue:
    """The queue of calls: keeps their rows until they are written.

    A call has one entry from its start to its end, so that the end of a call whose start was
    queued is never lost. A call whose start exceeded a limit may be queued when it ends. Open
    calls count towards `max_calls`.

    Example:
        >>> calls = CallWriteQueue(max_calls=1, max_bytes=10_000)
        >>> calls.begin("first", {"id": "1", "arguments": "{}"})
        True
        >>> calls.begin("second", {"id": "2", "arguments": "{}"})
        False
        >>> calls.end("first", {"status": "ok", "result": "3"})
        True
        >>> [(entry.row["id"], entry.row["status"]) for entry in calls.take(10)]
        [('1', 'ok')]
    """

    def __init__(self, *, max_calls: int, max_bytes: int) -> None:
        self.dropped = 0
        """The number of calls that exceeded a limit both at their start and at their end."""
        self.cut = 0
        """The number of calls whose long texts exceeded a limit at their end."""
        self.calls = 0
        """The number of calls with an entry."""
        self.size = 0
        """The bytes of all entries, including those reserved for the ends of calls."""
        self._max_calls = max_calls
        self._max_bytes = max_bytes
        self._open: dict[Hashable, CallWrite] = {}
        self._waiting: dict[str, CallWrite] = {}
        self._taken: dict[str, CallWrite] = {}

    def __len__(self) -> int:
        """Return the number of entries to write."""
        return len(self._waiting) + len(self._taken)

    @property
    def open_calls(self) -> int:
        """Return the number of open calls."""
        return len(self._open)

    def find(self, key: Hashable) -> CallWrite | None:
        """Return the entry of an open call."""
        return self._open.get(key)

    def is_open(self, id_: str) -> bool:
        """Return whether the call of that row has begun and not ended."""
        return any(entry.id == id_ for entry in self._open.values())

    def begin(self, key: Hashable, row: Row) -> bool:
        """Queue the start of a call, with all columns of its row; return `False` beyond a limit."""
        entry = self._add(row, _size(row) + ENDING_BYTES)
        if entry is None:
            return False
        entry.is_open = True
        self._open[key] = entry
        return True

    def add(self, row: Row) -> bool:
        """Queue a call whose start is not queued; return `False` beyond a limit."""
        taken = self._add(row, _size(row)) is not None
        self.dropped += not taken
        return taken

    def end(self, key: Hashable, ending: Row) -> bool:
        """Queue the end of an open call, without its long texts if they exceed the limit.

        Return whether there is such a call.
        """
        entry = self._open.pop(key, None)
        if entry is None:
            return False
        grown = _texts(ending)
        if grown > self._max_bytes - self.size:
            ending = {name: None if name in _LONG_TEXTS else ending[name] for name in ending}
            grown = 0
            self.cut += 1
        entry.is_open = False
        self._resize(entry, entry.size + grown)
        if entry.row is not None and entry.id in self._waiting:
            entry.row.update(ending)
        else:
            entry.ending = ending
            if entry.id not in self._taken:
                self._waiting[entry.id] = entry
        return True

    def take(self, most: int) -> list[CallWrite]:
        """Return the first entries in order, the same ones until they are written."""
        while self._waiting and len(self._taken) < most:
            id_ = next(iter(self._waiting))
            self._taken[id_] = self._waiting.pop(id_)
        return list(self._taken.values())

    def written(self, refused: Collection[str] = ()) -> None:
        """Remove the taken entries, which are written, except for the refused ones."""
        taken, self._taken = self._taken, {}
        for entry in taken.values():
            for future in entry.waiting:
                if not future.done():
                    future.set_result(entry.id not in refused)
            entry.waiting.clear()
            self._settle(entry)

    def report_failure(self) -> None:
        """Resolve the futures of waiting callers with `False`, since nothing is written yet."""
        for entry in (*self._taken.values(), *self._waiting.values()):
            for future in entry.waiting:
                if not future.done():
                    future.set_result(False)
            entry.waiting.clear()

    def _settle(self, entry: CallWrite) -> None:
        """Keep the entry of a written row for the end of its call, or remove it."""
        was_row, entry.row = entry.row, None
        if was_row is not None and (entry.is_open or entry.ending is not None):
            self._resize(entry, ENDING_BYTES + _texts(entry.ending or {}))
            if entry.ending is not None:
                self._waiting[entry.id] = entry
            return
        self._resize(entry, 0)
        self.calls -= 1

    def _add(self, row: Row, size: int) -> CallWrite | None:
        if self.calls >= self._max_calls or size > self._max_bytes - self.size:
            return None
        entry = CallWrite(id=row["id"], row=row)
        self.calls += 1
        self._resize(entry, size)
        self._waiting[entry.id] = entry
        return entry

    def _resize(self, entry: CallWrite, size: int) -> None:
        self.size += size - entry.size
        entry.size = size


def _size(row: Row) -> int:
    return _ROW_BYTES + _texts(row)


def _texts(row: Row) -> int:
    """Return the bytes of the long texts; an upper bound if they are not ASCII."""
    size = 0
    for key in _LONG_TEXTS:
        text = row.get(key)
        if text is not None:
            size += len(text) if text.isascii() else 4 * len(text)
    return size


@dataclass(frozen=True, slots=True, eq=False)
class PendingWrite:
    """A waiting write, its key, and its size in bytes."""

    key: Hashable
    write: Write
    size: int


class PendingWrites:
    """The queue of other writes: questions and answers, task lists, long results.

    It has its own limits of number and size, so that many calls do not displace answers. A write
    stays in the queue until it is written, and replaces the waiting write of the same key.

    Example:
        >>> records = PendingWrites(most=1, max_bytes=10_000)
        >>> async def write(connection): ...
        >>> records.put(write), records.put(write), records.dropped
        (True, False, 1)
    """

    def __init__(self, *, most: int, max_bytes: int) -> None:
        self.dropped = 0
        """The number of writes beyond a limit, or refused by the database."""
        self._most = most
        self._max_bytes = max_bytes
        self._bytes = 0
        self._numbers = itertools.count()
        self._waiting: OrderedDict[Hashable, PendingWrite] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of waiting writes."""
        return len(self._waiting)

    def put(self, write: Write, *, key: Hashable | None = None, size: int = 0) -> bool:
        """Queue a write of `size` bytes; return `False` beyond a limit."""
        key = next(self._numbers) if key is None else key
        record, before = PendingWrite(key, write, size + _RECORD_BYTES), self._waiting.get(key)
        grown = record.size - (0 if before is None else before.size)
        is_full = before is None and len(self._waiting) >= self._most
        if is_full or self._bytes + grown > self._max_bytes:
            if not self.dropped:
                logger.warning("Some records are not stored: the store is too slow for them")
            self.dropped += 1
            return False
        self._bytes += grown
        self._waiting[key] = record
        return True

    def first_batch(self) -> list[PendingWrite]:
        """Return the first writes in order, the same ones until they are done."""
        batch: list[PendingWrite] = []
        size = 0
        for record in itertools.islice(self._waiting.values(), _BATCH):
            size += record.size
            if batch and size > _BATCH_BYTES:
                break
            batch.append(record)
        return batch

    def done(self, batch: Sequence[PendingWrite], *, is_written: bool) -> None:
        """Remove writes that are written, or that never will be."""
        if not is_written:
            self.dropped += len(batch)
        for record in batch:
            if self._waiting.get(record.key) is record:  # not if it was replaced meanwhile
                del self._waiting[record.key]
                self._bytes -= record.size
