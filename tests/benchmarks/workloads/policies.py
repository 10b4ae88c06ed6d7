"""One call at a time under one policy more: what each adds to a call.

With and without take turns in one process: a machine that is quick for one process and slow for the
next would else be measured, and not the policies.
"""

import itertools
import statistics
import time
from collections.abc import Mapping
from typing import Any

from leonidas_tools import AdvancedToolProcessor, Tool
from leonidas_tools.policies.hooks import Before
from leonidas_tools.policies.loop_guard import LoopHistory
from tests.benchmarks.workload import (
    Clock,
    Figures,
    Goal,
    Workload,
    had_a_core,
    look_up,
    percentile,
    run,
)

_NO_LOOP = {"warn_at": 0, "refuse_at": 0}
_MANY = {"per_turn": 10**9, "per_minute": 10**6, "per_session": 10**9}
_NEVER = {"name": "never", "tools": "look_up", "when": {"city": {"equals": "Rome"}}}
_ALL: Mapping[str, Any] = {
    "policies": {
        "concurrency": 100,
        "rules": [{**_NEVER, "decide": "ask"}],
        "calls": _MANY,
        "breaker": {},
    },
    "defaults": {
        "timeout": "5s",
        "deadline": "10s",
        "retry_attempts": 2,
        "fallback_tools": ["look_up_elsewhere"],
        "custom_parameters": {"unit": "celsius"},
        "concurrency": 10,
        "cache_seconds": 600,
        "max_result_tokens": 1000,
        "calls_per_turn": 10**9,
    },
}
"""Every policy that a read can have; each lets the call pass."""
_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "floor": {"policies": {"loop": _NO_LOOP}},
    "loop_guard": {},
    "cache_miss": {"policies": {"loop": _NO_LOOP}, "defaults": {"cache_seconds": 600}},
    "cache_hit": {"policies": {"loop": _NO_LOOP}, "defaults": {"cache_seconds": 600}},
    "call_limits": {"policies": {"loop": _NO_LOOP, "calls": _MANY}},
    "breaker": {"policies": {"loop": _NO_LOOP, "breaker": {}}},
    "result_budget": {"policies": {"loop": _NO_LOOP}, "defaults": {"max_result_tokens": 1000}},
    "all_policies": _ALL,
}


_BLOCK = 100
"""How many calls without, and then with, make up a turn."""
_WARM_UP = 500


def measure(adapter: str, quick: bool) -> Figures:
    """Latency of single calls in µs, with and without, in turns."""
    return run(_measure(adapter, 10 if quick else 50))


async def _measure(name: str, blocks: int) -> Figures:
    numbers = itertools.count()
    async with tools_under("floor") as bare, tools_under(name) as tools:

        async def timed(each: AdvancedToolProcessor, count: int = _BLOCK) -> list[float]:
            return [await timed_call(each, name, next(numbers)) for _ in range(count)]

        await timed(bare, _WARM_UP), await timed(tools, _WARM_UP)
        clock = Clock()
        pairs = [(await timed(bare), await timed(tools)) for _ in range(blocks)]
        wall, cpu = clock.stop()
    medians = [(statistics.median(without), statistics.median(with_)) for without, with_ in pairs]
    samples = sorted(sample for _, with_ in pairs for sample in with_)
    return {
        "without": statistics.median(without for without, _ in medians),
        "p50": percentile(samples, 0.50),
        "p99": percentile(samples, 0.99),
        "added": statistics.median(with_ - without for without, with_ in medians),
        "ratio": statistics.median(with_ / without for without, with_ in medians),
        "cpu_share": cpu / wall,
    }


async def timed_call(tools: AdvancedToolProcessor, name: str, number: int) -> float:
    """How long a call under these policies takes, in µs."""
    city = "city" if name == "cache_hit" else f"city {number}"
    arguments = {"city": city, "day": "monday", "unit": "celsius"}
    start = time.perf_counter()
    result = await tools.execute("look_up", arguments)
    took = (time.perf_counter() - start) * 1e6
    assert result.ok
    return took


def tools_under(name: str) -> AdvancedToolProcessor:
    """A read under one policy more than none, or under all."""
    settings = dict(_SETTINGS[name])
    settings["defaults"] = {"effect": "read", **settings.get("defaults", {})}
    if name != "all_policies":
        return _as_a_model(AdvancedToolProcessor([look_up], settings, builtin_tools=False))
    tools = AdvancedToolProcessor(
        [Tool(look_up, dependencies=["module:json"]), Tool(look_up, name="look_up_elsewhere")],
        settings,
        builtin_tools=False,
        policies=[Before(lambda call: None)],
    )
    return _as_a_model(tools)


def _as_a_model(tools: AdvancedToolProcessor) -> AdvancedToolProcessor:
    """The tools, whose loop guard counts the calls without a session too."""
    tools.session.get(LoopHistory).limits = None
    return tools


WORKLOAD = Workload(
    title="One call under one policy more",
    measure=measure,
    pairs={name: 5 if name == "all_policies" else 3 for name in _SETTINGS if name != "floor"},
    shown={
        "without": "without, p50 µs",
        "p50": "p50 µs",
        "p99": "p99 µs",
        "added": "adds µs",
        "ratio": "ratio",
    },
    goals=[
        Goal(
            text=f"what {name.replace('_', ' ')} adds to a call, p50",
            adapter=name,
            figure="added",
            bound=bound,
            unit="µs",
        )
        for name, bound in {"loop_guard": 5.0, "call_limits": 5.0, "breaker": 5.0}.items()
    ]
    + [
        Goal(
            text="one call under all policies together to one under none, p50",
            adapter="all_policies",
            figure="ratio",
            bound=2.0,
            unit="x",
        )
    ],
    has_floor=False,
    fair=lambda _, figures: had_a_core(figures, figures),
)
