"""The user's side of a conversation: what is typed, and what the microphone hears."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from genai_processors.content_api import ProcessorPart

from leonidas_tools.cli.voice.interface import MICROPHONE_HERTZ

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from leonidas_tools.cli.voice.interface import Microphone

_MOST_WAITING = 64
_REALTIME = "realtime"
_MIME_TYPE = f"audio/pcm;rate={MICROPHONE_HERTZ}"


async def spoken(
    microphone: Microphone, ended: asyncio.Event | None = None
) -> AsyncIterator[ProcessorPart]:
    """Yield the sound of a microphone in real time.

    Args:
        microphone: The microphone, open.
        ended: Set when it hears nothing more.
    """
    async for frame in microphone.frames():
        yield ProcessorPart(frame, mimetype=_MIME_TYPE, role="user", substream_name=_REALTIME)
    yield ProcessorPart(
        "", role="user", substream_name=_REALTIME, metadata={"audio_stream_end": True}
    )
    if ended is not None:
        ended.set()


async def together(
    sources: list[AsyncIterator[ProcessorPart]], until: Callable[[], Awaitable[object]]
) -> AsyncGenerator[ProcessorPart]:
    """Yield the parts of several sources as they come, until something has happened.

    Args:
        sources: Where the parts come from; that they end means nothing.
        until: Ends it all when it returns.
    """
    parts: asyncio.Queue[ProcessorPart | BaseException | None] = asyncio.Queue(_MOST_WAITING)
    tasks = [asyncio.create_task(_pump(source, parts)) for source in sources]
    tasks.append(asyncio.create_task(_end(until, parts)))
    try:
        while (part := await parts.get()) is not None:
            if isinstance(part, BaseException):
                raise part
            yield part
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _pump(
    source: AsyncIterator[ProcessorPart],
    parts: asyncio.Queue[ProcessorPart | BaseException | None],
) -> None:
    try:
        async for part in source:
            await parts.put(part)
    except Exception as error:  # noqa: BLE001 - carried to the reader of the parts
        await parts.put(error)


async def _end(
    until: Callable[[], Awaitable[object]],
    parts: asyncio.Queue[ProcessorPart | BaseException | None],
) -> None:
    await until()
    await parts.put(None)
