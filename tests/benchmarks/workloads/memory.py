"""20,000 calls after a warm-up: what is kept of them.

The warm-up fills what is bounded on purpose, such as the ids a session remembers.
"""

import tracemalloc

from tests.benchmarks.adapter import Adapter, open_adapter
from tests.benchmarks.memory_use import resident_kib, traced_bytes
from tests.benchmarks.workload import Figures, Goal, Workload, calls, look_up, run

_BATCH = 50


def measure(adapter: str, quick: bool) -> Figures:
    """Growth of the process in KiB, and bytes kept per call."""
    return run(_measure(adapter, 10_000, 5_000 if quick else 20_000))


async def _measure(name: str, warm_up: int, count: int) -> Figures:
    tracemalloc.start()  # before all else: what replaces an untraced object would look kept
    async with open_adapter(name, {"look_up": look_up}) as adapter:
        await _answer(adapter, 0, warm_up)
        traced = traced_bytes()
        await _answer(adapter, warm_up, count)
        kept = (traced_bytes() - traced) / count
        tracemalloc.stop()
        await _answer(adapter, warm_up + count, warm_up)
        resident = resident_kib()
        await _answer(adapter, 2 * warm_up + count, count)
        return {"kept": kept, "growth": resident_kib() - resident}


async def _answer(adapter: Adapter, first: int, count: int) -> None:
    for start in range(first, first + count, _BATCH):
        await adapter.answer(calls(_BATCH, first=start))


WORKLOAD = Workload(
    title="20,000 calls after 10,000",
    measure=measure,
    pairs={"ours_stream": 1},
    shown={"growth": "RSS growth KiB", "kept": "kept bytes/call"},
    goals=[
        Goal(
            text="kept of 20,000 calls, each",
            adapter="ours_stream",
            figure="kept",
            bound=1,
            unit="B",
        ),
    ],
)
