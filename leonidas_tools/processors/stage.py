"""The base of all stages, and the queues in which their output waits.

A queue has one reader on one event loop. It is unbounded for items that must not be lost. It keeps
only the newest few progress events of a call, so that a slow reader does not exhaust the memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from genai_processors import context as context_lib
from genai_processors import processor

from leonidas_tools.calls.events import EventKind
from leonidas_tools.processors.parts import EventPart

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Hashable

    from genai_processors.content_api import ProcessorPart

T = TypeVar("T")

MAX_OF_EACH: Final = 16
"""Limit of waiting replaceable items per source."""
MAX_REPLACEABLE: Final = 1024
"""Limit shared by all sources; the newest item of each source is always kept."""
_FEW: Final = 64
_PROGRESS = EventKind.PROGRESS


class _ClosesWithReader(processor.Processor):
    """A processor that stops with its reader, also outside `processor.context()`."""

    def _call_impl(self, content: Any, current_trace: Any) -> AsyncIterator[ProcessorPart]:  # type: ignore[misc]  # final upstream
        parts: AsyncIterator[ProcessorPart] = super()._call_impl(content, current_trace)  # type: ignore[assignment]  # it is one
        # Without a context upstream reads a stage as fast as it can, into a queue without bounds,
        # and waits for the end of the input when the reader is cancelled.
        return parts if context_lib.task_group() is not None else _read_in_context(parts)


class Stage(_ClosesWithReader):
    """A processor whose `+` accepts any processor; upstream's type accepts only its own class."""

    def __add__(self, other: processor.Processor | processor.PartProcessor) -> Chain:
        if not isinstance(other, processor.Processor | processor.PartProcessor):
            raise TypeError(f"{other!r} cannot be added to a stage: give a processor")
        return Chain([self]) + other


class Chain(_ClosesWithReader, processor._ChainProcessor):  # noqa: SLF001 - upstream has no public name
    """A chain that begins with a stage."""

    def __add__(self, other: processor.Processor | processor.PartProcessor) -> Chain:
        if not isinstance(other, processor.Processor | processor.PartProcessor):
            raise TypeError(f"{other!r} cannot be added to a chain: give a processor")
        added = other._processors if isinstance(other, processor._ChainProcessor) else [other]
        return Chain([*self._processors, *added])


async def _read_in_context(parts: AsyncIterator[ProcessorPart]) -> AsyncIterator[ProcessorPart]:
    """Yield the parts, read in a separate context, and keep only the newest progress events."""
    ready: Mailbox[ProcessorPart | None] = Mailbox(add_dropped)

    async def read() -> None:
        try:
            async with processor.context():
                async for part in parts:
                    source = progress_source(part)
                    if source is None:
                        ready.put(part)
                    else:
                        ready.put_replaceable(part, *source)
        finally:
            ready.put(None)

    reading = asyncio.create_task(read())
    try:
        while (part := await ready.get()) is not None:
            yield part
    except BaseException:
        reading.cancel()  # the reader has left: the input may never end by itself
        await asyncio.wait([reading])
        raise
    await reading


def progress_source(part: ProcessorPart) -> tuple[str, int] | None:
    """Return the call of a progress event, and the number of events dropped before it."""
    if type(part) is EventPart and part.event.kind is _PROGRESS:
        return part.event.call.trace_id, part.event.dropped
    return None


def parts_queue() -> CoalescingQueue[ProcessorPart]:
    """Return a queue of parts that keeps only the newest few progress events of a call."""
    return CoalescingQueue(add_dropped)


def add_dropped(item: object, count: int) -> EventPart:
    """Return a progress event with the number of events dropped before it."""
    assert isinstance(item, EventPart)
    return item.with_dropped(count)


class _Replaceable(Generic[T]):
    """An item that newer items of its source may evict."""

    __slots__ = ("dropped", "is_gone", "item", "source")

    def __init__(self, item: T, source: Hashable, dropped: int) -> None:
        self.item: T | None = item
        self.source = source
        self.dropped = dropped
        self.is_gone = False


class CoalescingQueue(Generic[T]):
    """A queue in which the newest item of a source may replace its oldest.

    `mark` returns an item with the number of items of its source that were dropped before it.

    Example:
        >>> queue = CoalescingQueue(mark=lambda item, dropped: f"{item} ({dropped} dropped)")
        >>> for number in range(20):
        ...     queue.append_replaceable(f"step {number}", source="call")
        >>> queue.append("answer")
        >>> len(queue), queue.popleft(), queue.popleft()
        (17, 'step 4 (4 dropped)', 'step 5')
    """

    __slots__ = ("_gone", "_items", "_mark", "_waiting")

    def __init__(self, mark: Callable[[T, int], T]) -> None:
        self._mark = mark
        self._items: deque[T | _Replaceable[T]] = deque()
        self._waiting: dict[Hashable, deque[_Replaceable[T]]] = {}
        self._gone = 0

    def __len__(self) -> int:
        return len(self._items) - self._gone

    def append(self, item: T) -> None:
        """Add an item that is never dropped."""
        self._items.append(item)

    def append_replaceable(self, item: T, source: Hashable, dropped: int = 0) -> None:
        """Add an item, and drop the oldest of its source if too many wait."""
        new = _Replaceable(item, source, dropped)
        waiting = self._waiting.setdefault(source, deque())
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

    def popleft(self) -> T:
        """Remove the oldest item and return it.

        Raises:
            IndexError: The queue is empty.
        """
        while True:
            first: Any = self._items.popleft()
            if type(first) is not _Replaceable:
                return first  # type: ignore[no-any-return]  # an item: a cast costs each part a call
            if first.is_gone:
                self._gone -= 1
                continue
            waiting = self._waiting[first.source]
            waiting.popleft()
            if not waiting:
                del self._waiting[first.source]
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
            elif each.is_gone:
                self._gone -= 1
            elif is_unwanted(cast("T", each.item)):
                self._forget(each)
            else:
                kept.append(each)
        self._items.extend(reversed(kept))

    def _forget(self, removed: _Replaceable[T]) -> None:
        waiting = self._waiting[removed.source]
        waiting.remove(removed)
        if not waiting:
            del self._waiting[removed.source]


def _is_gone(item: object) -> bool:
    return isinstance(item, _Replaceable) and item.is_gone


class Mailbox(CoalescingQueue[T]):
    """A `CoalescingQueue` whose reader can wait for items.

    `asyncio.Queue` counts unfinished tasks and keeps a list of waiting readers and writers, which
    costs three times as much for each part. This queue has one reader.
    """

    __slots__ = ("_reader",)

    def __init__(self, mark: Callable[[T, int], T]) -> None:
        super().__init__(mark)
        self._reader: asyncio.Future[None] | None = None

    def put(self, item: T) -> None:
        """Add an item, and wake the reader."""
        self._items.append(item)
        if self._reader is not None:
            self._wake(self._reader)

    def put_replaceable(self, item: T, source: Hashable, dropped: int = 0) -> None:
        """Add an item that newer ones of its source may replace, and wake the reader."""
        self.append_replaceable(item, source, dropped)
        if self._reader is not None:
            self._wake(self._reader)

    async def get(self) -> T:
        """Wait for the next item and return it."""
        await self.wait()
        return self.popleft()

    async def wait(self) -> None:
        """Wait until there is an item, and leave it in the queue for `popleft`."""
        while len(self._items) == self._gone:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader

    def _wake(self, reader: asyncio.Future[None]) -> None:
        self._reader = None
        if not reader.done():
            reader.set_result(None)
