"""An iteration of an agent: what a turn with one call costs, with a scripted model."""

import time

from leonidas_tools.agent import ReActAgent, ScriptedModel
from leonidas_tools.agent.models import Answer, ModelCall, Usage
from leonidas_tools.runtime.runtime import ToolRuntime
from tests.benchmarks.adapter import open_adapter
from tests.benchmarks.workload import (
    FLOOR,
    Against,
    Clock,
    Figures,
    Goal,
    Workload,
    calls,
    had_a_core,
    look_up,
    percentile,
    run,
)
from tests.benchmarks.workloads import agent_others

_ITERATIONS = 20
_SETTINGS = {"policies": {"calls": {"warn_per_minute": 0}}}


def measure(adapter: str, quick: bool) -> Figures:
    """Time of an iteration in µs; of the floor, that of its call."""
    runs = 50 if quick else 250
    if adapter == FLOOR:
        return run(_floor(runs * _ITERATIONS))
    return run(_agent(runs) if adapter == "ours_agent" else _other(adapter, runs // 5))


async def _floor(count: int) -> Figures:
    async with open_adapter(FLOOR, {"look_up": look_up}) as adapter:
        for part in calls(500):
            await adapter.answer([part])
        samples, clock = [], Clock()
        for part in calls(count, first=500):
            start = time.perf_counter()
            await adapter.answer([part])
            samples.append((time.perf_counter() - start) * 1e6)
    return _figures(samples, clock)


async def _agent(runs: int) -> Figures:
    async with ToolRuntime([look_up], _SETTINGS, builtin_tools=False) as tools:
        for number in range(10):
            await _made(tools, number).run("Look up the weather.")
        samples, clock = [], Clock()
        for number in range(10, runs + 10):
            agent = _made(tools, number)
            start = time.perf_counter()
            result = await agent.run("Look up the weather.")
            samples.append((time.perf_counter() - start) / (_ITERATIONS + 1) * 1e6)
            assert result.ok
    return _figures(samples, clock)


async def _other(adapter: str, runs: int) -> Figures:
    work = agent_others.made(adapter, _ITERATIONS)
    for _ in range(5):
        await work()
    samples, clock = [], Clock()
    for _ in range(runs):
        start = time.perf_counter()
        await work()
        samples.append((time.perf_counter() - start) / (_ITERATIONS + 1) * 1e6)
    return _figures(samples, clock)


def _made(tools: ToolRuntime, run: int) -> ReActAgent:
    """An agent whose model makes twenty calls, no two alike, one in each turn."""
    used = Usage(input_tokens=100, output_tokens=20)
    turns = [
        Answer(calls=[_call(number)], usage=used)
        for number in range(run * _ITERATIONS, (run + 1) * _ITERATIONS)
    ]
    model = ScriptedModel([*turns, Answer(text="It is sunny.", usage=used)])
    return ReActAgent(model, tools, max_iterations=_ITERATIONS + 1)


def _call(number: int) -> ModelCall:
    arguments = {"city": f"city {number}", "day": "monday", "unit": "celsius"}
    return ModelCall(id=f"call-{number}", name="look_up", arguments=arguments)


def _figures(samples: list[float], clock: Clock) -> Figures:
    wall, cpu = clock.stop()
    samples.sort()
    return {
        "p50": percentile(samples, 0.50),
        "p95": percentile(samples, 0.95),
        "cpu_share": cpu / wall,
    }


WORKLOAD = Workload(
    title="An iteration of an agent with one call, by a scripted model",
    measure=measure,
    pairs={"ours_agent": 5} | dict.fromkeys(agent_others.installed(), 1),
    shown={"p50": "p50 µs", "p95": "p95 µs"},
    floor_heading="a call of the bare asyncio floor",
    goals=[
        Goal(
            text="an iteration of an agent, p50",
            adapter="ours_agent",
            figure="p50",
            bound=3.0,
            unit="µs",
            against=Against.RATIO,
        ),
    ],
    fair=had_a_core,
)
