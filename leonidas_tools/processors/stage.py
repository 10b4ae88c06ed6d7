"""The base of all stages: processors that can be added to any other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from genai_processors import context as context_lib
from genai_processors import processor

from leonidas_tools.calls.events import EventKind
from leonidas_tools.processors.mailbox import CoalescingQueue, Mailbox
from leonidas_tools.processors.parts import EventPart

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from genai_processors.content_api import ProcessorPart

_PROGRESS = EventKind.PROGRESS


class _Closing(processor.Processor):
    """A processor that ends with its reader, also outside `processor.context()`."""

    def _call_impl(self, content: Any, current_trace: Any) -> AsyncIterator[ProcessorPart]:  # type: ignore[misc]  # final upstream
        parts: AsyncIterator[ProcessorPart] = super()._call_impl(content, current_trace)  # type: ignore[assignment]  # it is one
        # Without a context upstream reads a stage as fast as it can, into a queue without bounds,
        # and waits for the end of the input when the reader is cancelled.
        return parts if context_lib.task_group() is not None else _with_context(parts)


class Stage(_Closing):
    """A processor whose `+` is typed for any other; upstream's takes only one of its own class."""

    def __add__(self, other: processor.Processor | processor.PartProcessor) -> Chain:
        if not isinstance(other, processor.Processor | processor.PartProcessor):
            raise TypeError(f"{other!r} cannot be added to a stage: give a processor")
        return Chain([self]) + other


class Chain(_Closing, processor._ChainProcessor):  # noqa: SLF001 - upstream has no public name
    """A chain that begins with a stage."""

    def __add__(self, other: processor.Processor | processor.PartProcessor) -> Chain:
        if not isinstance(other, processor.Processor | processor.PartProcessor):
            raise TypeError(f"{other!r} cannot be added to a chain: give a processor")
        added = other._processors if isinstance(other, processor._ChainProcessor) else [other]
        return Chain([*self._processors, *added])


async def _with_context(parts: AsyncIterator[ProcessorPart]) -> AsyncIterator[ProcessorPart]:
    """Yield the parts, read in a context of their own; of progress only the newest wait."""
    ready: Mailbox[ProcessorPart | None] = Mailbox(_with_dropped)

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
    """Return the call whose progress a part tells, and how much before it was dropped already."""
    if type(part) is EventPart and part.event.kind is _PROGRESS:
        return part.event.call.trace_id, part.event.dropped
    return None


def parts_queue() -> CoalescingQueue[ProcessorPart]:
    """Return a queue of parts in which the newest few of a call's progress wait."""
    return CoalescingQueue(_with_dropped)


def _with_dropped(part: ProcessorPart | None, count: int) -> ProcessorPart:
    assert isinstance(part, EventPart)
    return part.with_dropped(count)
