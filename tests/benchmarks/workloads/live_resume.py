"""A drop with 20 calls under way: how long until the session goes on, and the model has it all.

All times are the server's: from the drop, or from its listening again, to the next setup, and from
there to the last of the 20 outcomes. The tools end while there is no connection.
"""

import asyncio
import statistics
from collections.abc import AsyncIterator
from functools import partial

from leonidas_tools.simulator import FunctionCall, LiveSimulator, SimulatedSession
from tests.benchmarks.adapter import Part
from tests.benchmarks.live.agent import Brief, open_agent, text
from tests.benchmarks.live.server import SimulatedServer
from tests.benchmarks.workload import Figures, Goal, Workload, run

_CALLS = 20
_DOWN_SECONDS = 1.0
_CALLED = "called"


def measure(adapter: str, quick: bool) -> Figures:
    """Times in ms, medians and worst, with a server that stays up and one that is down for 1 s."""
    rounds = 2 if quick else 5
    up = _measure(adapter, rounds, down_seconds=0.0)
    down = _measure(adapter, rounds, down_seconds=_DOWN_SECONDS)
    return {
        "up": statistics.median(back for back, _ in up),
        "up_max": max(back for back, _ in up),
        "down": statistics.median(back for back, _ in down),
        "down_max": max(back for back, _ in down),
        "told": statistics.median(told for _, told in up + down),
        "told_max": max(told for _, told in up + down),
    }


def _measure(adapter: str, rounds: int, *, down_seconds: float) -> list[tuple[float, float]]:
    plays = (partial(call_and_drop, down_seconds=down_seconds), hear_outcomes)
    with SimulatedServer(*plays * rounds, generation="3.8-live") as server:
        for _ in range(rounds):
            run(_talk(adapter))
        return server.ask(partial(_times, down_seconds=down_seconds))


async def _talk(name: str) -> Figures:
    called, lost, over = asyncio.Event(), asyncio.Event(), asyncio.Event()
    running = 0

    async def look(seat: int) -> int:
        nonlocal running
        running += 1
        if running == _CALLS:
            called.set()
        await lost.wait()
        return seat

    async def says() -> AsyncIterator[Part]:
        await called.wait()
        yield text(_CALLED)
        await over.wait()

    async with open_agent(name, Brief(functions={"look": look}, lost=lost.set)) as agent:
        async for _ in agent.talk(says()):
            over.set()
    return {}


async def call_and_drop(session: SimulatedSession, *, down_seconds: float) -> None:
    """Drops the connection when all 20 calls are under way."""
    await session.session_resumption(f"handle-{session.number}")
    await session.send_calls(*(FunctionCall("look", {"seat": seat}) for seat in range(_CALLS)))
    await session.wait_for_input("text", containing=_CALLED)
    if down_seconds:
        await session.stop_listening(down_seconds)
    await session.drop()


async def hear_outcomes(session: SimulatedSession) -> None:
    """Speaks once the 20 outcomes are told."""
    outcomes = 0
    while outcomes < _CALLS:
        (told,) = await session.wait_for_input("text")
        outcomes += _outcomes_in(told.text)
    await session.say("Thank you.", audio_seconds=0.1)
    await session.turn_complete()


def _outcomes_in(words: str) -> int:
    return sum(line.startswith("{") for line in words.splitlines())


def _times(simulator: LiveSimulator, *, down_seconds: float) -> list[tuple[float, float]]:
    setups = {
        each.connection: each.at
        for each in simulator.messages
        if each.sender == "client" and "setup" in each.data
    }
    texts = {each.connection: each.at for each in simulator.texts_received}  # the last of each
    return [
        (
            (setups[number] - texts[number - 1] - down_seconds) * 1e3,
            (texts[number] - setups[number]) * 1e3,
        )
        for number in sorted(texts)[1::2]
    ]


WORKLOAD = Workload(
    title="A dropped connection with 20 calls under way",
    measure=measure,
    pairs={"ours_live": 2},
    shown={
        "up": "drop → next setup ms",
        "up_max": "at worst",
        "down": "server back after 1 s → setup ms",
        "down_max": "at worst",
        "told": "setup → 20 outcomes told ms",
        "told_max": "at worst",
    },
    floor_heading="google-genai in a loop by hand, trying again every 0.4 s",
    goals=[
        Goal(
            text="a drop with 20 calls under way, until the next setup, at worst",
            adapter="ours_live",
            figure="up_max",
            bound=1_000,
            unit="ms",
        ),
        Goal(
            text="… where the server was down for 1 s, from its return, at worst",
            adapter="ours_live",
            figure="down_max",
            bound=1_000,
            unit="ms",
        ),
        Goal(
            text="… from the setup to all 20 outcomes told, at worst",
            adapter="ours_live",
            figure="told_max",
            bound=1_000,
            unit="ms",
        ),
    ],
)
