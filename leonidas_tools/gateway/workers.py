"""Processes that serve the connections of one port together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence
    from typing import Any

logger = visible_logger(__name__)

_WRONG_SETTINGS = 2
_MIN_PAUSE_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 30.0


async def run_workers(command: Sequence[str], *, count: int) -> None:
    """Run a command in several processes, until cancelled.

    Each process has a pipe as its standard input, which ends when this process is gone. A process
    that ends is replaced after a pause; the pause grows from 1 to 30 seconds while processes end
    soon after their start. When cancelled, send SIGTERM to all and wait for them; when cancelled
    again, send SIGTERM again.

    Raises:
        ConfigurationError: One of the first processes has ended with the exit code 2, which means
            that its settings are wrong. A replacement is started again in this case, since the
            other processes run with the earlier settings.
    """
    slots = [
        asyncio.create_task(_keep_running(command), name=f"gateway:worker-{number}")
        for number in range(1, count + 1)
    ]
    try:
        done, _ = await asyncio.wait(slots, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end_all(slots)
    for slot in done:
        slot.result()


async def _end_all(slots: Sequence[asyncio.Task[None]]) -> None:
    """End all workers; each further cancellation is passed on to them."""
    cancelled = None
    while pending := [slot for slot in slots if not slot.done()]:
        for slot in pending:
            slot.cancel()
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def _keep_running(command: Sequence[str]) -> None:
    pause, replaces = _MIN_PAUSE_SECONDS, False
    while True:
        began = time.monotonic()
        code = await _run_worker(command)
        if code == _WRONG_SETTINGS and not replaces:
            raise ConfigurationError("The settings of the workers are invalid: see above")
        if time.monotonic() - began > _MAX_PAUSE_SECONDS:
            pause = _MIN_PAUSE_SECONDS
        logger.error("A worker exited with %s: another starts in %g s", code, pause)
        await asyncio.sleep(pause)
        pause, replaces = min(2 * pause, _MAX_PAUSE_SECONDS), True


async def _run_worker(command: Sequence[str]) -> int:
    """Run one process to its end, and return its exit code."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in a terminal reaches this process alone
    )
    cancelled = None
    while True:
        try:
            code = await process.wait()
        except asyncio.CancelledError as error:
            cancelled = error
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        else:
            if cancelled is not None:
                raise cancelled
            return code


async def while_parent_lives(serving: Coroutine[Any, Any, None]) -> None:
    """Serve until done, or until standard input ends, because the parent process is gone."""
    task = asyncio.ensure_future(serving)
    with _at_end_of_input(task.cancel):
        await task


@contextlib.contextmanager
def _at_end_of_input(act: Callable[[], object]) -> Iterator[None]:
    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()

    def read() -> None:
        if not os.read(fd, 1024):
            loop.remove_reader(fd)
            act()

    loop.add_reader(fd, read)
    try:
        yield
    finally:
        loop.remove_reader(fd)
