"""1,000 read calls of 100 ms at once: when the last ends, and how long the loop is held."""

import asyncio
import statistics
import time

from tests.benchmarks.adapter import Adapter, open_adapter
from tests.benchmarks.ticker import Ticker
from tests.benchmarks.workload import Figures, Goal, Workload, calls, run

_COUNT = 1_000


async def wait(city: str, day: str, unit: str) -> str:
    """Waits 100 ms."""
    await asyncio.sleep(0.1)
    return city


def measure(adapter: str, quick: bool) -> Figures:
    """Makespan and longest stall in ms, the medians of a few rounds."""
    return run(_measure(adapter, 2 if quick else 4))


async def _measure(name: str, rounds: int) -> Figures:
    async with open_adapter(name, {"wait": wait}) as adapter:
        await adapter.answer(calls(10, "wait", first=_COUNT * rounds))
        results = [await _round(adapter, number * _COUNT) for number in range(rounds)]
    spans, stalls = zip(*results, strict=True)
    return {"makespan": statistics.median(spans), "stall": statistics.median(stalls)}


async def _round(adapter: Adapter, first: int) -> tuple[float, float]:
    parts = calls(_COUNT, "wait", first=first)
    async with Ticker() as ticker:
        start = time.perf_counter()
        answers = await adapter.answer(parts)
        makespan = time.perf_counter() - start
    assert len({adapter.value(answer) for answer in answers}) == _COUNT
    return makespan * 1e3, ticker.longest_stall_seconds * 1e3


WORKLOAD = Workload(
    title="1,000 read calls of 100 ms at once",
    measure=measure,
    pairs={"ours_execute": 1, "ours_stream": 3, "function_calling": 1, "part_processor": 1},
    shown={"makespan": "makespan ms", "stall": "stall ms"},
    goals=[
        Goal(
            text="1,000 read calls of 100 ms at once, makespan",
            adapter="ours_stream",
            figure="makespan",
            bound=200,
            unit="ms",
        ),
        Goal(
            text="… the loop held at worst",
            adapter="ours_stream",
            figure="stall",
            bound=20,
            unit="ms",
        ),
    ],
)
