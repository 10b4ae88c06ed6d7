"""What goes into the live model: the user's input, and answers in front of it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from genai_processors.content_api import ProcessorPart


class Inbox:
    """A queue that the model reads; answers overtake the input that waits.

    It ends when the input has ended, every call is answered, and the model has had the time to
    speak of the last answer.

    Args:
        settle_seconds: How long to wait for the model's last turn.
    """

    def __init__(self, settle_seconds: float) -> None:
        self.pending: set[str] = set()
        """Ids of the calls that have no answer yet."""
        self._answers: deque[ProcessorPart] = deque()
        self._input: deque[ProcessorPart] = deque()
        self._changed = asyncio.Event()
        self._input_ended = False
        self._turn_expected = False
        self._settle_seconds = settle_seconds

    def put(self, part: ProcessorPart) -> None:
        """Takes in what the user says; after the end of the input nothing more."""
        if not self._input_ended:
            self._input.append(part)
            self._changed.set()

    def put_answer(self, part: ProcessorPart) -> None:
        """Takes in the answer to a call."""
        self._answers.append(part)
        self._changed.set()

    def asked(self, call_id: str | None) -> None:
        """The model has made a call."""
        if call_id is not None:
            self.pending.add(call_id)

    def settled(self, call_id: str | None) -> None:
        """A call was answered or cancelled."""
        self.pending.discard(call_id or "")
        self._changed.set()

    def turn_ended(self) -> None:
        """The model has ended its turn."""
        self._turn_expected = False
        self._changed.set()

    def end_input(self) -> None:
        """The user says nothing more."""
        self._input_ended = True
        self._changed.set()

    async def parts(self) -> AsyncIterator[ProcessorPart]:
        """What the model is to read, in turn."""
        while True:
            while (part := self._next()) is not None:
                yield part
            if self._input_ended and not self.pending:
                if not self._turn_expected:
                    return
                if not await self._changes_within(self._settle_seconds):
                    return
            else:
                await self._changed.wait()

    def _next(self) -> ProcessorPart | None:
        self._changed.clear()
        if self._answers:
            self._turn_expected = True
            return self._answers.popleft()
        if not self._input:
            return None
        part = self._input.popleft()
        if not part.substream_name and part.get_metadata("turn_complete") is not False:
            self._turn_expected = True
        return part

    async def _changes_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True
