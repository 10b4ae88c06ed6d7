"""Limit how often something happens in any sixty seconds."""

from collections import deque

MINUTE_SECONDS = 60.0


class LastMinute(deque[float]):
    """The times of the events of the last minute; the caller passes the current time.

    Example:
        >>> starts = LastMinute()
        >>> starts.admits(1, now=0), starts.admits(1, now=59), starts.admits(1, now=60)
        (True, False, True)
    """

    __slots__ = ()

    def admits(self, most: int, now: float) -> bool:
        """Return whether one more event is allowed now, and count it if so."""
        while self and self[0] <= now - MINUTE_SECONDS:
            self.popleft()
        if len(self) >= most:
            return False
        self.append(now)
        return True
