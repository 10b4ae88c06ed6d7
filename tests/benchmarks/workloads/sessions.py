"""Idle sessions that share their tools: what each holds after its first call."""

import asyncio
import tracemalloc

from genai_processors import streams

from tests.benchmarks.adapter import Adapter, Part, open_adapter
from tests.benchmarks.memory_use import resident_kib, traced_bytes
from tests.benchmarks.streaming import is_answer
from tests.benchmarks.workload import Figures, Goal, Workload, calls, look_up, run


def measure(adapter: str, quick: bool) -> Figures:
    """KiB and tasks per session."""
    return run(_measure(adapter, 100))


async def _measure(name: str, count: int) -> Figures:
    adapter = open_adapter(name, {"look_up": look_up})
    async with adapter:
        warm = [await _open(adapter, number) for number in range(10)]
        resident, before = resident_kib(), len(asyncio.all_tasks())
        kept = [await _open(adapter, 10 + number) for number in range(count)]
        grown = (resident_kib() - resident) / count
        per_session = (len(asyncio.all_tasks()) - before) / count
        tracemalloc.start()
        traced = traced_bytes()
        more = [await _open(adapter, 10 + count + number) for number in range(count)]
        held = (traced_bytes() - traced) / count / 1024
        tracemalloc.stop()
        for session in warm + kept + more:
            await _close(session)
    return {"resident": grown, "traced": held, "tasks": per_session}


class _Session:
    """One open stream."""

    def __init__(self, adapter: Adapter) -> None:
        self.input: asyncio.Queue[Part | None] = asyncio.Queue()
        self.output = aiter(adapter.stream(streams.dequeue(self.input)))


async def _open(adapter: Adapter, number: int) -> _Session:
    session = _Session(adapter)
    session.input.put_nowait(calls(1, first=number)[0])
    while not is_answer(await anext(session.output)):
        pass
    return session


async def _close(session: _Session) -> None:
    session.input.put_nowait(None)
    async for _ in session.output:
        pass


WORKLOAD = Workload(
    title="100 idle sessions with shared tools",
    measure=measure,
    pairs={"ours_stream": 2, "function_calling": 1, "part_processor": 1},
    shown={"resident": "RSS KiB/session", "traced": "Python KiB/session", "tasks": "tasks"},
    goals=[
        Goal(
            text=f"an idle session with shared tools, {how}",
            adapter="ours_stream",
            figure=figure,
            bound=40,
            unit="KiB",
        )
        for figure, how in (("resident", "of the process"), ("traced", "of Python"))
    ],
)
