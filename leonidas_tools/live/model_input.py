"""The queue into the live model: the user's input, with function responses before it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from google.genai import types

from leonidas_tools.calls.queues import BoundedQueue
from leonidas_tools.processors.answers import with_dropped

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from genai_processors.content_api import ProcessorPart

_REMEMBERED_IDS = 4096
_SILENT = types.FunctionResponseScheduling.SILENT


class ModelInputQueue:
    """A queue that the model reads; function responses overtake waiting input.

    It ends when the input has ended, every call is answered, and the model has had time to reply
    to the last response.

    Args:
        settle_seconds: Seconds to wait for the model's last turn.
    """

    def __init__(self, settle_seconds: float) -> None:
        self.pending: set[str] = set()
        """Ids of the calls that have no final response yet."""
        self._settled: OrderedDict[str, None] = OrderedDict()
        self._answers: BoundedQueue[ProcessorPart] = BoundedQueue(mark=with_dropped)
        self._input: deque[ProcessorPart] = deque()
        self._changed = asyncio.Event()
        self._input_ended = False
        self._turn_expected = False
        self._settle_seconds = settle_seconds

    def put(self, part: ProcessorPart) -> None:
        """Add input of the user, but nothing after the end of the input."""
        if not self._input_ended:
            self._input.append(part)
            self._changed.set()

    def put_answer(self, call_id: str, part: ProcessorPart) -> bool:
        """Queue a response to a call; return `False` if the call was answered or cancelled."""
        if call_id in self._settled:
            return False
        response = part.function_response
        if response is not None and response.will_continue:
            dropped = (response.response or {}).get("dropped", 0)
            self._answers.put(part, call_id, dropped)
        else:
            self._settle(call_id)
            self._answers.put(part)
        self._changed.set()
        return True

    def put_late(self, part: ProcessorPart) -> None:
        """Queue the late result of a call that was answered already."""
        self._answers.put(part)
        self._changed.set()

    def asked(self, call_id: str) -> None:
        """Record a call of the model, or its repetition."""
        if call_id not in self._settled:
            self.pending.add(call_id)

    def cancelled(self, call_id: str) -> None:
        """Record a cancelled call, and drop its queued responses."""
        self._settle(call_id)
        self._answers.remove(lambda part: _answers(part) == call_id)
        self._changed.set()

    def turn_ended(self) -> None:
        """Record the end of the model's turn."""
        self._turn_expected = False
        self._changed.set()

    def end_input(self) -> None:
        """Record that the user's input has ended."""
        self._input_ended = True
        self._changed.set()

    async def parts(self) -> AsyncIterator[ProcessorPart]:
        """Yield the parts for the model: responses first, then input."""
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

    def _settle(self, call_id: str) -> None:
        self.pending.discard(call_id)
        self._settled[call_id] = None
        if len(self._settled) > _REMEMBERED_IDS:
            self._settled.popitem(last=False)

    def _next(self) -> ProcessorPart | None:
        self._changed.clear()
        if self._answers:
            answer = self._answers.popleft()
            response = answer.function_response
            if response is None or response.scheduling != _SILENT:
                self._turn_expected = True
            return answer
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


def _answers(part: ProcessorPart) -> str | None:
    """Return the id of the call that a part answers."""
    response = part.function_response
    return response.id if response is not None else None
