"""Sixteen sessions side by side: frames of 20 ms both ways at their pace, and calls.

Each session makes a call of 100 ms every two seconds. All begin once each has sent and heard a
first frame: what a connection costs is no part of this. Each frame is up to 5 ms early or late, as
over a network: else two sessions would meet at each frame of a run, or at none. The delay of a
frame counts from the moment it was due to the moment the server has it; the other way from the
server to the listener.
"""

import asyncio
import base64
import gc
import random
import struct
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial

from leonidas_tools.simulator import FunctionCall, LiveSimulator, SimulatedSession
from tests.benchmarks.adapter import Part
from tests.benchmarks.live import pipecat
from tests.benchmarks.live.agent import Brief, open_agent
from tests.benchmarks.live.server import SimulatedServer
from tests.benchmarks.workload import Against, Figures, Goal, Workload, percentile, run

SESSIONS = 16
FRAME_SECONDS = 0.02
CALL_SECONDS = 0.1
_JITTER_SECONDS = 0.005
STAMP = struct.Struct("<Id")
"""The number of a frame, and when it was due or sent."""
MICROPHONE_BYTES = 640
HELLO = 0xFFFFFFFF
"""The number of the first frame each way."""
_LISTENER_BYTES = 960
_FRAMES_PER_CALL = 100
_WARM_UP_FRAMES = 100
_QUIET_P99_MS = 10


