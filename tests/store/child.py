"""A process of its own that makes calls: `python child.py MODE WHERE COUNT`.

It says `started N` on standard output when the function of the call N runs, and `ended N` when it
has run, past every buffer of Python.
"""

import asyncio
import os
import resource
import signal
import sys

from leonidas_tools import AdvancedToolProcessor, ToolSession, tool
from leonidas_tools.settings.store_settings import StoreSettings
from leonidas_tools.store import Store


def say(text):
    os.write(1, f"{text}\n".encode())


@tool(effect="once", lane="a")
async def buy(number: int) -> int:
    say(f"started {number}")
    await asyncio.sleep(0.001)
    say(f"ended {number}")
    return number


@tool(effect="read")
async def look(number: int) -> int:
    return number


async def main(mode, where, count):
    if mode == "full":  # no file may grow past this, as on a disk that is full
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    settings = StoreSettings(url=where, durable=mode == "durable")
    async with Store(settings) as store:
        tools = AdvancedToolProcessor(tools=[buy, look], policies=store.policies)
        tools.monitor.subscribe(store.sink)
        sessions = [ToolSession(f"{os.getpid()}-{n}") for n in range(8)]

        async def call(number, name):
            session = sessions[number % len(sessions)]
            return await tools.execute(name, {"number": number}, session=session)

        async with tools:
            if mode == "durable":
                await asyncio.gather(*(call(n, "buy") for n in range(count)))
            else:
                results = [await call(n, "look") for n in range(count)]
                say(f"good {sum(result.ok for result in results)}")
        if mode == "full":
            await store.flush(timeout_seconds=2)
            say(f"error {store.status.error}")
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            )


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
