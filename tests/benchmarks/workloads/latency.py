"""One call at a time: what a call costs beyond its tool."""

import time

from tests.benchmarks.adapter import open_adapter
from tests.benchmarks.workload import (
    Against,
    Clock,
    Figures,
    Goal,
    Workload,
    calls,
    had_a_core,
    look_up,
    percentile,
    run,
)


def measure(adapter: str, quick: bool) -> Figures:
    """Latency of single calls in µs."""
    return run(_measure(adapter, 1_000 if quick else 5_000))


async def _measure(name: str, count: int) -> Figures:
    async with open_adapter(name, {"look_up": look_up}) as adapter:
        for part in calls(500):
            await adapter.answer([part])
        parts, samples = calls(count, first=500), []
        clock = Clock()
        for part in parts:
            start = time.perf_counter()
            answers = await adapter.answer([part])
            samples.append((time.perf_counter() - start) * 1e6)
        wall, cpu = clock.stop()
        assert adapter.value(answers[0])["city"] == f"city {count + 499}"
    samples.sort()
    return {
        "p50": percentile(samples, 0.50),
        "p95": percentile(samples, 0.95),
        "p99": percentile(samples, 0.99),
        "cpu_share": cpu / wall,
    }


WORKLOAD = Workload(
    title="One call at a time",
    measure=measure,
    pairs={"ours_execute": 5, "ours_stream": 5, "function_calling": 1, "part_processor": 1},
    shown={"p50": "p50 µs", "p95": "p95 µs", "p99": "p99 µs"},
    goals=[
        Goal(
            text="one call through `execute`, p50",
            adapter="ours_execute",
            figure="p50",
            bound=1.0,
            unit="µs",
            against=Against.RATIO,
        ),
        Goal(
            text="one call through the stream, p50",
            adapter="ours_stream",
            figure="p50",
            bound=2.0,
            unit="µs",
            against=Against.RATIO,
        ),
    ],
    fair=had_a_core,
)
