"""A process of its own that makes calls: `python child.py MODE WHERE COUNT`.

It says `started N` on standard output when the function of the call N runs, and `ended N` when it
has run, past every buffer of Python.
"""

import asyncio
import os
import resource
import signal
import sys

from leonidas_tools import AdvancedToolProcessor, Approvals, Decision, ToolSession, tool
from leonidas_tools.settings.store_settings import StoreSettings
from leonidas_tools.store import Store


def say(text):
    os.write(1, f"{text}\n".encode())


@tool(effect="once", lane="a", requires_approval=False)
async def buy(number: int, more: str = "") -> int:
    say(f"started {number}")
    await asyncio.sleep(0.001)
    say(f"ended {number}")
    return number


@tool(effect="once")
async def wait_for_line() -> str:
    """Holds the event loop, and every other task of the process, until a line comes."""
    say("holds")
    return sys.stdin.readline()


@tool(effect="read")
async def look(number: int) -> int:
    return number


@tool(effect="once", requires_approval=True)
async def pay(number: int) -> int:
    say(f"paid {number}")
    return number


async def ask(where, count):
    """Asks whether each of many calls may run, while others run, and answers every fifth."""
    settings = {"store": {"enabled": True, "url": where, "durable": True}}
    tools = AdvancedToolProcessor(tools=[buy, pay], config=settings)

    async def call(number):
        session = ToolSession(f"session-{number}", user="ana")
        await tools.execute("pay", {"number": number}, session=session)
        desk = session.get(Approvals)
        (question,) = desk.pending()
        if number % 5 == 0:
            desk.decide(question.id, Decision.deny())
        await tools.store.flush()  # what was asked before is on disk once this is said
        say(f"{'denied' if number % 5 == 0 else 'asked'} {number}")
        await tools.execute("buy", {"number": number}, session=session)
        return session

    async with tools:
        sessions = [await call(number) for number in range(count)]
        say(f"all {len(sessions)}")


async def refuse(where, count):
    """Buys until nothing can be written down, and again once there is room."""
    settings = StoreSettings(url=where, durable=True, unwritable="refuse")
    async with Store(settings) as store:
        tools = AdvancedToolProcessor(tools=[buy], policies=store.policies)
        tools.monitor.subscribe(store.sink)
        async with tools:
            for number in range(count):
                call = {"number": number, "more": "x" * 3000}
                result = await tools.execute("buy", call, session=ToolSession())
                if result.reason_code == "not_recorded":
                    break
            say(f"refused {number}")
            signal_room()
            while not (await tools.execute("buy", {"number": count}, session=ToolSession())).ok:
                await asyncio.sleep(0.05)


def signal_room():
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    say("room")


async def hold(where):
    async with Store(StoreSettings(url=where, durable=True)) as store:
        tools = AdvancedToolProcessor(tools=[wait_for_line], policies=store.policies)
        tools.monitor.subscribe(store.sink)
        async with tools:
            await tools.execute("wait_for_line", session=ToolSession("held"))
            await store.flush()
            say("ended")
            sys.stdin.readline()


async def main(mode, where, count):
    if mode == "holding":
        await hold(where)
        return
    if mode == "asking":
        await ask(where, count)
        return
    if mode == "refusing":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
        await refuse(where, count)
        return
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
