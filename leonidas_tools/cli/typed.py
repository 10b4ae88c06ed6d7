"""Read typed lines without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from leonidas_tools.approvals.terminal import discard_typed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_CHUNK_BYTES = 4096
_MAX_WAITING = 1000
_MAX_LINE_BYTES = 1 << 20


class TypedLines:
    """The lines of standard input; each is read once, by one reader.

    Reading starts when the first line is requested, and pauses while a thousand lines wait. A
    line longer than a megabyte is read as several.
    """

    def __init__(self, descriptor: int = 0) -> None:
        self.ended = asyncio.Event()
        """Set when all lines are read."""
        self.interactive = os.isatty(descriptor)
        """True if a person types and sees the output."""
        self._descriptor = descriptor
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._room = threading.Semaphore(_MAX_WAITING)
        self._reader: threading.Thread | None = None

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines until the input ends; skip empty ones."""
        self._start()
        while not self.ended.is_set():
            line = await self._lines.get()
            self._room.release()
            if line is None:
                self.ended.set()
            elif line := line.strip():
                yield line

    def discard(self) -> None:
        """Drop the lines that a person typed ahead; keep the lines of a file or a pipe."""
        if not self.interactive:
            return
        discard_typed(self._descriptor)
        while not self._lines.empty():
            line = self._lines.get_nowait()
            if line is None:  # the end, which must stay in the queue
                self._lines.put_nowait(None)
                return
            self._room.release()

    def _start(self) -> None:
        if self._reader is None:
            loop = asyncio.get_running_loop()
            # A read cannot be interrupted, and must not prevent the program from exiting.
            self._reader = threading.Thread(
                target=self._read, args=(loop,), name="typed-lines", daemon=True
            )
            self._reader.start()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        def put(line: str | None) -> None:
            self._room.acquire()
            loop.call_soon_threadsafe(self._lines.put_nowait, line)

        # Not with `sys.stdin`: a waiting thread would hold its lock, and break the program's exit.
        with suppress(RuntimeError, OSError):  # the loop is closed; there is no standard input
            rest = b""
            while chunk := os.read(self._descriptor, _CHUNK_BYTES):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    put(line.decode(errors="replace"))
                if len(rest) > _MAX_LINE_BYTES:
                    put(rest.decode(errors="replace"))
                    rest = b""
            put(rest.decode(errors="replace"))
        with suppress(RuntimeError):
            put(None)
