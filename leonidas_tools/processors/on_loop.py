"""Brings to an event loop what is called back in another thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def on_this_loop(callback: Callable[[], object]) -> Callable[[object], None]:
    """The callback as it can be called in any thread, with what has changed, which it is not told.

    Called in the thread of the loop that runs now it runs at once, else in that loop's next turn.

    Args:
        callback: What looks up by itself how things are now.

    Raises:
        RuntimeError: No event loop is running.
    """
    loop, thread = asyncio.get_running_loop(), threading.get_ident()

    def call(_: object) -> None:
        if threading.get_ident() == thread:
            callback()
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(callback)

    return call
