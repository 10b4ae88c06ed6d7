"""Run a function in a thread while a coroutine awaits its result."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Job:
    """A function to run in a thread, and the future of its result on `loop`."""

    __slots__ = ("abandoned", "done", "function", "future", "loop")

    def __init__(self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.function = function
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.done = False
        self.abandoned = False

    def run(self) -> None:
        """Run the function, and deliver its result or exception to the loop."""
        try:
            value, error = self.function(), None
        except BaseException as raised:  # noqa: BLE001 - a SystemExit must not end the thread
            value, error = None, raised
        try:
            self.loop.call_soon_threadsafe(self._deliver, value, error)
        except RuntimeError:  # the loop is closed, so no coroutine waits any more
            return

    def _deliver(self, value: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(CarriedError(error))


class CarriedError(Exception):
    """Carries an exception that a future cannot, such as `StopIteration` or `SystemExit`."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


async def in_own_thread(function: Callable[..., T], /, *args: Any) -> T:
    """Run a function in a new daemon thread, which runs on if this is cancelled."""
    job = Job(functools.partial(function, *args), asyncio.get_running_loop())
    threading.Thread(target=job.run, name="leonidas-process", daemon=True).start()
    try:
        return await job.future  # type: ignore[no-any-return]  # what `function` returns
    except CarriedError as carried:
        raise carried.error from None
