"""A process that orders until it is killed: `python killed.py WHERE LEDGER SESSION`.

Each order adds a line to the ledger. It says `asks N` before it makes the call N.
"""

import asyncio
import os
import sys

from leonidas_tools import AdvancedToolProcessor, ToolSession, tool

SIDE_BY_SIDE = 4


def say(text):
    os.write(1, f"{text}\n".encode())


async def main(where, ledger, session_id):
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    @tool(effect="once", lane=None)
    async def order(number: int) -> str:
        await asyncio.sleep(0.003)
        os.write(file, f"{number}\n".encode())
        await asyncio.sleep(0.003)
        return "ordered elsewhere"

    settings = {"store": {"enabled": True, "url": where, "durable": True, "unwritable": "refuse"}}
    session = ToolSession(session_id, user="ana")
    async with AdvancedToolProcessor([order], settings, builtin_tools=False) as tools:

        async def lane(number):
            while True:
                say(f"asks {number}")
                call_id = f"first-{number}"
                await tools.execute("order", {"number": number}, session=session, call_id=call_id)
                number += SIDE_BY_SIDE

        await asyncio.gather(*map(lane, range(SIDE_BY_SIDE)))


asyncio.run(main(*sys.argv[1:]))
