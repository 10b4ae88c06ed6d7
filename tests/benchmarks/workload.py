"""What a workload is: what it measures in one process, with whom, how often, and its goals."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from genai_processors import content_api, context

from tests.benchmarks.adapter import Part

Figures: TypeAlias = dict[str, float]
FLOOR = "floor"
_WHOLE_CORE = 0.9


class Against(StrEnum):
    """What a figure is held against."""

    NOTHING = "as it is"
    RATIO = "x floor"
    DIFFERENCE = "minus floor"


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """A bound on one figure of one adapter.

    Args:
        text: What is bounded, for the table.
        adapter: Whose figure it is.
        figure: The key of the figure.
        bound: The largest value that is still good.
        unit: The unit of the figure; of a ratio it is that of what is shown beside it.
        against: What the figure is held against.
    """

    text: str
    adapter: str
    figure: str
    bound: float
    unit: str
    against: Against = Against.NOTHING


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """One workload.

    Args:
        title: For the tables.
        measure: Adapter and `quick` → the figures of one run in this process.
        pairs: By adapter, how many times it runs, each time right behind the floor.
        shown: The figures of the comparison with others: key → heading.
        goals: What was promised.
        has_floor: Whether the floor can do this at all.
        floor_heading: What the floor is, for the tables.
        fair: Floor's figures and the other's → whether the machine was free for this pair.
    """

    title: str
    measure: Callable[[str, bool], Figures]
    pairs: Mapping[str, int]
    shown: Mapping[str, str]
    goals: Sequence[Goal]
    has_floor: bool = True
    floor_heading: str = "bare asyncio floor"
    fair: Callable[[Figures, Figures], bool] = lambda _floor, _figures: True


def run(measuring: Coroutine[Any, Any, Figures]) -> Figures:
    """Runs a measurement where processors of upstream can make tasks."""
    return asyncio.run(_within_context(measuring))


async def _within_context(measuring: Coroutine[Any, Any, Figures]) -> Figures:
    async with context.context():
        return await measuring


async def look_up(city: str, day: str, unit: str) -> dict[str, str]:
    """Current weather in a city.

    Args:
        city: Name of the city.
        day: Day of the week.
        unit: Unit of temperature.
    """
    return {"city": city, "day": day, "unit": unit}


def calls(count: int, name: str = "look_up", first: int = 0) -> list[Part]:
    """Calls with three strings each; no two are alike."""
    return [
        call(name, {"city": f"city {number}", "day": "monday", "unit": "celsius"}, number)
        for number in range(first, first + count)
    ]


def call(name: str, args: dict[str, object], number: int) -> Part:
    """One call as Gemini Live hands it over."""
    part = content_api.ProcessorPart.from_function_call(name=name, args=args, role="model")
    function_call = part.function_call
    assert function_call is not None
    function_call.id = f"call-{number}"
    return part


def had_a_core(floor: Figures, figures: Figures) -> bool:
    """Whether both halves of a pair had (nearly) a core to themselves."""
    return min(floor["cpu_share"], figures["cpu_share"]) >= _WHOLE_CORE


class Clock:
    """Wall time and CPU time of a stretch of work, in seconds."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def stop(self) -> tuple[float, float]:
        """The wall and CPU seconds since the start."""
        return time.perf_counter() - self._wall, time.process_time() - self._cpu


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share lies, of sorted values."""
    return values[min(len(values) - 1, int(len(values) * share))]
