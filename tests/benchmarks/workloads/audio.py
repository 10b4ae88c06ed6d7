"""Audio parts 20 ms apart while 50 tools of 300 ms run: how late they leave.

A thread feeds the loop as a socket would, and each part's delay counts from the moment it was due:
a held loop cannot hide by holding the feeder as well.
"""

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable

from genai_processors import content_api

from tests.benchmarks.adapter import Adapter, Part, open_adapter
from tests.benchmarks.streaming import is_answer
from tests.benchmarks.workload import Figures, Goal, Workload, call, percentile, run

_FRAME_SECONDS = 0.02
_TOOLS = 50
_SILENCE = bytes(640)
_P99_MS, _WORST_MS = 0.6, 5


async def wait(number: int) -> int:
    """Waits 300 ms."""
    await asyncio.sleep(0.3)
    return number


def measure(adapter: str, quick: bool) -> Figures:
    """Delays in ms: tools spread over the time, and all at once."""
    return run(_measure(adapter, 100 if quick else 200))


async def _measure(name: str, frames: int) -> Figures:
    figures: Figures = {}
    async with open_adapter(name, {"wait": wait}) as adapter:
        await adapter.answer([call("wait", {"number": 0}, 0)])
        for kind, schedule in (("spread", _spread(frames)), ("burst", _burst(frames))):
            session = _Session(adapter, frames, schedule)
            for key, value in (await session.run()).items():
                figures[f"{kind}_{key}"] = value
    return figures


def _spread(frames: int) -> dict[int, int]:
    """50 calls, evenly over the first frames, so that all end before the last."""
    last = frames - 20
    schedule: dict[int, int] = {}
    for number in range(_TOOLS):
        frame = number * last // _TOOLS
        schedule[frame] = schedule.get(frame, 0) + 1
    return schedule


def _burst(frames: int) -> dict[int, int]:
    """50 calls right before one frame, once in 50 frames; they also end together on a frame."""
    return dict.fromkeys(range(10, frames - 20, 50), _TOOLS)


class _Session:
    """One stream: frames and calls in, delays out."""

    def __init__(self, adapter: Adapter, frames: int, schedule: dict[int, int]) -> None:
        self._adapter = adapter
        self._frames = [
            content_api.ProcessorPart(_SILENCE, mimetype="audio/pcm", metadata={"frame": number})
            for number in range(frames)
        ]
        self._calls: dict[int, list[Part]] = {}
        number = 1
        for frame, count in schedule.items():
            self._calls[frame] = [
                call("wait", {"number": n}, n) for n in range(number, number + count)
            ]
            number += count
        self._input: asyncio.Queue[Part | None] = asyncio.Queue()
        self._start = 0.0

    async def run(self) -> Figures:
        """The figures of this session."""
        loop = asyncio.get_running_loop()
        feeder = threading.Thread(target=self._feed, args=(loop.call_soon_threadsafe,))
        self._start = time.perf_counter() + 0.1
        feeder.start()
        order, delays, answers = [], [], 0
        async for part in self._adapter.stream(self._parts()):
            if is_answer(part):
                answers += 1
            elif (frame := part.metadata.get("frame")) is not None:
                delays.append((time.perf_counter() - self._due(frame)) * 1e3)
                order.append(frame)
        feeder.join()
        delays.sort()
        return {
            "p50": percentile(delays, 0.5),
            "p99": percentile(delays, 0.99),
            "max": delays[-1],
            "lost": len(self._frames)
            - len(set(order))
            + sum(map(len, self._calls.values()))
            - answers,
            "reordered": sum(a > b for a, b in itertools.pairwise(order)),
        }

    def _due(self, frame: int) -> float:
        return self._start + frame * _FRAME_SECONDS

    async def _parts(self) -> AsyncIterator[Part]:
        while (part := await self._input.get()) is not None:
            yield part

    def _feed(self, call_soon: Callable[..., object]) -> None:
        for number, frame in enumerate(self._frames):
            time.sleep(max(0.0, self._due(number) - time.perf_counter()))
            call_soon(self._put, [*self._calls.get(number, ()), frame])
        call_soon(self._put, [None])

    def _put(self, parts: list[Part | None]) -> None:
        for part in parts:
            self._input.put_nowait(part)


def _quiet(floor: Figures, figures: Figures) -> bool:
    """Whether the floor kept what is asked of us: else the machine itself is late."""
    return floor["spread_p99"] <= _P99_MS and floor["burst_max"] <= _WORST_MS


WORKLOAD = Workload(
    title="Audio parts 20 ms apart beside 50 tools of 300 ms (spread / all at once)",
    measure=measure,
    pairs={"ours_stream": 2, "function_calling": 1, "part_processor": 1},
    shown={
        "spread_p50": "p50 ms",
        "spread_p99": "p99 ms",
        "spread_max": "max ms",
        "burst_p99": "at once p99",
        "burst_max": "at once max",
    },
    fair=_quiet,
    goals=[
        Goal(
            text="audio while 50 tools run, delay p99",
            adapter="ours_stream",
            figure="spread_p99",
            bound=_P99_MS,
            unit="ms",
        ),
        Goal(
            text="… all 50 starting and ending together, at worst",
            adapter="ours_stream",
            figure="burst_max",
            bound=_WORST_MS,
            unit="ms",
        ),
        *(
            Goal(
                text=f"… {what} ({kind})",
                adapter="ours_stream",
                figure=f"{kind}_{what}",
                bound=0,
                unit="parts",
            )
            for what in ("lost", "reordered")
            for kind in ("spread", "burst")
        ),
    ],
)
