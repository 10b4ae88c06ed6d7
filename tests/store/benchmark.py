"""What the store costs: `python -m tests.store.benchmark [FOLDER]`, best of several runs."""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from time import perf_counter

from leonidas_tools.calls.call import ToolCall, ToolResult, ToolSession
from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.settings.store_settings import StoreSettings
from leonidas_tools.store import Store
from leonidas_tools.tools.tool import Tool

ARGUMENTS = {"city": "Lisbon", "unit": "celsius"}
SMALL = {"city": "Lisbon", "sky": "foggy", "degrees": 9, "unit": "celsius"}
LARGE = {"rows": [{"id": n, "name": f"name {n}", "when": "2026-01-01T10:00"} for n in range(60)]}
TOOL = Tool(lambda: None, name="get_weather", effect="read")


def events(count, result):
    session = ToolSession("bench")
    made = []
    for number in range(1, count + 1):
        call = ToolCall(
            name="get_weather", arguments=ARGUMENTS, id=str(number), number=number,
            session=session, tool=TOOL,
        )  # fmt: skip
        ended = ToolResult(result=result)
        made.append(ToolEvent(kind=EventKind.START, call=call))
        made.append(ToolEvent(kind=EventKind.COMPLETE, call=call, result=ended, seconds=0.1))
    return made


async def sink_microseconds(folder, result, name, count=1000):
    """A call's two events, in the sink alone."""
    best = float("inf")
    async with Store(StoreSettings(url=f"{folder}/{name}.db")) as store:
        for _ in range(7):
            told = events(count, result)
            began = perf_counter()
            for event in told:
                store.sink(event)
            best = min(best, (perf_counter() - began) / count)
            await store.flush(timeout_seconds=60)
    return best * 1e6


async def throughput(folder, count=10_000):
    """Calls a second, from the first event to the last row."""
    async with Store(StoreSettings(url=f"{folder}/throughput.db", max_waiting=count)) as store:
        told = events(count, SMALL)
        began = perf_counter()
        for event in told:
            store.sink(event)
        await store.flush(timeout_seconds=60)
        return count / (perf_counter() - began)


async def durable(folder, at_once, count=400):
    """Milliseconds that a `once` call waits, and calls a second, with so many at a time."""
    async with Store(StoreSettings(url=f"{folder}/durable{at_once}.db", durable=True)) as store:
        calls = iter([event.call for event in events(count, SMALL)[::2]])
        waits = []

        async def begin():
            for call in calls:
                began = perf_counter()
                await store.begun(call)
                waits.append(perf_counter() - began)

        began = perf_counter()
        await asyncio.gather(*(begin() for _ in range(at_once)))
        seconds = perf_counter() - began
    return sorted(waits)[len(waits) // 2] * 1000, count / seconds


async def lag(folder, calls_a_second, seconds=5.0):
    """How late the loop is for a tick of 10 ms, in milliseconds: median, 99 %, worst."""
    ticks, steps = [], []

    async def tick():
        while True:
            ticks.append(perf_counter())
            await asyncio.sleep(0.01)

    async def run(store):
        told = events(int(calls_a_second * seconds), SMALL)
        began = perf_counter()
        for n in range(0, len(told), 2):
            await asyncio.sleep(max(0.0, n / 2 / calls_a_second - (perf_counter() - began)))
            store.sink(told[n])
            store.sink(told[n + 1])

    async with Store(StoreSettings(url=f"{folder}/lag{calls_a_second}.db")) as store:
        gc.collect()
        ticking = asyncio.create_task(tick())
        if calls_a_second:
            await run(store)
        else:
            await asyncio.sleep(seconds)
        ticking.cancel()
    steps = sorted((b - a - 0.01) * 1000 for a, b in pairwise(ticks))
    return steps[len(steps) // 2], steps[int(len(steps) * 0.99)], steps[-1]


async def main(folder):
    for name, result in (("small", SMALL), ("4 KiB", LARGE)):
        micros = await sink_microseconds(folder, result, name)
        print(f"sink, both events of a call, {name} result: {micros:.1f} µs")
    print(f"throughput: {await throughput(folder):.0f} calls/s")
    for at_once in (1, 10, 100):
        wait, rate = await durable(folder, at_once)
        print(f"durable start, {at_once} at once: {wait:.2f} ms each, {rate:.0f} calls/s")
    for rate in (0, 20, 200):
        print(f"loop lag at {rate} calls/s (ms): " + "%.2f %.2f %.2f" % await lag(folder, rate))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=next(iter(sys.argv[1:]), None)) as made:
        asyncio.run(main(Path(made)))
