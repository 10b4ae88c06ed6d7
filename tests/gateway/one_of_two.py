"""A gateway in a process of its own: `python one_of_two.py NAME STORE`.

The environment leads to the model.
It says its address on standard output, and `NAME runs ARTICLE` when its tool does. For each line of
standard input, an order is served; the end of the lines stops it.
"""

import asyncio
import os
import sys

from leonidas_tools import AdvancedToolProcessor, ToolSession, tool
from leonidas_tools.gateway import serve_gateway
from leonidas_tools.live.gemini import GeminiLiveProcessor
from tests.gateway.served import SECRET


def say(text):
    os.write(1, f"{text}\n".encode())


async def main(name, store):
    served = asyncio.Semaphore(0)

    @tool(effect="once", lane=None)
    async def order(article: str) -> str:
        """Order an article."""
        say(f"{name} runs {article}")
        await served.acquire()
        return f"{article}, ordered by {name}"

    @tool(effect="once", requires_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"{amount} paid by {name}"

    settings = {"store": {"enabled": True, "url": store, "durable": True, "unwritable": "refuse"}}
    tools = AdvancedToolProcessor(tools=[order, pay], config=settings, builtin_tools=False)
    live = GeminiLiveProcessor("simulated", tools=tools)
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)

    async def warm(address):
        await tools.execute("nothing", session=ToolSession("warm"))
        await tools.store.flush(timeout_seconds=60)  # its first record opens and locks
        say(address)

    async with asyncio.TaskGroup() as group:
        serving = group.create_task(
            serve_gateway(
                tools, live, secret=SECRET, port=0,
                on_listening=lambda address: group.create_task(warm(address)),
            )
        )  # fmt: skip
        while await lines.readline():
            served.release()
        serving.cancel()


asyncio.run(main(*sys.argv[1:]))
