"""Helper processes for slow work, which end with the tool call."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

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
        await process.wait()
