"""10,000 calls, 100 in flight: CPU for each."""

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
    run,
)

_IN_FLIGHT = 100


def measure(adapter: str, quick: bool) -> Figures:
    """CPU per call in µs."""
    return run(_measure(adapter, 2_000 if quick else 10_000))


async def _measure(name: str, count: int) -> Figures:
    async with open_adapter(name, {"look_up": look_up}) as adapter:
        for first in range(count, count + 10 * _IN_FLIGHT, _IN_FLIGHT):
            await adapter.answer(calls(_IN_FLIGHT, first=first))
        wall = cpu = 0.0
        for first in range(0, count, _IN_FLIGHT):
            batch = calls(_IN_FLIGHT, first=first)
            clock = Clock()
            answers = await adapter.answer(batch)
            batch_wall, batch_cpu = clock.stop()
            wall, cpu = wall + batch_wall, cpu + batch_cpu
            assert len({adapter.value(answer)["city"] for answer in answers}) == _IN_FLIGHT
    return {"cpu": cpu / count * 1e6, "per_second": count / wall, "cpu_share": cpu / wall}


WORKLOAD = Workload(
    title="10,000 calls, 100 in flight",
    measure=measure,
    pairs={"ours_execute": 3, "ours_stream": 3, "function_calling": 1, "part_processor": 1},
    shown={"cpu": "CPU µs/call", "per_second": "calls/s"},
    goals=[
        Goal(
            text=f"10,000 calls, 100 in flight, {how}, CPU per call",
            adapter=adapter,
            figure="cpu",
            bound=2.0,
            unit="µs",
            against=Against.RATIO,
        )
        for adapter, how in (("ours_execute", "`execute`"), ("ours_stream", "stream"))
    ],
    fair=had_a_core,
)
