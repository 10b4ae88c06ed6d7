"""The queue to the listener; a barge-in drops the speech in it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from leonidas_tools.processors.stage import parts_queue, progress_source

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from genai_processors.content_api import ProcessorPart

    from leonidas_tools.processors.stage import CoalescingQueue


_BURST = 64


class PartQueue:
    """A queue with one reader, so that a slow player delays only itself.

    Only the progress events of calls are bounded.
    """

    def __init__(self) -> None:
        self._parts: CoalescingQueue[ProcessorPart] = parts_queue()
        self._changed = asyncio.Event()
        self._closed = False
        self._reader_waits = False
        self._failure: BaseException | None = None

    def put(self, part: ProcessorPart) -> None:
        """Add a part, and drop the queued speech if the part signals a barge-in."""
        if self._parts and part.metadata.get("interrupted"):
            self._parts.remove(is_speech)
        source = progress_source(part)
        if source is None:
            self._parts.append(part)
        else:
            self._parts.append_replaceable(part, *source)
        self._changed.set()

    def close(self, failure: BaseException | None = None) -> None:
        """End the stream, and raise the first failure to the reader after the last part."""
        self._closed, self._failure = True, self._failure or failure
        self._changed.set()

    @property
    def is_drained(self) -> bool:
        """Return whether the reader has taken and handled all parts, and waits for more."""
        return self._reader_waits and not self._parts

    async def parts(self) -> AsyncIterator[ProcessorPart]:
        """Yield the parts in order."""
        passed = 0
        while True:
            while self._parts:
                yield self._parts.popleft()
                passed += 1
                if passed % _BURST == 0:
                    await asyncio.sleep(0)  # one message may have very many parts
            if self._closed:
                if self._failure is not None:
                    raise self._failure
                return
            self._changed.clear()
            self._reader_waits = True
            await self._changed.wait()
            self._reader_waits = False


def is_speech(part: ProcessorPart) -> bool:
    """Return whether a part of the model is audio."""
    blob = part.part.inline_data
    return blob is not None and (blob.mime_type or "").startswith("audio/")
