"""One call at a time over the wire, timed by the server: from its sending to its answer."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from leonidas_tools.simulator import FunctionCall, LiveSimulator, SimulatedSession
from tests.benchmarks.adapter import Part
from tests.benchmarks.live.agent import Brief, open_agent, text
from tests.benchmarks.live.server import SimulatedServer
from tests.benchmarks.workload import Against, Clock, Figures, Goal, Workload, percentile, run

_WARM_UP = 100


def measure(adapter: str, quick: bool) -> Figures:
    """Latency of single calls in µs, and what they cost this process."""
    count = 500 if quick else 1_000
    with SimulatedServer(partial(ask, count=_WARM_UP + count)) as server:
        cpu = run(_talk(adapter))["cpu"] / count * 1e6
        latencies = sorted(server.ask(_latencies)[_WARM_UP:])
    return {
        "p50": percentile(latencies, 0.50),
        "p95": percentile(latencies, 0.95),
        "p99": percentile(latencies, 0.99),
        "cpu": cpu,
    }


async def _talk(name: str) -> Figures:
    over = asyncio.Event()
    clock = Clock()

    async def look_up(city: str, day: str, unit: str) -> dict[str, str]:
        nonlocal clock
        if city == f"city {_WARM_UP}":
            clock = Clock()
        return {"city": city, "day": day, "unit": unit}

    async def says() -> AsyncIterator[Part]:
        yield text("begin")
        await over.wait()

    async with open_agent(name, Brief(functions={"look_up": look_up})) as agent:
        async for _ in agent.talk(says()):
            cpu = clock.stop()[1]
            over.set()
        return {"cpu": cpu}


async def ask(session: SimulatedSession, *, count: int) -> None:
    """Makes so many calls one after another, and says something at the end."""
    await session.wait_for_input("text")
    for number in range(count):
        args = {"city": f"city {number}", "day": "monday", "unit": "celsius"}
        await session.call(FunctionCall("look_up", args))
    await session.say("That is all.", audio_seconds=0.1)


def _latencies(simulator: LiveSimulator) -> list[float]:
    return [(call.answers[0].at - call.sent_at) * 1e6 for call in simulator.calls]


WORKLOAD = Workload(
    title="One call at a time over the wire, loopback and a simulated server included",
    measure=measure,
    pairs={"ours_live": 3, "live_processor": 1},
    shown={"p50": "p50 µs", "p95": "p95 µs", "p99": "p99 µs", "cpu": "CPU µs/call"},
    floor_heading="google-genai in a loop by hand",
    goals=[
        Goal(
            text="a call over the wire, from the server and back, p50",
            adapter="ours_live",
            figure="p50",
            bound=1_000,
            unit="µs",
            against=Against.DIFFERENCE,
        ),
    ],
)
