"""What the client of 2025 calls."""

import asyncio
from pathlib import Path

from leonidas_tools import ToolContext, tool


@tool(effect="read")
async def add(a: int, b: int, ctx: ToolContext) -> int:
    """Adds two numbers."""
    ctx.progress("Adding", fraction=0.5)
    return a + b


@tool(effect="once")
async def fail() -> None:
    """Fails."""
    raise ValueError("s3cret")


@tool(effect="read")
async def look(begun: str, stopped: str) -> None:
    """Looks until it is stopped."""
    _touch(begun)
    try:
        await asyncio.Event().wait()
    finally:
        _touch(stopped)


def _touch(path):
    Path(path).touch()
