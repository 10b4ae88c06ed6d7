"""Imports that take long, beside the event loop."""

from __future__ import annotations

import asyncio
import importlib
from concurrent.futures import ThreadPoolExecutor


async def load(module: str) -> None:
    """Imports a module without holding the loop: the client library takes half a second.

    Args:
        module: Its dotted name.

    Raises:
        ImportError: It is missing, or what it needs is.
    """
    # Also where it seems loaded: another server may be at it, and its lock would hold the loop.
    worker = ThreadPoolExecutor(1, thread_name_prefix="leonidas-mcp-import")
    try:
        await asyncio.get_running_loop().run_in_executor(worker, importlib.import_module, module)
    finally:
        worker.shutdown(wait=False)
