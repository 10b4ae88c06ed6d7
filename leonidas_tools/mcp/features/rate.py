"""Rate limits."""

from __future__ import annotations

import asyncio
from collections import deque

_WINDOW_SECONDS = 60.0


class Rate:
    """Lets so many things happen in any sixty seconds.

    Args:
        most: How many.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._at: deque[float] = deque()

    def admits(self) -> bool:
        """Return whether one more may happen now, which counts it."""
        now = asyncio.get_running_loop().time()
        while self._at and self._at[0] <= now - _WINDOW_SECONDS:
            self._at.popleft()
        if len(self._at) >= self.most:
            return False
        self._at.append(now)
        return True
