"""10,000 frames each way and 1,000 calls over the wire: what the session keeps of them.

The warm-up fills what is bounded on purpose, such as the ids a session remembers.
"""

import asyncio
import base64
import tracemalloc
from collections.abc import AsyncIterator

from leonidas_tools.simulator import FunctionCall, SimulatedSession
from tests.benchmarks.adapter import Part
from tests.benchmarks.live.agent import Brief, frame, open_agent
from tests.benchmarks.live.server import SimulatedServer
from tests.benchmarks.memory_use import traced_bytes
from tests.benchmarks.workload import Figures, Goal, Workload, look_up, run

_WARM_UP = {"rounds": 12, "frames": 50, "calls": 500}
_MEASURED = {"rounds": 50, "frames": 200, "calls": 20}
_CONFIRM_SECONDS = 1.0


def measure(adapter: str, quick: bool) -> Figures:
    """KiB of Python that are kept."""
    with SimulatedServer(play):
        return run(_talk(adapter))


async def _talk(name: str) -> Figures:
    heard, figures, news = 0, Figures(), asyncio.Event()

    async def exchange(rounds: int, frames: int, **_: int) -> AsyncIterator[Part]:
        for _round in range(rounds):
            wanted = heard + frames
            for number in range(frames):
                yield frame(number)
            while heard < wanted:
                news.clear()
                await news.wait()
        await asyncio.sleep(_CONFIRM_SECONDS)  # what has arrived is soon let go of

    async def says() -> AsyncIterator[Part]:
        async for part in exchange(**_WARM_UP):
            yield part
        traced = traced_bytes()
        async for part in exchange(**_MEASURED):
            yield part
        figures["kept"] = (traced_bytes() - traced) / 1024

    tracemalloc.start()  # before all else: what replaces an untraced object would look kept
    async with open_agent(name, Brief(functions={"look_up": look_up})) as agent:
        async for _ in agent.talk(says()):
            heard += 1
            news.set()
    return figures


async def play(session: SimulatedSession) -> None:
    """In each round waits for the frames, makes its calls, and says as many frames."""
    for phase in (_WARM_UP, _MEASURED):
        for number in range(phase["rounds"]):
            await session.wait_for_input("audio", count=phase["frames"])
            made = [
                FunctionCall("look_up", {"city": f"{number} {n}", "day": "monday", "unit": "K"})
                for n in range(phase["calls"])
            ]
            await session.call(*made, within_seconds=60)
            for _ in range(phase["frames"]):
                await session.send(_sound())
            await session.turn_complete()


def _sound() -> dict[str, object]:
    data = base64.b64encode(bytes(960)).decode()
    blob = {"mimeType": "audio/pcm;rate=24000", "data": data}
    return {"serverContent": {"modelTurn": {"role": "model", "parts": [{"inlineData": blob}]}}}


WORKLOAD = Workload(
    title="A live session: 10,000 frames each way and 1,000 calls after 6,000 calls",
    measure=measure,
    pairs={"ours_live": 1},
    shown={"kept": "kept KiB"},
    has_floor=False,  # the simulated server is too slow to play this twice
    goals=[
        Goal(
            text="kept of 10,000 frames each way and 1,000 calls over the wire",
            adapter="ours_live",
            figure="kept",
            bound=32,
            unit="KiB",
        ),
    ],
)
