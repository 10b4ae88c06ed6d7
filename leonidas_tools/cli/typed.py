"""What is typed at the terminal, line by line, without holding the event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_CHUNK_BYTES = 4096


async def typed_lines(descriptor: int = 0) -> AsyncIterator[str]:
    """The lines of standard input until it ends; empty ones are left out.

    Args:
        descriptor: The file descriptor to read.
    """
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str | None] = asyncio.Queue()

    def read() -> None:
        # Not by `sys.stdin`: its lock, held by a thread that waits, breaks the program's exit.
        with suppress(RuntimeError, OSError):  # the loop is closed; there is no standard input
            rest = b""
            while chunk := os.read(descriptor, _CHUNK_BYTES):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    loop.call_soon_threadsafe(lines.put_nowait, line.decode(errors="replace"))
            loop.call_soon_threadsafe(lines.put_nowait, rest.decode(errors="replace"))
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lines.put_nowait, None)

    # A read cannot be interrupted, and must not keep the program from ending.
    threading.Thread(target=read, name="typed-lines", daemon=True).start()
    while (line := await lines.get()) is not None:
        if line := line.strip():
            yield line
