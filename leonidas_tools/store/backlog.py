"""The queue of calls to be written: bounded in number and size, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Collection, Hashable

Row: TypeAlias = dict[str, Any]

ENDING_BYTES = 512
"""What is kept free for the end of each call that has begun, which may do without long texts."""
_ROW_BYTES = 1024
"""What a row takes beside its long texts."""
_LONG_TEXTS = ("arguments", "result", "message", "steps")


@dataclass(slots=True, eq=False)
class Entry:
    """The pending write of one call.

    Args:
        id: The id of its row.
        row: All columns of a new row; `None` once it is written.
        ending: The columns that the call's end sets in a row that is written.
        is_open: Whether the call has begun and not ended.
        size: How much it holds, in bytes.
        waiting: Resolved once the row is written.
    """

    id: str
    row: Row | None
    ending: Row | None = None
    is_open: bool = False
    size: int = 0
    waiting: list[Future[bool]] = field(default_factory=list)


class Backlog:
    """Keeps what is to be written until it is.

    A call has one entry from its start to its end, so that the end of a call whose start was taken
    is never lost. A call that there was no room for when it began may be taken when it ends.

    Args:
        max_calls: How many calls may have an entry, those included that have begun and not ended.
        max_bytes: How much they may hold together.

    Example:
        >>> backlog = Backlog(max_calls=1, max_bytes=10_000)
        >>> backlog.begin("first", {"id": "1", "arguments": "{}"})
        True
        >>> backlog.begin("second", {"id": "2", "arguments": "{}"})
        False
        >>> backlog.end("first", {"status": "ok", "result": "3"})
        True
        >>> [(entry.row["id"], entry.row["status"]) for entry in backlog.take(10)]
        [('1', 'ok')]
    """

    def __init__(self, *, max_calls: int, max_bytes: int) -> None:
        self.dropped = 0
        """Calls that there was no room for, neither when they began nor when they ended."""
        self.cut = 0
        """Calls whose results there was no room for."""
        self.calls = 0
        """How many calls have an entry."""
        self.size = 0
        """How much the entries hold, in bytes, with what is kept free for the ends of calls."""
        self._max_calls = max_calls
        self._max_bytes = max_bytes
        self._open: dict[Hashable, Entry] = {}
        self._waiting: dict[str, Entry] = {}
        self._taken: dict[str, Entry] = {}

    def __len__(self) -> int:
        """Return how many entries wait to be written."""
        return len(self._waiting) + len(self._taken)

    @property
    def open_calls(self) -> int:
        """Return how many calls have begun and not ended."""
        return len(self._open)

    def find(self, key: Hashable) -> Entry | None:
        """Return the entry of a call that has begun and not ended.

        Args:
            key: What it began under.
        """
        return self._open.get(key)

    def begin(self, key: Hashable, row: Row) -> bool:
        """Take a call that begins.

        Args:
            key: Names the call until it ends.
            row: All its columns; `id` is one.

        Returns:
            Whether there was room.
        """
        entry = self._add(row, _size(row) + ENDING_BYTES)
        if entry is None:
            return False
        entry.is_open = True
        self._open[key] = entry
        return True

    def add(self, row: Row) -> bool:
        """Take a call that ends without having begun.

        Args:
            row: All its columns; `id` is one.

        Returns:
            Whether there was room.
        """
        taken = self._add(row, _size(row)) is not None
        self.dropped += not taken
        return taken

    def end(self, key: Hashable, ending: Row) -> bool:
        """Take the end of a call that has begun; its result only where there is room for it.

        Args:
            key: What it began under.
            ending: The columns that its end sets.

        Returns:
            Whether such a call has begun.
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

    def take(self, most: int) -> list[Entry]:
        """Return the first entries, in their order; the same ones each time until they are written.

        Args:
            most: How many at most.
        """
        while self._waiting and len(self._taken) < most:
            id_ = next(iter(self._waiting))
            self._taken[id_] = self._waiting.pop(id_)
        return list(self._taken.values())

    def written(self, refused: Collection[str] = ()) -> None:
        """Note that what was taken is written, or never will be.

        Args:
            refused: The ids of what never will be.
        """
        taken, self._taken = self._taken, {}
        for entry in taken.values():
            for future in entry.waiting:
                if not future.done():
                    future.set_result(entry.id not in refused)
            entry.waiting.clear()
            self._settle(entry)

    def disappoint(self) -> None:
        """Tell the waiting callers that it cannot be written now; it is written later."""
        for entry in (*self._taken.values(), *self._waiting.values()):
            for future in entry.waiting:
                if not future.done():
                    future.set_result(False)
            entry.waiting.clear()

    def _settle(self, entry: Entry) -> None:
        """Go on with a call whose row is written, or whose ending is."""
        was_row, entry.row = entry.row, None
        if was_row is not None and (entry.is_open or entry.ending is not None):
            self._resize(entry, ENDING_BYTES + _texts(entry.ending or {}))
            if entry.ending is not None:
                self._waiting[entry.id] = entry
            return
        self._resize(entry, 0)
        self.calls -= 1

    def _add(self, row: Row, size: int) -> Entry | None:
        if self.calls >= self._max_calls or size > self._max_bytes - self.size:
            return None
        entry = Entry(id=row["id"], row=row)
        self.calls += 1
        self._resize(entry, size)
        self._waiting[entry.id] = entry
        return entry

    def _resize(self, entry: Entry, size: int) -> None:
        self.size += size - entry.size
        entry.size = size


def _size(row: Row) -> int:
    return _ROW_BYTES + _texts(row)


def _texts(row: Row) -> int:
    """Return what the long texts take; where they are not ASCII, at most."""
    size = 0
    for key in _LONG_TEXTS:
        text = row.get(key)
        if text is not None:
            size += len(text) if text.isascii() else 4 * len(text)
    return size
