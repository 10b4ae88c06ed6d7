"""An event loop whose time a test moves on: an hour of a session passes in a moment."""

from __future__ import annotations

import asyncio
import selectors
import time
from concurrent.futures import Future
from typing import Final

# Where no timer tells how far to run, what others are about to send comes first.
_PATIENCE_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 0.001
# A longer busy thread is blocked, maybe until time has passed.
_LONGEST_BUSY_SECONDS: Final = 10.0


class _LentTime:
    """Seconds that a loop may pass over instead of waiting for them."""

    def __init__(self) -> None:
        self.passed = 0.0
        self._left = 0.0
        self._borrowers: list[Future[None]] = []

    def lend(self, seconds: float, over: Future[None]) -> None:
        self._left += seconds
        self._borrowers.append(over)

    @property
    def any(self) -> bool:
        """Return whether some is left."""
        return self._left > 0

    def pass_over(self, wait_seconds: float | None) -> bool:
        """Pass over a wait, as far as it is lent for; without one, over all that is left."""
        if not self._left:
            self.repay()
            return False
        seconds = self._left if wait_seconds is None else min(wait_seconds, self._left)
        self._left -= seconds
        self.passed += seconds
        return True

    def repay(self) -> None:
        borrowers, self._borrowers = self._borrowers, []
        for over in borrowers:
            over.set_result(None)


class _ElasticSelector(selectors.DefaultSelector):
    """A selector that passes over time where nothing is to be read or written.

    Args:
        lent: The time.
    """

    def __init__(self, lent: _LentTime) -> None:
        super().__init__()
        self._peers: list[_ElasticSelector] = []
        self._lent = lent
        self._waits = False
        self.loop: asyncio.AbstractEventLoop | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        patience = _PATIENCE_SECONDS if timeout is None and self._lent.any else 0
        events = super().select(patience)
        self._waits = True
        try:
            until = time.monotonic() + _LONGEST_BUSY_SECONDS
            while not events and self._lent.any and any(peer.is_busy for peer in self._peers):
                if time.monotonic() > until:
                    break
                events = super().select(_LOOK_SECONDS)
            if events or self._lent.pass_over(timeout):
                return events
            return super().select(timeout)
        finally:
            self._waits = False

    def heed(self, peer: _ElasticSelector) -> None:
        """Has time wait for the peer, which may be about to send something."""
        self._peers = [*(each for each in self._peers if not each.closed), peer]

    @property
    def is_busy(self) -> bool:
        """Return whether its loop does something, or is about to; asked in another thread."""
        if self.loop is None or not self.loop.is_running():
            return False
        if not self._waits:
            return True
        try:
            with selectors.DefaultSelector() as looking:
                looking.register(self, selectors.EVENT_READ)
                return bool(looking.select(0))
        except (OSError, ValueError):  # closed in this moment
            return False

    @property
    def closed(self) -> bool:
        """Return whether its loop is closed."""
        return self.get_map() is None


class ElasticEventLoop(asyncio.SelectorEventLoop):
    """An event loop that runs by real time, and ahead of it when told to `advance`.

    Time is passed over from timer to timer, and only while the loop has nothing else to do: of two
    pauses in a row the second begins where the first ended, and what a timer sets off is done
    before the next one is due. What happens outside the loop, in sockets, threads and other loops,
    still takes its real time: loops that are to wait for each other `keep_pace_with` each other.

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
        self._lent = _LentTime()
        self._waiting = _ElasticSelector(self._lent)
        super().__init__(self._waiting)
        self._waiting.loop = self

    def time(self) -> float:
        """Return the loop's time, in seconds: real time and what it was advanced by."""
        return super().time() + self._lent.passed

    def advance(self, seconds: float) -> Future[None]:
        """Move the loop's time on; from any thread.

        Args:
            seconds: By how much.

        Returns:
            A future that is done once the time has passed and what was due has been done; waiting
            for it is optional (`await asyncio.wrap_future(…)`, or `.result()` in a thread).

        Raises:
            ValueError: Time does not run backwards.
        """
        if not seconds >= 0:
            raise ValueError(f"time does not run backwards: {seconds!r} s")
        over: Future[None] = Future()
        # Marked as running, so that it cannot be cancelled while a thread completes it.
        over.set_running_or_notify_cancel()
        self.call_soon_threadsafe(self._lent.lend, seconds, over)
        return over

    def keep_pace_with(self, other: ElasticEventLoop) -> None:
        """Has neither loop pass over time while the other is busy; from a thread of either.

        Of two ends of a line, one that is slow does not look like one that is silent.

        Args:
            other: A loop in another thread.
        """
        self._waiting.heed(other._waiting)
        other._waiting.heed(self._waiting)

    def close(self) -> None:
        """Close the loop; its time is not waited for any longer."""
        super().close()
        self._lent.repay()


def elastic(loop: asyncio.AbstractEventLoop) -> ElasticEventLoop:
    """Return the loop, which is an elastic one."""
    assert isinstance(loop, ElasticEventLoop)
    return loop
