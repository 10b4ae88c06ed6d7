"""Waiting in one thread for what happens in another."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Milestones:
    """Futures that are done once something has become true.

    Example:
        >>> milestones, seen = Milestones(), []
        >>> future = milestones.when(lambda: len(seen) == 1)
        >>> seen.append("message")
        >>> milestones.check()
        >>> future.done()
        True
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], bool], Future[None]]] = []
        self._lock = threading.Lock()

    def when(self, reached: Callable[[], bool]) -> Future[None]:
        """Return a future that is done once `reached` returns true."""
        future: Future[None] = Future()
        # Marked as running, so that it cannot be cancelled while a thread completes it.
        future.set_running_or_notify_cancel()
        with self._lock:
            self._waiting.append((reached, future))
        self.check()
        return future

    def check(self) -> None:
        """Look which milestones are reached; called after every change."""
        if not self._waiting:
            return
        with self._lock:
            waiting, self._waiting = self._waiting, []
            reached = [future for ready, future in waiting if ready()]
            done = set(map(id, reached))
            self._waiting = [each for each in waiting if id(each[1]) not in done]
        for future in reached:
            future.set_result(None)
