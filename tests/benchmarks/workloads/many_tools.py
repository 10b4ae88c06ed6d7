"""10 against 10,000 registered tools: the latency of a call, and how long registration takes."""

import time
from collections.abc import Sequence
from typing import Any

from tests.benchmarks.adapter import Adapter, Functions, Part, open_adapter
from tests.benchmarks.workload import Figures, Goal, Workload, calls, percentile, run

_SOURCE = '''
async def look_up_{number}(city: str, day: str, unit: str) -> dict:
    """Looks something up, number {number}.

    Args:
        city: Name of the city.
        day: Day of the week.
        unit: Unit of temperature.
    """
    return {{"city": city}}
'''
_FEW, _MANY = 10, 10_000


def measure(adapter: str, quick: bool) -> Figures:
    """p50 in µs with few and many tools, and registration in seconds."""
    return run(_measure(adapter, 1_000 if quick else 3_000))


async def _measure(name: str, count: int) -> Figures:
    functions = _functions(_MANY)
    start = time.perf_counter()
    many = open_adapter(name, functions)
    register_seconds = time.perf_counter() - start
    few_names, many_names = list(functions)[:_FEW], list(functions)[:: _MANY // _FEW]
    few = open_adapter(name, {key: functions[key] for key in few_names})
    async with few, many:
        await few.answer(_rotate(few_names, 200, 0))
        await many.answer(_rotate(many_names, 200, 0))
        samples: dict[int, list[float]] = {_FEW: [], _MANY: []}
        for first in range(200, 200 + count, 100):
            samples[_FEW] += await _sample(few, _rotate(few_names, 100, first))
            samples[_MANY] += await _sample(many, _rotate(many_names, 100, first))
    p50 = {tools: percentile(sorted(values), 0.5) for tools, values in samples.items()}
    return {
        "p50_few": p50[_FEW],
        "p50_many": p50[_MANY],
        "growth": p50[_MANY] / p50[_FEW],
        "register": register_seconds,
    }


def _functions(count: int) -> Functions:
    """So many functions that share nothing, not even their code."""
    namespace: dict[str, Any] = {}
    source = "".join(_SOURCE.format(number=number) for number in range(count))
    exec(compile(source, "<functions>", "exec"), namespace)
    return {f"look_up_{number}": namespace[f"look_up_{number}"] for number in range(count)}


def _rotate(names: Sequence[str], count: int, first: int) -> list[Part]:
    parts = []
    for number in range(first, first + count):
        parts += calls(1, names[number % len(names)], first=number)
    return parts


async def _sample(adapter: Adapter, parts: Sequence[Part]) -> list[float]:
    samples = []
    for part in parts:
        start = time.perf_counter()
        await adapter.answer([part])
        samples.append((time.perf_counter() - start) * 1e6)
    return samples


WORKLOAD = Workload(
    title="10 against 10,000 registered tools",
    measure=measure,
    pairs={"ours_stream": 2, "function_calling": 1},
    shown={"p50_few": "p50 µs, 10", "p50_many": "p50 µs, 10,000", "register": "register s"},
    goals=[
        Goal(
            text="p50 with 10,000 tools over p50 with 10",
            adapter="ours_stream",
            figure="growth",
            bound=1.2,
            unit="x",
        ),
        Goal(
            text="registering 10,000 functions",
            adapter="ours_stream",
            figure="register",
            bound=3,
            unit="s",
        ),
    ],
)
