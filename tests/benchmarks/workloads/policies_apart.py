"""The same as `policies`, with and without in processes of their own, one right behind the other.

On a machine that is quicker for one process than for the next, this measures that as well.
"""

from tests.benchmarks.workload import (
    Against,
    Clock,
    Figures,
    Goal,
    Workload,
    had_a_core,
    percentile,
    run,
)
from tests.benchmarks.workloads.policies import timed_call, tools_under

_WARM_UP = 500


def measure(adapter: str, quick: bool) -> Figures:
    """Latency of single calls in µs."""
    return run(_measure(adapter, 1_000 if quick else 5_000))


async def _measure(name: str, count: int) -> Figures:
    async with tools_under(name) as tools:
        clock = Clock()
        samples = [await timed_call(tools, name, number) for number in range(count + _WARM_UP)]
        wall, cpu = clock.stop()
    samples = sorted(samples[_WARM_UP:])
    return {
        "p50": percentile(samples, 0.50),
        "p99": percentile(samples, 0.99),
        "cpu_share": cpu / wall,
    }


WORKLOAD = Workload(
    title="One call under one policy more, in processes of their own",
    measure=measure,
    pairs={"loop_guard": 3, "call_limits": 3, "breaker": 3, "all_policies": 5},
    shown={"p50": "p50 µs", "p99": "p99 µs"},
    goals=[
        Goal(
            text=f"… what {name.replace('_', ' ')} adds to a call, process by process",
            adapter=name,
            figure="p50",
            bound=5.0,
            unit="µs",
            against=Against.DIFFERENCE,
        )
        for name in ("loop_guard", "call_limits", "breaker")
    ]
    + [
        Goal(
            text="… one call under all policies together, process by process",
            adapter="all_policies",
            figure="p50",
            bound=2.0,
            unit="µs",
            against=Against.RATIO,
        )
    ],
    floor_heading="no such policy",
    fair=had_a_core,
)
