"""The queue in which parts, answers and messages wait for one reader."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")

MAX_OF_EACH: Final = 16
"""Limit of waiting replaceable items per source."""
MAX_REPLACEABLE: Final = 1024
"""Limit shared by all sources; the newest item of each source is always kept."""
_FEW: Final = 64


class _Replaceable(Generic[T]):
    """An item that newer items of its source may evict."""

    __slots__ = ("dropped", "is_gone", "item", "source")

    def __init__(self, item: T, source: Hashable, dropped: int) -> None:
        self.item: T | None = item
        self.source = source
        self.dropped = dropped
        self.is_gone = False


class BoundedQueue(Generic[T]):
    """A queue with one reader on one event loop, whose writers never wait.

    It keeps only the newest few items of a source. All others wait for the reader, up to
    `max_bytes`. `asyncio.Queue` costs three times as much for each item.

    Args:
        mark: Returns an item with the number of items of its source that were dropped before it.
        size_of: Returns the bytes of an item that has no source; 0 if it is never too much.
        max_bytes: The most bytes that wait.
        on_full: Called, also repeatedly, before an item that does not fit is added: removes items
            that have a size, or raises.

    Example:
        >>> queue = BoundedQueue(mark=lambda item, dropped: f"{item} ({dropped} dropped)")
        >>> for number in range(20):
        ...     queue.put(f"step {number}", source="call")
        >>> queue.put("answer")
        >>> len(queue), queue.popleft(), queue.popleft()
        (17, 'step 4 (4 dropped)', 'step 5')
    """

    __slots__ = (
        "_bytes", "_gone", "_items", "_mark", "_max_bytes", "_on_full", "_reader", "_size_of",
        "_waiting", "is_closed",
    )  # fmt: skip

    def __init__(
        self,
        *,
        mark: Callable[[T, int], T] = lambda item, _: item,
        size_of: Callable[[T], int] | None = None,
        max_bytes: float = math.inf,
        on_full: Callable[[BoundedQueue[T]], object] = lambda _: None,
    ) -> None:
        self._mark = mark
        self._size_of = size_of
        self._max_bytes = max_bytes
        self._on_full = on_full
        self._items: deque[T | _Replaceable[T]] = deque()
        self._waiting: dict[Hashable, deque[_Replaceable[T]]] = {}
        self._bytes = 0
        self._gone = 0
        self._reader: asyncio.Future[None] | None = None
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._items) - self._gone

    @property
    def is_drained(self) -> bool:
        """Return whether the reader has taken all items, and waits for more."""
        return self._reader is not None

    def put(self, item: T, source: Hashable = None, dropped: int = 0) -> None:
        """Add an item; if it has a source, drop the oldest of its source if too many wait.

        `dropped` is the number of items of the source that were dropped before.
        """
        if source is not None:
            self._put_replaceable(_Replaceable(item, source, dropped))
        else:
            if self._size_of is not None:
                self._make_room(self._size_of(item))
            self._items.append(item)
        if self._reader is not None:
            self._wake()

    def put_back(self, item: T) -> None:
        """Add an item that was taken, at the front; it is the next even if the queue is full."""
        if self._size_of is not None:
            self._bytes += self._size_of(item)
        self._items.appendleft(item)

    def close(self) -> None:
        """Let the reader know that no more items follow."""
        self.is_closed = True
        if self._reader is not None:
            self._wake()

    async def get(self) -> T:
        """Wait for the next item, remove it and return it."""
        await self.wait()
        return self.popleft()

    async def wait(self) -> None:
        """Wait until there is an item, or the queue is closed."""
        while len(self._items) == self._gone and not self.is_closed:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader

    def popleft(self) -> T:
        """Remove the oldest item and return it.

        Raises:
            IndexError: The queue is empty.
        """
        while True:
            first: Any = self._items.popleft()
            if type(first) is not _Replaceable:
                if self._size_of is not None:
                    self._bytes -= self._size_of(first)
                return first  # type: ignore[no-any-return]  # an item: a cast costs each part a call
            if first.is_gone:
                self._gone -= 1
                continue
            self._forget(first)
            item: Any = first.item
            kept: T = self._mark(item, first.dropped) if first.dropped else item
            return kept

    def remove(self, is_unwanted: Callable[[T], bool], newest: int | None = None) -> None:
        """Remove every item, or of the newest ones, for which `is_unwanted` is true."""
        kept: list[T | _Replaceable[T]] = []
        most = len(self._items)
        for _ in range(most if newest is None else min(newest, most)):
            each = self._items.pop()
            if not isinstance(each, _Replaceable):
                if not is_unwanted(each):
                    kept.append(each)
                elif self._size_of is not None:
                    self._bytes -= self._size_of(each)
            elif each.is_gone:
                self._gone -= 1
            elif is_unwanted(cast("T", each.item)):
                self._forget(each)
            else:
                kept.append(each)
        self._items.extend(reversed(kept))

    def remove_oldest(self, is_unwanted: Callable[[T], bool]) -> bool:
        """Remove the oldest item without a source that is unwanted; return whether there is one."""
        for index, each in enumerate(self._items):
            if not isinstance(each, _Replaceable) and is_unwanted(each):
                del self._items[index]
                if self._size_of is not None:
                    self._bytes -= self._size_of(each)
                return True
        return False

    def _put_replaceable(self, new: _Replaceable[T]) -> None:
        waiting = self._waiting.setdefault(new.source, deque())
        room = max(1, min(MAX_OF_EACH, MAX_REPLACEABLE // len(self._waiting)))
        while len(waiting) >= room:
            old = waiting.popleft()
            old.is_gone, old.item = True, None
            self._gone += 1
            (waiting[0] if waiting else new).dropped += old.dropped + 1
        waiting.append(new)
        self._items.append(new)
        if self._gone > max(_FEW, len(self._items) // 2):
            self._items = deque(each for each in self._items if not _is_gone(each))
            self._gone = 0

    def _make_room(self, size: int) -> None:
        while size and self._bytes and self._bytes + size > self._max_bytes:
            self._on_full(self)
        self._bytes += size

    def _forget(self, removed: _Replaceable[T]) -> None:
        waiting = self._waiting[removed.source]
        waiting.remove(removed)
        if not waiting:
            del self._waiting[removed.source]

    def _wake(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)


def _is_gone(item: object) -> bool:
    return isinstance(item, _Replaceable) and item.is_gone
