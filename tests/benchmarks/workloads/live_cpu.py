"""Processor time of a conversation: frames of 20 ms both ways, and nothing else.

Frames come as fast as they are taken, so that what is measured is work and not waiting. 50 frames
each way are one second of a session.
"""

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from functools import partial

from leonidas_tools.simulator import LiveSimulator, SimulatedSession
from tests.benchmarks.adapter import Part
from tests.benchmarks.live.agent import Brief, frame, open_agent, text
from tests.benchmarks.live.server import SimulatedServer
from tests.benchmarks.workload import Against, Figures, Goal, Workload, run

_FRAMES_A_SECOND = 50
_WARM_UP_FRAMES = 200
_BURST = 25
_SOUND = base64.b64encode(bytes(range(240)) * 4).decode()


def measure(adapter: str, quick: bool) -> Figures:
    """Processor time of one second of a session, and how many sessions that makes a core."""
    frames = 1000 if quick else 4000
    with SimulatedServer(partial(speak, frames=frames), generation="3.8-live") as server:
        seconds, heard = run_talk(adapter, frames)
        arrived = server.ask(_arrived)
    counted = frames - _WARM_UP_FRAMES
    cost = seconds / counted * _FRAMES_A_SECOND
    return {
        "cpu_ms": cost * 1e3,
        "sessions": 1 / cost,
        "lost": 2 * frames - heard - arrived,
    }


def run_talk(adapter: str, frames: int) -> tuple[float, int]:
    """Processor time of the frames after the warm-up, and how many frames were heard."""
    found: Figures = {}

    async def talk() -> Figures:
        heard, begun, over = 0, 0.0, asyncio.Event()
        async with open_agent(adapter, Brief(functions={})) as agent:
            async for _ in agent.talk(_says(frames, over)):
                heard += 1
                if heard == _WARM_UP_FRAMES:
                    begun = time.process_time()
                if heard == frames:
                    found["seconds"] = time.process_time() - begun
                if heard > frames:
                    over.set()
        found["heard"] = heard - 1
        return {}

    run(talk())
    return found["seconds"], int(found["heard"])


async def _says(frames: int, over: asyncio.Event) -> AsyncIterator[Part]:
    """Speak, in small bursts, and stay until all is heard."""
    yield text("begin")
    for number in range(frames):
        yield frame(number)
        if number % _BURST == 0:
            await asyncio.sleep(0)
    await over.wait()


async def speak(session: SimulatedSession, *, frames: int) -> None:
    """Speak a frame for each that is heard, and once more when all are."""
    await session.wait_for_input("text")
    blob = {"mimeType": "audio/pcm;rate=24000", "data": _SOUND}
    message = {"serverContent": {"modelTurn": {"role": "model", "parts": [{"inlineData": blob}]}}}
    for number in range(0, frames, _BURST):
        await session.wait_for_input("audio", count=min(_BURST, frames - number))
        for _ in range(min(_BURST, frames - number)):
            await session.send(message)
    await session.send(message)


def _arrived(simulator: LiveSimulator) -> int:
    return len(simulator.audio_received)


WORKLOAD = Workload(
    title="Processor time of one second of a session: 50 frames of sound each way",
    measure=measure,
    pairs={"ours_live": 3, "live_processor": 3, "bare_wire": 3},
    shown={"cpu_ms": "CPU ms a second", "sessions": "sessions a core"},
    floor_heading="google-genai in a loop by hand",
    goals=[
        Goal(
            text="processor time of one second of a session",
            adapter="ours_live",
            figure="cpu_ms",
            bound=1.0,
            unit="ms",
            against=Against.RATIO,
        ),
        Goal(
            text="… frames lost",
            adapter="ours_live",
            figure="lost",
            bound=0,
            unit="frames",
        ),
    ],
)
