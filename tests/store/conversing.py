"""A process with a conversation of Ana, until it is killed: `python conversing.py WHERE`."""

import asyncio
import os
import sys

from leonidas_tools.store import Store


async def main(where):
    async with Store(where) as store:
        start = await store.conversations.begin("ana", at_once=1, per_minute=9)
        assert start.id is not None
        os.write(1, b"begun\n")
        await asyncio.Event().wait()


asyncio.run(main(sys.argv[1]))
