"""Tools that leave a trace in a file: what has happened, seen from outside."""

import asyncio
import os
from pathlib import Path

from leonidas_tools import tool

ROOM = Path(os.environ["LEDGER_ROOM"])


def note(line):
    """Append a line, whole, even if others write."""
    file = os.open(ROOM / "ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{line}\n".encode())
    os.close(file)


@tool(effect="once", requires_approval=False)
async def pay(order: str, seconds: float = 0.0) -> dict:
    """Pay for an order.

    Args:
        order: The order.
        seconds: How long that takes, half of it before the money is gone.
    """
    await asyncio.sleep(seconds / 2)
    note(order)
    await asyncio.sleep(seconds / 2)
    return {"paid": order}


@tool(effect="idempotent")
async def deliver(order: str) -> str:
    """Deliver an order; the first try waits until it is killed."""
    note(f"{order} {os.getpid()}")
    first = not (ROOM / "tried").exists()
    (ROOM / "tried").touch()
    if first:
        await asyncio.sleep(3600)
    return "delivered"


@tool(effect="once")
async def wait(order: str) -> None:
    """Wait for ever."""
    note(f"{order} begun {os.getpid()}")
    try:
        await asyncio.sleep(3600)
    finally:
        note(f"{order} stopped")
