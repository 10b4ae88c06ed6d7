"""Rate limits."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_WINDOW_SECONDS = 60.0


class Rate:
    """Limit how often something happens in any sixty seconds.

    Args:
        most: How many.
        now: The clock; by default that of the event loop.
    """

    def __init__(self, most: int, now: Callable[[], float] | None = None) -> None:
        self.most = most
        self._now = now or _loop_time
        self._at: deque[float] = deque()

    def admits(self) -> bool:
        """Return whether one more may happen now, which counts it."""
        now = self._now()
        while self._at and self._at[0] <= now - _WINDOW_SECONDS:
            self._at.popleft()
        if len(self._at) >= self.most:
            return False
        self._at.append(now)
        return True


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
