"""Programs that do the work that may take long, and end with the call."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

_PASSED_ON = ("HOME", "PYTHONPATH")
"""Variables that Python needs to find what is installed; no proxy and no secret."""


@contextlib.asynccontextmanager
async def program(path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a program of this package with almost no environment; end it."""
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
