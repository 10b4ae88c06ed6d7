"""Detect dead air, which is silence while a call keeps the user waiting, and fill it."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from genai_processors.content_api import ProcessorPart
from google.genai import types

from leonidas_tools.calls.events import EventKind
from leonidas_tools.live.live_events import status_part
from leonidas_tools.live.media import seconds_of
from leonidas_tools.live.part_queue import is_speech
from leonidas_tools.live.tool_options import Filler, filler_for, wording_of
from leonidas_tools.processors.parts import TOOL_EVENT, StatusPart
from leonidas_tools.redaction import described
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from leonidas_tools.runtime.runtime import ToolRuntime

logger = visible_logger(__name__)

_SPOKEN = ("", "input_transcription", "output_transcription")


@dataclass(slots=True)
class _OpenCall:
    since: float
    filler: Filler
    filled: bool = False


class DeadAir:
    """Detects silence while calls are open, and fills it once for each call.

    A filler is due when its call has been open, and the user and the model silent, for
    `after_seconds`. The model counts as speaking until its audio has been played. A filler also
    ends the silence, so that the fillers of several calls do not come all at once.

    Create and use it on one event loop. It has one timer while a filler may come.

    `fill` is called with the id of the call and its filler. It must return at once; an exception
    that it raises is logged.

    Example:
        >>> async def search_for_three_seconds() -> None:
        ...     dead_air = DeadAir(lambda call_id, filler: print(call_id, filler.sentence))
        ...     dead_air.called("c1", Filler(after_seconds=0.01, sentence="One moment."))
        ...     await asyncio.sleep(0.03)
        ...     dead_air.answered("c1")
        ...     dead_air.close()
        >>> asyncio.run(search_for_three_seconds())
        c1 One moment.
    """

    def __init__(self, fill: Callable[[str, Filler], None]) -> None:
        self._fill = fill
        self._loop = asyncio.get_running_loop()
        self._calls: dict[str, _OpenCall] = {}
        self._silent_since = self._loop.time()
        """Time at which the last audio ends; it may lie in the future."""
        self._timer: asyncio.TimerHandle | None = None

    def called(self, call_id: str, filler: Filler | None) -> None:
        """Record a call of the model, unless it is open already."""
        if filler is not None and call_id not in self._calls:
            self._calls[call_id] = _OpenCall(self._loop.time(), filler)
            self._set_timer()

    def answered(self, call_id: str) -> None:
        """Record that a call has its response or was cancelled."""
        if self._calls.pop(call_id, None) is not None:
            self._set_timer()

    def heard(self, seconds: float = 0.0) -> None:
        """Record speech of the user or the model: silence begins when it has been played."""
        # The timer is not moved: it fires too early, and checks again. So a frame costs little.
        self._silent_since = max(self._silent_since, self._loop.time()) + seconds

    def interrupted(self) -> None:
        """Record a barge-in: speech that was not played is dropped, and silence begins now."""
        self._silent_since = self._loop.time()
        self._set_timer()

    def close(self) -> None:
        """Drop all calls and stop the timer."""
        self._calls.clear()
        self._set_timer()

    def _due(self, call: _OpenCall) -> float:
        if call.filled:
            return math.inf
        return max(call.since, self._silent_since) + call.filler.after_seconds

    def _next(self) -> tuple[float, str]:
        """Return the time at which the next filler is due, and the id of its call."""
        dues = ((self._due(call), call_id) for call_id, call in self._calls.items())
        return min(dues, key=itemgetter(0), default=(math.inf, ""))

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due, _ = self._next()
        if due < math.inf:
            self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        due, call_id = self._next()
        if due <= self._loop.time():
            self._fill_for(call_id)
        self._set_timer()

    def _fill_for(self, call_id: str) -> None:
        call = self._calls[call_id]
        call.filled = True
        self._silent_since = self._loop.time()
        try:
            self._fill(call_id, call.filler)
        except Exception as error:  # noqa: BLE001 - a callback that fails must not break the loop
            told = described(error)
            logger.warning("The silence during the call %r was not filled: %s", call_id, told)


class SilenceFiller:
    """Fills the dead air of a session.

    `runtime` is `None` if the tools have none. `show` receives a status part for the listener, a
    `tool_progress` with `filler`. `say` receives an interim response with the sentence to speak.
    """

    def __init__(
        self,
        runtime: ToolRuntime | None,
        *,
        show: Callable[[ProcessorPart], None],
        say: Callable[[ProcessorPart], None],
    ) -> None:
        self._runtime = runtime
        self._show = show
        self._say = say
        self._names: dict[str, str] = {}
        self._dead_air = DeadAir(self._fill)

    def called(self, call_id: str, name: str) -> None:
        """Record a call of the model."""
        filler = filler_for(self._runtime, name) if self._runtime is not None else None
        if filler is not None:
            self._names[call_id] = name
            self._dead_air.called(call_id, filler)

    def answered(self, call_id: str) -> None:
        """Record that a call has its response, or needs none."""
        if self._names.pop(call_id, None) is not None:
            self._dead_air.answered(call_id)

    def heard(self, part: ProcessorPart) -> None:
        """Record speech of the model or the user, or a barge-in."""
        if is_speech(part):
            self._dead_air.heard(seconds_of(part))
        elif part.metadata.get("interrupted"):
            self._dead_air.interrupted()
        elif part.part.text and part.substream_name in _SPOKEN:
            self._dead_air.heard()

    def close(self) -> None:
        """Stop filling."""
        self._dead_air.close()

    def _fill(self, call_id: str, filler: Filler) -> None:
        name = self._names[call_id]
        self._show(_shown(call_id, name, filler))
        if filler.sentence is not None:
            message = wording_of(self._runtime).text("filler", sentence=filler.sentence)
            self._say(_interim_answer(call_id, name, message))


def _shown(call_id: str, name: str, filler: Filler) -> StatusPart:
    event = {
        "event": EventKind.PROGRESS.value,
        "call_id": call_id,
        "tool": name,
        "filler": True,
        "message": filler.sentence,
    }
    return status_part(event, {TOOL_EVENT: True})


def _interim_answer(call_id: str, name: str, message: str) -> ProcessorPart:
    answer = types.FunctionResponse(
        id=call_id,
        name=name,
        response={"status": "running", "message": message},
        will_continue=True,
        scheduling=types.FunctionResponseScheduling.WHEN_IDLE,
    )
    return ProcessorPart(types.Part(function_response=answer), role="user")
