"""Dead air: says when a call has kept the user waiting in silence for too long."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from leonidas_tools.redaction import described
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Callable

logger = visible_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Filler:
    """The latency-masking phrase of a tool, and when it is spoken.

    Args:
        after_seconds: How long the silence may last.
        sentence: For the model to say, where it does not wait for the tool; with `None` only the
            listener gets an event.
    """

    after_seconds: float
    sentence: str | None = None


@dataclass(slots=True)
class _OpenCall:
    since: float
    filler: Filler
    filled: bool = False


class DeadAir:
    """Watches open calls and the model's speech, and has silence filled once for each call.

    A filler is due when its call has been open, and the model silent, for `after_seconds`. The
    model counts as speaking until what it has sent is played. A filler breaks the silence too, so
    that those of several calls do not come all at once.

    Made and used on one event loop, whose one timer it holds while a filler may come.

    Args:
        fill: Called with the id of the call and its filler; it returns at once. What it raises is
            logged.

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
        """Time at which the last sound ends; it may lie in the future."""
        self._timer: asyncio.TimerHandle | None = None

    def called(self, call_id: str, filler: Filler | None) -> None:
        """Note a call of the model; one that is open already is the same call."""
        if filler is not None and call_id not in self._calls:
            self._calls[call_id] = _OpenCall(self._loop.time(), filler)
            self._set_timer()

    def answered(self, call_id: str) -> None:
        """Note that a call has its answer or was cancelled."""
        if self._calls.pop(call_id, None) is not None:
            self._set_timer()

    def heard(self, seconds: float = 0.0) -> None:
        """Note speech of the model: silence begins when it has been played."""
        # The timer stays: it comes too early, and looks again. So a frame costs next to nothing.
        self._silent_since = max(self._silent_since, self._loop.time()) + seconds

    def interrupted(self) -> None:
        """Note an interruption: speech that was not played is dropped, and silence begins now."""
        self._silent_since = self._loop.time()
        self._set_timer()

    def close(self) -> None:
        """End all calls."""
        self._calls.clear()
        self._set_timer()

    def _due(self, call: _OpenCall) -> float:
        if call.filled:
            return math.inf
        return max(call.since, self._silent_since) + call.filler.after_seconds

    def _next(self) -> tuple[float, str]:
        """Return when a filler is due next, and for which call."""
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
        except Exception as error:  # noqa: BLE001 - its fault must not be the loop's
            told = described(error)
            logger.warning("The silence during the call %r was not filled: %s", call_id, told)
