"""Frames of 20 ms in both directions over the wire while 50 tools run: how late they are.

A thread feeds the microphone as a sound card would, and each frame's delay counts from the moment
it was due to the moment the server has it; the other way from the server's sending to the
listener. Ours also reads its YAML file anew each second.
"""

import asyncio
import base64
import itertools
import json
import struct
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path

from leonidas_tools.simulator import FunctionCall, LiveSimulator, SimulatedSession
from tests.benchmarks.adapter import Functions, Part
from tests.benchmarks.live.agent import Brief, frame, open_agent, text
from tests.benchmarks.live.server import SimulatedServer
from tests.benchmarks.workload import Against, Figures, Goal, Workload, percentile, run

_FRAME_SECONDS = 0.02
_WARM_UP_FRAMES = 50
_TOOLS = 50
_RUN_SECONDS = 1.0
_STAMP = struct.Struct("<Id")
_SOUND = bytes(960 - _STAMP.size)
_QUIET_P99_MS = 5


def measure(adapter: str, quick: bool) -> Figures:
    """Delays in ms, and what was lost, reordered or never answered."""
    frames = 200 if quick else 500
    with (
        SimulatedServer(partial(speak, frames=frames), generation="3.8-live") as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        microphone = _Microphone(frames, Path(folder, "tools.yaml"))
        heard = run_talk(adapter, microphone)
        spoken = [(number, at - microphone.due(number)) for number, at in server.ask(_arrived)]
        answered = server.ask(_answered)
    return {
        **_figures("up", frames, spoken),
        **_figures("down", frames, heard),
        "unanswered": frames - answered,
    }


def run_talk(adapter: str, microphone: "_Microphone") -> list[tuple[int, float]]:
    """Number and delay of every frame that is heard."""
    heard: list[tuple[int, float]] = []

    async def talk() -> Figures:
        brief = Brief(functions=_functions(), config=microphone.config)
        async with open_agent(adapter, brief) as agent:
            async for sound in agent.talk(microphone.parts()):
                number, sent_at = _STAMP.unpack_from(sound)
                heard.append((number, time.monotonic() - sent_at))
                if number == 0:
                    microphone.start()
                if number == microphone.frames:
                    microphone.stop()
        return {}

    run(talk())
    return heard[:-1]


def _figures(way: str, frames: int, delays: Sequence[tuple[int, float]]) -> Figures:
    numbers = [number for number, _ in delays]
    late = sorted(seconds * 1e3 for number, seconds in delays if number >= _WARM_UP_FRAMES)
    return {
        f"{way}_p50": percentile(late, 0.50),
        f"{way}_p99": percentile(late, 0.99),
        f"{way}_max": late[-1],
        f"{way}_lost": frames - len(set(numbers)),
        f"{way}_reordered": sum(a >= b for a, b in itertools.pairwise(numbers)),
    }


def _functions() -> Functions:
    """50 tools of a second; half of them block a thread."""

    async def wait(number: int) -> int:
        await asyncio.sleep(_RUN_SECONDS)
        return number

    def block(number: int) -> int:
        time.sleep(_RUN_SECONDS)
        return number

    return {f"tool_{number}": block if number % 2 else wait for number in range(_TOOLS)}


class _Microphone:
    """Frames from a thread, and on its side the file that changes each second."""

    def __init__(self, frames: int, config: Path) -> None:
        self.frames = frames
        self.config = config
        self._parts: asyncio.Queue[Part | None] = asyncio.Queue()
        self._thread: threading.Thread | None = None
        self._started_at = 0.0
        self._edit(0)

    def start(self) -> None:
        """The first frame is due in a moment."""
        call_soon = asyncio.get_running_loop().call_soon_threadsafe
        self._started_at = time.monotonic() + 0.1
        self._thread = threading.Thread(target=self._feed, args=(call_soon,))
        self._thread.start()

    def stop(self) -> None:
        """The user has said all."""
        assert self._thread is not None
        self._thread.join()
        self._parts.put_nowait(None)

    def due(self, number: int) -> float:
        """When a frame is due."""
        return self._started_at + number * _FRAME_SECONDS

    async def parts(self) -> AsyncIterator[Part]:
        """What the user says."""
        yield text("begin")
        while (part := await self._parts.get()) is not None:
            yield part

    def _feed(self, call_soon: Callable[..., object]) -> None:
        parts = [frame(number) for number in range(self.frames)]
        for number, part in enumerate(parts):
            time.sleep(max(0.0, self.due(number) - time.monotonic()))
            call_soon(self._parts.put_nowait, part)
            if number % 50 == 25:
                self._edit(number)

    def _edit(self, number: int) -> None:
        settings = {"timeout": 20 + number / 50, "priority": 3, "retry_attempts": 1}
        tools = {f"tool_{each}": settings for each in range(_TOOLS)}
        beside = self.config.with_suffix(".new")
        beside.write_text(json.dumps({"version": 1, "tools": tools}, indent=1))
        beside.replace(self.config)


async def speak(session: SimulatedSession, *, frames: int) -> None:
    """Speaks and calls a tool every 20 ms, waits for the answers, and speaks once more."""
    await session.wait_for_input("text")
    start = time.monotonic()
    for number in range(frames):
        await session.pause(max(0.0, start + number * _FRAME_SECONDS - time.monotonic()))
        await _say(session, number)
        await session.send_calls(FunctionCall(f"tool_{number % _TOOLS}", {"number": number}))
    await session.wait_for_answers()
    await session.wait_for_input("audio", count=frames)
    await _say(session, frames)


async def _say(session: SimulatedSession, number: int) -> None:
    data = base64.b64encode(_STAMP.pack(number, time.monotonic()) + _SOUND).decode()
    blob = {"mimeType": "audio/pcm;rate=24000", "data": data}
    turn = {"role": "model", "parts": [{"inlineData": blob}]}
    await session.send({"serverContent": {"modelTurn": turn}})


def _arrived(simulator: LiveSimulator) -> list[tuple[int, float]]:
    return [(int.from_bytes(each.data[:4], "big"), each.at) for each in simulator.audio_received]


def _answered(simulator: LiveSimulator) -> int:
    return sum(len(call.final_answers) == 1 for call in simulator.calls)


def _quiet(floor: Figures, _: Figures) -> bool:
    """Whether the floor kept what is asked of us: else the machine itself is late."""
    return max(floor["up_p99"], floor["down_p99"]) <= _QUIET_P99_MS


_WAYS = {"up": "microphone → server", "down": "server → listener"}

WORKLOAD = Workload(
    title="Frames of 20 ms both ways over the wire beside 50 running tools and a reload a second",
    measure=measure,
    pairs={"ours_live": 3},
    shown={
        f"{way}_{figure}": f"{arrow} {figure} ms"
        for way, arrow in (("up", "↑"), ("down", "↓"))
        for figure in ("p50", "p99", "max")
    },
    floor_heading="google-genai in a loop by hand",
    fair=_quiet,
    goals=[
        *(
            Goal(
                text=f"audio over the wire while 50 tools run, {name}, delay p99",
                adapter="ours_live",
                figure=f"{way}_p99",
                bound=5,
                unit="ms",
                against=Against.DIFFERENCE,
            )
            for way, name in _WAYS.items()
        ),
        *(
            Goal(
                text=f"… {what} ({_WAYS[way]})",
                adapter="ours_live",
                figure=f"{way}_{what}",
                bound=0,
                unit="frames",
            )
            for what in ("lost", "reordered")
            for way in _WAYS
        ),
        Goal(
            text="… calls without an answer",
            adapter="ours_live",
            figure="unanswered",
            bound=0,
            unit="calls",
        ),
    ],
)
