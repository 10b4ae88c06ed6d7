"""Speech at 1.5 times the pace: what it costs, and how long sound is held back.

The latency of a chunk is the sound that has come in and is neither handed on nor left out, plus
the time to work on it.
"""

import asyncio
import math
import time
from array import array
from collections.abc import AsyncIterable, AsyncIterator

from tests.benchmarks.adapter import Part
from tests.benchmarks.workload import Against, Figures, Goal, Workload, percentile, run

_HERTZ = 24_000
_CHUNK_SECONDS = 0.02
_RATE = 1.5
_PITCH_HERTZ = 137.0
_TURNS = 10


def measure(adapter: str, quick: bool) -> Figures:
    """CPU in ms per second of sound, and latency in ms."""
    return run(_measure(adapter, 500 if quick else 3_000))


async def _measure(name: str, count: int) -> Figures:
    chunks, delays, given = _chunks(count), [], 0.0
    inputs: asyncio.Queue[Part | None] = asyncio.Queue()

    async def parts() -> AsyncIterator[Part]:
        while (part := await inputs.get()) is not None:
            yield part

    async def changed() -> None:
        nonlocal given
        stream = _passed(parts()) if name == "floor" else _changed(parts())
        rate = 1.0 if name == "floor" else _RATE
        async for part in stream:
            given += len(part.bytes or b"") / 2 / _HERTZ * rate

    hearing = asyncio.create_task(changed())
    await asyncio.sleep(0)
    cpu = time.process_time()
    for number, chunk in enumerate(chunks, start=1):
        start = time.perf_counter()
        inputs.put_nowait(chunk)
        await _idle()
        worked = time.perf_counter() - start
        delays.append((number * _CHUNK_SECONDS - given + worked) * 1e3)
    cpu = time.process_time() - cpu
    inputs.put_nowait(None)
    await hearing
    delays.sort()
    return {
        "cpu": cpu * 1e3 / (count * _CHUNK_SECONDS),
        "p50": percentile(delays, 0.50),
        "p99": percentile(delays, 0.99),
        "rate": count * _CHUNK_SECONDS / (given / (1.0 if name == "floor" else _RATE)),
    }


def _chunks(count: int) -> list[Part]:
    """20 ms chunks of a voice: a tone of a low voice's pitch, with overtones."""
    size = round(_HERTZ * _CHUNK_SECONDS)
    step = 2 * math.pi * _PITCH_HERTZ / _HERTZ
    voice = array(
        "h",
        (
            round(6_000 * sum(math.sin(tone * step * i) / tone for tone in (1, 2, 3)))
            for i in range(size * count)
        ),
    ).tobytes()
    return [
        Part(voice[start : start + 2 * size], mimetype=f"audio/pcm;rate={_HERTZ}")
        for start in range(0, len(voice), 2 * size)
    ]


async def _passed(parts: AsyncIterator[Part]) -> AsyncIterator[Part]:
    async for part in parts:
        yield part


def _changed(parts: AsyncIterator[Part]) -> AsyncIterable[Part]:
    from leonidas_tools.live.speech.output import SpeechOutputProcessor
    from leonidas_tools.session.speech import SpeechState

    speech = SpeechState()
    speech.set(rate=_RATE)
    output: AsyncIterable[Part] = SpeechOutputProcessor(speech=speech)(parts)
    return output


async def _idle() -> None:
    """Lets the stage have its turns of the loop until it has nothing more to do."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


WORKLOAD = Workload(
    title="60 s of speech at 1.5 times the pace, in chunks of 20 ms",
    measure=measure,
    pairs={"ours_speech": 3},
    shown={"cpu": "CPU ms/s of sound", "p50": "latency p50 ms", "p99": "latency p99 ms"},
    floor_heading="handed on as it is",
    goals=[
        Goal(
            text="speech at rate 1.5, CPU for a second of sound",
            adapter="ours_speech",
            figure="cpu",
            bound=50,
            unit="ms",
        ),
        Goal(
            text="… sound held back, with the time to work on it, p99",
            adapter="ours_speech",
            figure="p99",
            bound=40,
            unit="ms",
            against=Against.DIFFERENCE,
        ),
    ],
)
