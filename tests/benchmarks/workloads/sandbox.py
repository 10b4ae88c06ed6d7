"""What a program costs in the sandbox, on top of the program itself."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from tests.benchmarks.workload import FLOOR, Against, Figures, Goal, Workload, percentile, run

_PROGRAM = "/bin/true"
_PAUSE_SECONDS = 0.03
"""Between two programs, as between two calls of a tool."""


def measure(adapter: str, quick: bool) -> Figures:
    """Milliseconds from the request to the end of the program."""
    return run(_measure(adapter, 10 if quick else 100))


async def _measure(adapter: str, count: int) -> Figures:
    async with AsyncExitStack() as opened:
        start = _bare if adapter == FLOOR else await _in_sandbox(opened, adapter)
        await start()
        took = []
        for _ in range(count):
            await asyncio.sleep(_PAUSE_SECONDS)
            began = time.perf_counter()
            await start()
            took.append((time.perf_counter() - began) * 1e3)
    took.sort()
    return {"p50": percentile(took, 0.50), "p95": percentile(took, 0.95)}


async def _bare() -> None:
    process = await asyncio.create_subprocess_exec(
        _PROGRAM, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    await process.communicate()


async def _in_sandbox(opened: AsyncExitStack, backend: str) -> Callable[[], Awaitable[object]]:
    from leonidas_tools.sandbox import Sandbox

    box = await opened.enter_async_context(Sandbox(backend=backend))
    return lambda: box.run([_PROGRAM])


WORKLOAD = Workload(
    title="A program that ends at once, in the sandbox",
    measure=measure,
    pairs={"bubblewrap": 3, "landlock": 3},
    shown={"p50": "p50 ms", "p95": "p95 ms"},
    floor_heading="bare process",
    goals=[
        Goal(
            text=f"a program in the sandbox ({backend}), p50",
            adapter=backend,
            figure="p50",
            bound=10,
            unit="ms",
            against=Against.DIFFERENCE,
        )
        for backend in ("bubblewrap", "landlock")
    ],
)
