"""Helper processes for slow work, which end with the tool call."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

_PIECE_BYTES = 65_536
_PASSED_ON = ("HOME", "PYTHONPATH")
"""Variables that Python needs to find installed packages; no proxy and no secret."""


@contextlib.asynccontextmanager
async def program(path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a Python file with almost no environment, and kill it when the block ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        str(path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()  # `wait` alone never returns while output is left unread


async def output_of(
    process: asyncio.subprocess.Process, given: bytes, most_bytes: int
) -> bytes | None:
    """Give a program its input, and return its output; `None` if it fails or writes too much."""
    assert process.stdin is not None
    assert process.stdout is not None
    writing = asyncio.create_task(_write(process.stdin, given))
    output = bytearray()
    try:
        while piece := await process.stdout.read(_PIECE_BYTES):
            output += piece
            if len(output) > most_bytes:
                return None
    finally:
        writing.cancel()
        await asyncio.wait({writing})
    return bytes(output) if await process.wait() == 0 else None


async def _write(stdin: asyncio.StreamWriter, given: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # it has ended before it has read all
        stdin.write(given)
        await stdin.drain()
        stdin.close()
