"""Processes that are killed at any moment: no effect comes twice, and none is missed silently."""

import asyncio
import random
import sys
import time
from pathlib import Path

import pytest

from leonidas_tools import AdvancedToolProcessor, ToolSession, tool
from leonidas_tools.session.resumption import Resumption

pytestmark = pytest.mark.slow

CHILD = Path(__file__).parent / "killed.py"
KILLS = 5


async def killed(lines, *arguments):
    """Run another process until it has made so many calls, kill it; return their numbers."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(sys.executable, CHILD, *arguments, stdout=pipe)
    try:
        said = [await child.stdout.readline() for _ in range(lines)]
    finally:
        child.kill()
    rest, _ = await child.communicate()
    return [int(line.split()[1]) for line in [*said, *rest.splitlines()]]


@pytest.mark.parametrize("kill", range(KILLS))
async def test_a_call_that_is_made_again_elsewhere_has_one_effect(where, tmp_path, kill):
    ledger, here = tmp_path / "ledger", []

    @tool(effect="once", lane=None)
    async def order(number: int) -> str:
        here.append(number)
        return "ordered here"

    settings = {"store": {"enabled": True, "url": where, "durable": True, "unwritable": "refuse"}}
    session = ToolSession("kitchen", user="ana")
    async with AdvancedToolProcessor([order], settings, builtin_tools=False) as tools:
        session.get(Resumption).use("h1", at=time.time())  # the model has heard of no call
        calls = random.Random(kill).randint(1, 60)
        asked = await killed(calls, where, str(ledger), session.id)
        again = [
            tools.execute("order", {"number": number}, session=session, call_id=f"again-{number}")
            for number in asked
        ]
        results = dict(zip(asked, await asyncio.gather(*again), strict=True))
    there = [int(line) for line in ledger.read_text().split()] if ledger.exists() else []
    assert len(there) + len(here) == len({*there, *here})
    assert {number for number in asked if results[number].ok} <= {*there, *here}
