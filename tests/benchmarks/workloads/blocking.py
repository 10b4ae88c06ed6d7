"""100 blocking functions of 50 ms at once: when the last ends, and how long the loop is held."""

import statistics
import time

from tests.benchmarks.adapter import Adapter, open_adapter
from tests.benchmarks.ticker import Ticker
from tests.benchmarks.workload import Figures, Goal, Workload, calls, run

_COUNT = 100


def block(city: str, day: str, unit: str) -> str:
    """Holds its thread for 50 ms."""
    time.sleep(0.05)
    return city


def measure(adapter: str, quick: bool) -> Figures:
    """Makespan and longest stall in ms, the medians of a few rounds."""
    return run(_measure(adapter, 2 if quick else 3))


async def _measure(name: str, rounds: int) -> Figures:
    async with open_adapter(name, {"block": block}) as adapter:
        await adapter.answer(calls(1, "block", first=_COUNT * rounds))
        results = [await _round(adapter, number * _COUNT) for number in range(rounds)]
    spans, stalls = zip(*results, strict=True)
    return {"makespan": statistics.median(spans), "stall": statistics.median(stalls)}


async def _round(adapter: Adapter, first: int) -> tuple[float, float]:
    parts = calls(_COUNT, "block", first=first)
    async with Ticker() as ticker:
        start = time.perf_counter()
        answers = await adapter.answer(parts)
        makespan = time.perf_counter() - start
    assert len({adapter.value(answer) for answer in answers}) == _COUNT
    return makespan * 1e3, ticker.longest_stall_seconds * 1e3


WORKLOAD = Workload(
    title="100 blocking calls of 50 ms at once",
    measure=measure,
    pairs={"ours_stream": 3, "function_calling": 1, "part_processor": 1},
    shown={"makespan": "makespan ms", "stall": "stall ms"},
    goals=[
        Goal(
            text="100 blocking calls of 50 ms at once, makespan",
            adapter="ours_stream",
            figure="makespan",
            bound=200,
            unit="ms",
        ),
        Goal(
            text="… the loop held at worst",
            adapter="ours_stream",
            figure="stall",
            bound=12,
            unit="ms",
        ),
    ],
)
