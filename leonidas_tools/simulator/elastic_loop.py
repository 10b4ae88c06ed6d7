"""An event loop whose time can be advanced: an hour of a session passes in a moment."""

from __future__ import annotations

import asyncio
import selectors
import time
from concurrent.futures import Future
from typing import Final

# Seconds to wait for input before time is skipped, if there is no timer.
_PATIENCE_SECONDS: Final = 0.05
_POLL_SECONDS: Final = 0.001
# A loop that is busy for longer may itself wait for the time to pass: skip it all the same.
_MAX_BUSY_SECONDS: Final = 10.0


class _SkippableTime:
    """Seconds that a loop may skip instead of waiting for them."""

    def __init__(self) -> None:
        self.passed = 0.0
        self._left = 0.0
        self._futures: list[Future[None]] = []

    def add(self, seconds: float, over: Future[None]) -> None:
        self._left += seconds
        self._futures.append(over)

    @property
    def any(self) -> bool:
        """Return whether any seconds are left."""
        return self._left > 0

    def skip(self, wait_seconds: float | None) -> bool:
        """Skip a wait, or all seconds that are left for None; return whether any were left."""
        if not self._left:
            self.complete()
            return False
        seconds = self._left if wait_seconds is None else min(wait_seconds, self._left)
        self._left -= seconds
        self.passed += seconds
        return True

    def complete(self) -> None:
        futures, self._futures = self._futures, []
        for over in futures:
            over.set_result(None)


class _ElasticSelector(selectors.DefaultSelector):
    """A selector that skips time when there is no input or output."""

    def __init__(self, skippable: _SkippableTime) -> None:
        super().__init__()
        self._peers: list[_ElasticSelector] = []
        self._skippable = skippable
        self._waits = False
        self.loop: asyncio.AbstractEventLoop | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        patience = _PATIENCE_SECONDS if timeout is None and self._skippable.any else 0
        events = super().select(patience)
        self._waits = True
        try:
            until = time.monotonic() + _MAX_BUSY_SECONDS
            while not events and self._skippable.any and self._peers:
                busy = any(peer.is_busy for peer in self._peers)
                # Check for input only now: a peer may send something and then become idle.
                events = super().select(_POLL_SECONDS if busy else 0)
                if not busy or time.monotonic() > until:
                    break
            if events or self._skippable.skip(timeout):
                return events
            return super().select(timeout)
        finally:
            self._waits = False

    def add_peer(self, peer: _ElasticSelector) -> None:
        """Skip no time while the peer is busy, since it may be about to send something."""
        self._peers = [*(each for each in self._peers if not each.closed), peer]

    @property
    def is_busy(self) -> bool:
        """Return whether its loop is running or has input; called from another thread."""
        if self.loop is None or not self.loop.is_running():
            return False
        if not self._waits:
            return True
        try:
            with selectors.DefaultSelector() as looking:
                looking.register(self, selectors.EVENT_READ)
                return bool(looking.select(0)) or not self._waits
        except (OSError, ValueError):  # closed meanwhile
            return False

    @property
    def closed(self) -> bool:
        """Return whether its loop is closed."""
        return self.get_map() is None


class ElasticEventLoop(asyncio.SelectorEventLoop):
    """An event loop whose time runs ahead of real time after `advance`.

    Time is skipped from timer to timer, and only while the loop is idle. The second of two pauses
    begins when the first ends, and the work that a timer starts is done before the next timer is
    due. Sockets, threads and other loops still take real time. Two loops that wait for each other
    need `keep_pace_with`.

    Example:
        >>> async def an_hour() -> str:
        ...     loop = asyncio.get_running_loop()
        ...     loop.advance(3600)
        ...     await asyncio.sleep(1800)
        ...     await asyncio.sleep(1800)
        ...     return "over at once"
        >>> with asyncio.Runner(loop_factory=ElasticEventLoop) as runner:
        ...     runner.run(an_hour())
        'over at once'
    """

    def __init__(self) -> None:
        self._skippable = _SkippableTime()
        self._waiting = _ElasticSelector(self._skippable)
        super().__init__(self._waiting)
        self._waiting.loop = self

    def time(self) -> float:
        """Return the loop's time in seconds: real time plus the skipped time."""
        return super().time() + self._skippable.passed

    def advance(self, seconds: float) -> Future[None]:
        """Advance the loop's time; from any thread.

        Args:
            seconds: How far to advance.

        Returns:
            A future that is done once the time has passed and all due work is done; waiting
            for it is optional (`await asyncio.wrap_future(…)`, or `.result()` in a thread).

        Raises:
            ValueError: The seconds are negative.
        """
        if not seconds >= 0:
            raise ValueError(f"time does not run backwards: {seconds!r} s")
        over: Future[None] = Future()
        # Marked as running, so that it cannot be cancelled while a thread completes it.
        over.set_running_or_notify_cancel()
        self.call_soon_threadsafe(self._skippable.add, seconds, over)
        return over

    def keep_pace_with(self, other: ElasticEventLoop) -> None:
        """Let neither loop skip time while the other is busy; called in the thread of either.

        Otherwise a slow peer looks like one that no longer responds.
        """
        self._waiting.add_peer(other._waiting)
        other._waiting.add_peer(self._waiting)

    def close(self) -> None:
        """Close the loop and complete the futures of `advance`."""
        super().close()
        self._skippable.complete()


def elastic(loop: asyncio.AbstractEventLoop) -> ElasticEventLoop:
    """Return the loop as an `ElasticEventLoop`."""
    assert isinstance(loop, ElasticEventLoop)
    return loop
