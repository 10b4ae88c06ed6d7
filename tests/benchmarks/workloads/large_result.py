"""A result of 1 MB, as rows and as one text: what answering it takes."""

import statistics
import time

from tests.benchmarks.adapter import Adapter, open_adapter
from tests.benchmarks.workload import Against, Figures, Goal, Workload, calls, run

_ROWS = [
    {"id": number, "name": f"row number {number}", "price": number / 7, "tags": ["a", "b"]}
    for number in range(10_900)
]
_TEXT = "All work and no play makes Jack a dull boy. " * 22_700


async def rows(city: str, day: str, unit: str) -> list[dict[str, object]]:
    """About 1,000,000 bytes of JSON."""
    return _ROWS


async def text(city: str, day: str, unit: str) -> str:
    """About 1,000,000 characters."""
    return _TEXT


def measure(adapter: str, quick: bool) -> Figures:
    """The median time of a call in ms."""
    return run(_measure(adapter, 20 if quick else 40))


async def _measure(name: str, count: int) -> Figures:
    async with open_adapter(name, {"rows": rows, "text": text}) as adapter:
        return {
            "rows": await _median_ms(adapter, "rows", 0, count),
            "text": await _median_ms(adapter, "text", count, count),
        }


async def _median_ms(adapter: Adapter, name: str, first: int, count: int) -> float:
    samples = []
    for part in calls(count, name, first=first):
        start = time.perf_counter()
        answers = await adapter.answer([part])
        samples.append((time.perf_counter() - start) * 1e3)
    expected = {"rows": _ROWS, "text": _TEXT}[name]
    assert adapter.value(answers[0])[:500] == expected[:500]
    return statistics.median(samples)


WORKLOAD = Workload(
    title="A result of 1 MB",
    measure=measure,
    pairs={"ours_whole": 2, "ours_stream": 2, "function_calling": 1, "part_processor": 1},
    shown={"rows": "rows ms", "text": "text ms"},
    goals=[
        Goal(
            text=f"a 1 MB result, {kind}, {how}",
            adapter=adapter,
            figure=kind,
            bound=1,
            unit="ms",
            against=Against.DIFFERENCE,
        )
        for adapter, how in (
            ("ours_whole", "handed on whole"),
            ("ours_stream", "cut to the default size"),
        )
        for kind in ("rows", "text")
    ],
)
