"""The base of all stages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from genai_processors import context as context_lib
from genai_processors import processor

from leonidas_tools.calls.events import EventKind
from leonidas_tools.calls.queues import BoundedQueue
from leonidas_tools.processors.parts import EventPart

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from genai_processors.content_api import ProcessorPart

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
    ready: BoundedQueue[ProcessorPart] = BoundedQueue(mark=add_dropped)

    async def read() -> None:
        try:
            async with processor.context():
                async for part in parts:
                    put_part(ready, part)
        finally:
            ready.close()

    reading = asyncio.create_task(read())
    try:
        while True:
            await ready.wait()
            if not ready:
                break
            yield ready.popleft()
    except BaseException:
        reading.cancel()  # the reader has left: the input may never end by itself
        await asyncio.wait([reading])
        raise
    await reading


def put_part(queue: BoundedQueue[Any], part: ProcessorPart) -> None:
    """Add a part to a queue, which keeps only the newest progress events of each call."""
    if type(part) is EventPart and part.event.kind is _PROGRESS:
        queue.put(part, part.event.call.trace_id, part.event.dropped)
    else:
        queue.put(part)


def add_dropped(item: object, count: int) -> EventPart:
    """Return a progress event with the number of events dropped before it."""
    assert isinstance(item, EventPart)
    return item.with_dropped(count)
