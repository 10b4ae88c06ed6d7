"""One call at a time through the stream, under no policy that is not there by default, and all."""

import time

from tests.benchmarks.adapters.ours_stream import OursStream
from tests.benchmarks.workload import (
    FLOOR,
    Against,
    Clock,
    Figures,
    Goal,
    Workload,
    calls,
    had_a_core,
    percentile,
    run,
)
from tests.benchmarks.workloads.policies import tools_under


def measure(adapter: str, quick: bool) -> Figures:
    """Latency of single calls in µs."""
    return run(_measure(adapter, 1_000 if quick else 5_000))


async def _measure(name: str, count: int) -> Figures:
    tools = tools_under("loop_guard" if name == FLOOR else name)
    async with OursStream.over(tools) as adapter:
        for part in calls(500):
            await adapter.answer([part])
        samples, clock = [], Clock()
        for part in calls(count, first=500):
            start = time.perf_counter()
            (answer,) = await adapter.answer([part])
            samples.append((time.perf_counter() - start) * 1e6)
            assert adapter.value(answer)
        wall, cpu = clock.stop()
    samples.sort()
    return {
        "p50": percentile(samples, 0.50),
        "p99": percentile(samples, 0.99),
        "cpu_share": cpu / wall,
    }


WORKLOAD = Workload(
    title="One call through the stream under all policies",
    measure=measure,
    pairs={"all_policies": 3},
    shown={"p50": "p50 µs", "p99": "p99 µs"},
    goals=[
        Goal(
            text="one call through the stream under all policies together, p50",
            adapter="all_policies",
            figure="p50",
            bound=2.0,
            unit="µs",
            against=Against.RATIO,
        )
    ],
    floor_heading="as it is by default",
    fair=had_a_core,
)
