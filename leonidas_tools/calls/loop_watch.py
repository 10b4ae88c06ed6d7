"""Log the tool that blocks the event loop: in a voice agent, a blocked loop is silence."""

from __future__ import annotations

import asyncio
import sys
import sysconfig
import threading
from contextlib import suppress
from contextvars import Context
from enum import Enum, auto
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING

from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

logger = visible_logger(__name__)

TASK_PREFIX = "tool:"
"""Prefix of the names of the tasks in which tools run."""

_BEAT_SECONDS = 0.1
_SLOW_SECONDS = 0.25
_HANDOVER_SECONDS = 0.001


class _State(Enum):
    """The state of the event loop, as sent to the thread."""

    IDLE = auto()
    BUSY = auto()
    STOPPED = auto()


class LoopWatch:
    """Detects, from a thread, whether the event loop is blocked while calls run.

    An async tool that blocks cannot be stopped, since the loop itself is blocked. But this thread
    can log the name of the tool meanwhile, which code on the loop could not.
    """

    def __init__(self, is_busy: Callable[[], bool]) -> None:
        self.longest_lag_seconds = 0.0
        """The longest time in seconds that the event loop was blocked while calls ran."""
        self._is_busy = is_busy
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self.is_watching = False
        self.has_begun = False
        """True if a call has started since the loop's last iteration; set where calls start."""
        self._last_beat = 0.0
        self._states = SimpleQueue[_State]()
        self._acknowledged = SimpleQueue[None]()
        self._thread = threading.Thread(target=self._watch, name="leonidas-loop-watch", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Start to watch the event loop; called on it when the first call starts."""
        self.is_watching = True
        self._last_beat = monotonic()
        # In an empty context: the call's context would be kept while other calls run.
        self._beat_handle = self._loop.call_later(_BEAT_SECONDS, self._beat, context=Context())
        self._states.put(_State.BUSY)

    def stop(self) -> None:
        """Stop the thread."""
        if self.is_watching:
            self._beat_handle.cancel()
            self.is_watching = False
        self._states.put(_State.STOPPED)
        self._thread.join()

    def _beat(self) -> None:
        now = monotonic()
        lag = now - self._last_beat - _BEAT_SECONDS
        self.longest_lag_seconds = max(self.longest_lag_seconds, lag)
        self._last_beat = now
        self.is_watching = self.has_begun or self._is_busy()
        self.has_begun = False
        if self.is_watching:
            self._beat_handle = self._loop.call_later(_BEAT_SECONDS, self._beat)
        self._notify(_State.BUSY if self.is_watching else _State.IDLE)

    def _notify(self, state: _State) -> None:
        """Send a state to the thread, and let the thread run.

        A loop without a pause takes the GIL back before a thread that it wakes has it. The thread
        keeps trying, and each iteration of the loop takes longer until the thread succeeds.
        """
        while not self._acknowledged.empty():
            self._acknowledged.get()
        self._states.put(state)
        with suppress(Empty):
            self._acknowledged.get(timeout=_HANDOVER_SECONDS)

    def _watch(self) -> None:
        state = _State.IDLE
        while state is not _State.STOPPED:
            try:
                state = self._states.get(timeout=_SLOW_SECONDS if state is _State.BUSY else None)
            except Empty:
                state = _State.IDLE  # until the loop runs again: a blocked loop is logged once
                blocked = monotonic() - self._last_beat
                if self.is_watching and blocked > _SLOW_SECONDS:
                    self.longest_lag_seconds = max(self.longest_lag_seconds, blocked)
                    self._report(blocked)
            else:
                self._acknowledged.put(None)

    def _report(self, blocked_seconds: float) -> None:
        task = asyncio.current_task(self._loop)
        name = task.get_name() if task is not None else ""
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - the public way to it
        who, advice = "Code outside of tools", ""
        if name.startswith(TASK_PREFIX):
            who = f"The tool {name.removeprefix(TASK_PREFIX)!r}"
            advice = ". A blocking tool must be a plain function, which runs in a thread"
        logger.warning(
            "%s has blocked the event loop for %.2f s, at %s: nothing else runs meanwhile%s",
            who,
            blocked_seconds,
            _place(frame),
            advice,
        )


def _place(frame: FrameType | None) -> str:
    """Return the position in the code, in the innermost frame outside the standard library."""
    standard = (sysconfig.get_path("stdlib"), "<frozen ")  # as the import of a module
    while frame is not None and frame.f_code.co_filename.startswith(standard):
        frame = frame.f_back
    if frame is None:
        return "an unknown location"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