def measure(adapter: str, quick: bool) -> Figures:
    """Processor time of a second of a session, and delays in ms."""
    frames = _WARM_UP_FRAMES + (200 if quick else 600)
    at = [number * _FRAMES_PER_CALL // SESSIONS for number in range(SESSIONS)]
    plays = [partial(speak, frames=frames, calls_at=first) for first in at]
    with SimulatedServer(*plays, generation="3.8-live") as server:
        cost, heard = (
            pipecat.talk(SESSIONS, frames, _WARM_UP_FRAMES)
            if adapter == "pipecat"
            else _talk(adapter, frames)
        )
        spoken, answered = server.ask(_arrived), server.ask(_answered)
    up = [seconds * 1e3 for number, seconds in spoken if number >= _WARM_UP_FRAMES]
    down = [seconds * 1e3 for number, seconds in heard if number >= _WARM_UP_FRAMES]
    return {
        "cpu_ms": cost * 1e3,
        "sessions": 1 / cost,
        **_delays("up", up),
        **_delays("down", down),
        "lost": 2 * SESSIONS * frames - len(spoken) - len(heard),
        "unanswered": SESSIONS * (frames // _FRAMES_PER_CALL) - answered,
    }


def _delays(way: str, late: list[float]) -> Figures:
    late.sort()
    return {f"{way}_p50": percentile(late, 0.50), f"{way}_p99": percentile(late, 0.99)}


def _talk(adapter: str, frames: int) -> tuple[float, list[tuple[int, float]]]:
    """Processor time of a second of a session, and number and delay of each frame heard."""
    found = Figures()
    heard: list[tuple[int, float]] = []

    async def look(number: int) -> int:
        await asyncio.sleep(CALL_SECONDS)
        return number

    async def talk() -> Figures:
        ready, over = asyncio.Barrier(SESSIONS + 1), asyncio.Event()
        async with (
            open_agent(adapter, Brief(functions={"look": look})) as agent,
            asyncio.TaskGroup() as talking,
        ):

            async def hold(session: int) -> None:
                greeted = asyncio.Event()
                async for sound in agent.talk(_says(session, frames, greeted, ready, over)):
                    number, sent_at = STAMP.unpack_from(sound)
                    greeted.set()
                    if number != HELLO:
                        heard.append((number, time.monotonic() - sent_at))

            for session in range(SESSIONS):
                talking.create_task(hold(session))
            await ready.wait()
            gc.collect()  # what the imports and connections have left, as a server does early
            found["cost"] = await cost_of(frames, _WARM_UP_FRAMES, SESSIONS)
            await asyncio.sleep(CALL_SECONDS + 0.5)  # the last answers and frames
            over.set()
        return {}

    run(talk())
    return found["cost"], heard


async def cost_of(frames: int, warm_up: int, sessions: int) -> float:
    """Processor time of a second of a session after the warm-up, until the last frame is due."""
    await asyncio.sleep(warm_up * FRAME_SECONDS)
    begun, cpu = time.monotonic(), time.process_time()
    await asyncio.sleep((frames - warm_up) * FRAME_SECONDS)
    return (time.process_time() - cpu) / (time.monotonic() - begun) / sessions


async def _says(
    session: int,
    frames: int,
    greeted: asyncio.Event,
    ready: asyncio.Barrier,
    over: asyncio.Event,
) -> AsyncIterator[Part]:
    """Speak at the pace of a microphone from when all are there, and stay until all is heard."""
    yield _frame(HELLO, 0.0)
    await greeted.wait()
    await ready.wait()
    begun, late = time.monotonic() + session * FRAME_SECONDS / SESSIONS, _jitter(session)
    for number in range(frames):
        due = begun + number * FRAME_SECONDS + next(late)
        await asyncio.sleep(due - time.monotonic())
        yield _frame(number, due)
    await over.wait()


def _frame(number: int, due: float) -> Part:
    sound = STAMP.pack(number, due) + bytes(MICROPHONE_BYTES - STAMP.size)
    return Part(sound, mimetype="audio/pcm;rate=16000", substream_name="realtime")


async def speak(session: SimulatedSession, *, frames: int, calls_at: int) -> None:
    """Speak at the pace of the user, and call every two seconds, each session at its time."""
    await session.wait_for_input("audio")
    await _say(session, HELLO)
    await session.wait_for_input("audio")
    begun, late = time.monotonic(), _jitter(-calls_at)
    for number in range(frames):
        due = begun + number * FRAME_SECONDS + next(late)
        await session.pause(max(0.0, due - time.monotonic()))
        await _say(session, number)
        if number % _FRAMES_PER_CALL == calls_at:
            await session.send_calls(FunctionCall("look", {"number": number}))
    await session.wait_for_answers()
    await session.wait_for_close()


def _jitter(seed: int) -> Iterator[float]:
    """Yield how many seconds later than at an even pace each frame comes."""
    numbers = random.Random(seed)
    while True:
        yield numbers.uniform(0, 2 * _JITTER_SECONDS)


async def _say(session: SimulatedSession, number: int) -> None:
    sound = STAMP.pack(number, time.monotonic()) + bytes(_LISTENER_BYTES - STAMP.size)
    blob = {"mimeType": "audio/pcm;rate=24000", "data": base64.b64encode(sound).decode()}
    turn = {"role": "model", "parts": [{"inlineData": blob}]}
    await session.send({"serverContent": {"modelTurn": turn}})


def _arrived(simulator: LiveSimulator) -> list[tuple[int, float]]:
    stamps = [(STAMP.unpack_from(each.data), each.at) for each in simulator.audio_received]
    return [(number, at - due) for (number, due), at in stamps if number != HELLO]


def _answered(simulator: LiveSimulator) -> int:
    return sum(len(call.final_answers) == 1 for call in simulator.calls)


def _quiet(floor: Figures, _: Figures) -> bool:
    """Whether the floor was in time: else the machine itself is late."""
    return max(floor["up_p99"], floor["down_p99"]) <= _QUIET_P99_MS


def _goal(text: str, figure: str, bound: float, unit: str, against: Against) -> Goal:
    return Goal(
        text=text, adapter="ours_live", figure=figure, bound=bound, unit=unit, against=against
    )


WORKLOAD = Workload(
    title="16 sessions: frames of 20 ms both ways at their pace, and a call every 2 s",
    measure=measure,
    pairs={"ours_live": 5, "live_processor": 2, "bare_wire": 3}
    | dict.fromkeys(pipecat.installed(), 2),
    shown={
        "cpu_ms": "CPU ms a session and second",
        "sessions": "sessions a core",
        "up_p50": "↑ p50 ms",
        "up_p99": "↑ p99 ms",
        "down_p50": "↓ p50 ms",
        "down_p99": "↓ p99 ms",
    },
    floor_heading="google-genai in a loop by hand",
    fair=_quiet,
    goals=[
        _goal("16 sessions, processor time of each a second", "cpu_ms", 1.0, "ms", Against.RATIO),
        _goal("… microphone → server, delay p99", "up_p99", 1.0, "ms", Against.RATIO),
        _goal("… server → listener, delay p99", "down_p99", 1.0, "ms", Against.RATIO),
        _goal("… frames lost", "lost", 0, "frames", Against.NOTHING),
        _goal("… calls without an answer", "unanswered", 0, "calls", Against.NOTHING),
    ],
)
