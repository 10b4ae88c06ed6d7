"""The queues of a live session; a barge-in drops the speech in them.

One leads from the model to the tools, and one from the tools to the listener.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from leonidas_tools.calls.queues import BoundedQueue
from leonidas_tools.processors.parts import EventPart
from leonidas_tools.processors.stage import add_dropped, put_part
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from genai_processors.content_api import ProcessorPart

logger = visible_logger(__name__)

_BURST = 64
_MAX_BYTES = 64 * 1024 * 1024
"""Bytes of speech and text that wait for the reader: twenty minutes of speech."""
_PART_BYTES = 1024
"""Size of a part without its content."""


class PartQueue:
    """A queue with one reader, so that a slow reader delays only itself.

    The progress events of calls are bounded. If very much speech and text waits, it is dropped.
    """

    def __init__(self) -> None:
        self._parts: BoundedQueue[ProcessorPart] = BoundedQueue(
            mark=add_dropped, size_of=_bytes_of, max_bytes=_MAX_BYTES, on_full=_drop_unread
        )
        self._since_barge_in = 0
        self._failure: BaseException | None = None

    def put(self, part: ProcessorPart) -> None:
        """Add a part, and drop the queued speech if the part signals a barge-in."""
        if part.metadata.get("interrupted"):
            # No speech waits before it: a scan of all parts for each barge-in would take long.
            self._parts.remove(is_speech, newest=self._since_barge_in)
            self._since_barge_in = 0
        self._since_barge_in += 1
        put_part(self._parts, part)

    def close(self, failure: BaseException | None = None) -> None:
        """End the stream, and raise the first failure to the reader after the last part."""
        self._failure = self._failure or failure
        self._parts.close()

    @property
    def is_drained(self) -> bool:
        """Return whether the reader has taken and handled all parts, and waits for more."""
        return self._parts.is_drained

    async def parts(self) -> AsyncIterator[ProcessorPart]:
        """Yield the parts in order."""
        passed = 0
        while True:
            await self._parts.wait()
            if not self._parts:
                break
            yield self._parts.popleft()
            passed += 1
            if passed % _BURST == 0:
                await asyncio.sleep(0)  # one message may have very many parts
        if self._failure is not None:
            raise self._failure


def _drop_unread(parts: BoundedQueue[ProcessorPart]) -> None:
    logger.warning("The listener is slow: the speech and text that wait are dropped")
    parts.remove(lambda waiting: _bytes_of(waiting) > 0)


def _bytes_of(part: ProcessorPart) -> int:
    """Return the size of a part with media, plain text or code, or 0 for any other part."""
    if isinstance(part, EventPart):  # which is encoded only when it is read
        return 0
    inner = part.part
    if inner.inline_data is not None:
        return len(inner.inline_data.data or b"") + _PART_BYTES
    if inner.text:
        return len(inner.text) + _PART_BYTES if part.mimetype == "text/plain" else 0
    if inner.executable_code is not None:  # which the model runs itself, as its output below
        return len(inner.executable_code.code or "") + _PART_BYTES
    if inner.code_execution_result is not None:
        return len(inner.code_execution_result.output or "") + _PART_BYTES
    return 0


def is_speech(part: ProcessorPart) -> bool:
    """Return whether a part of the model is audio."""
    blob = part.part.inline_data
    return blob is not None and (blob.mime_type or "").startswith("audio/")
