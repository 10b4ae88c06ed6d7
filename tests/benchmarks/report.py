"""The results as Markdown and as JSON."""

import os
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from tests.benchmarks.pairs import Pair, Results
from tests.benchmarks.suite import load
from tests.benchmarks.workload import FLOOR, Against, Goal, Workload

_HEADINGS = {
    "ours_agent": "**`ReActAgent`**",
    "ours_execute": "**`execute`**",
    "ours_import": "`leonidas_tools`",
    "ours_stream": "**`AdvancedToolProcessor`**",
    "ours_whole": "**`AdvancedToolProcessor`**, room for 2 MB",
    "pydantic_ai": "pydantic-ai's `Agent`",
    "openai_agents": "`Runner` of openai-agents",
    "function_calling": "upstream `FunctionCalling`",
    "part_processor": "chain of `PartProcessor`s",
    "ours_live": "**`GeminiLiveProcessor`** in `LiveToolSession`",
    "live_processor": "upstream `LiveProcessor` in `LiveToolSession`",
    "bare_wire": "websockets, json and base64 by hand",
    "pipecat": "Pipecat's Gemini Live service",
    "loop_guard": "loop guard",
    "cache_miss": "cache, asked for the first time",
    "cache_hit": "cache, asked again",
    "call_limits": "limits of calls",
    "breaker": "breaker",
    "result_budget": "result budget",
    "all_policies": "all policies together",
    "ours_speech": "**`SpeechOutputProcessor`**",
    "bubblewrap": "**`Sandbox`**, bubblewrap",
    "landlock": "**`Sandbox`**, Landlock",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """One goal, measured: medians over its pairs, with their least and most."""

    goal: Goal
    value: float
    least: float
    most: float
    figure: float
    floor: float | None
    pairs: int
    fair: bool

    @property
    def met(self) -> bool:
        """Whether the median is within the bound."""
        return self.value <= self.goal.bound


def judge(results: Results) -> list[Verdict]:
    """Every goal whose workload ran."""
    return [
        _verdict(goal, [pair for pair in pairs if pair.adapter == goal.adapter])
        for name, pairs in results.items()
        for goal in load(name).goals
        if goal.adapter in {pair.adapter for pair in pairs}
    ]


def _verdict(goal: Goal, pairs: Sequence[Pair]) -> Verdict:
    values = [_value(goal, pair) for pair in pairs]
    floors = [pair.floor[goal.figure] for pair in pairs if goal.figure in pair.floor]
    return Verdict(
        goal=goal,
        value=statistics.median(values),
        least=min(values),
        most=max(values),
        figure=statistics.median(pair.figures[goal.figure] for pair in pairs),
        floor=statistics.median(floors) if floors else None,
        pairs=len(pairs),
        fair=all(pair.fair for pair in pairs),
    )


def _value(goal: Goal, pair: Pair) -> float:
    figure = pair.figures[goal.figure]
    if goal.against is Against.RATIO:
        return figure / pair.floor[goal.figure]
    if goal.against is Against.DIFFERENCE:
        return figure - pair.floor[goal.figure]
    return figure


def in_short(results: Results) -> str:
    """How many goals are met, those that are not, and what a single call costs."""
    verdicts = judge(results)
    missed = [verdict for verdict in verdicts if not verdict.met]
    lines = [_machine(), "", f"{len(verdicts) - len(missed)} of {len(verdicts)} goals are met"]
    lines[-1] += "; these are not:" if missed else "."
    lines += ["", *_goals(missed)] if missed else []
    if pairs := results.get("latency"):
        lines += ["", *_comparison(load("latency"), pairs)]
    return "\n".join(lines) + "\n"


def to_markdown(results: Results) -> str:
    """The table of goals, then one table a workload with everybody in it."""
    lines = [_machine(), "", *_goals(judge(results))]
    for name, pairs in results.items():
        lines += ["", *_comparison(load(name), pairs)]
    return "\n".join(lines) + "\n"


def to_json(results: Results) -> dict[str, Any]:
    """Every figure of every pair, and the verdicts."""
    return {
        "machine": _machine(),
        "verdicts": [asdict(verdict) | {"met": verdict.met} for verdict in judge(results)],
        "pairs": {name: [asdict(pair) for pair in pairs] for name, pairs in results.items()},
    }


def _machine() -> str:
    return (
        f"{time.strftime('%Y-%m-%d')}, CPython {platform.python_version()}, "
        f"{os.cpu_count()} cores, genai-processors {version('genai-processors')}, "
        f"google-genai {version('google-genai')}. Medians over pairs of processes "
        "(the floor, and right behind it the other); in brackets the least and the most."
    )


def _goals(verdicts: Sequence[Verdict]) -> list[str]:
    lines = ["| what | measured | goal | | floor |", "|---|---:|---:|---|---:|"]
    for verdict in verdicts:
        goal = verdict.goal
        unit = "x" if goal.against is Against.RATIO else goal.unit
        spread = f" ({_number(verdict.least)} to {_number(verdict.most)})" * (verdict.pairs > 1)
        shown = f"{_number(verdict.value)} {unit}{spread}"
        if goal.against is not Against.NOTHING:
            shown += f", {_number(verdict.figure)} {goal.unit}"
        floor = "" if verdict.floor is None else f"{_number(verdict.floor)} {goal.unit}"
        bound = f"≤ {_number(goal.bound)} {unit}"
        if goal.against is not Against.NOTHING:
            bound = f"≤ {_number(goal.bound)} {unit} {'floor' if unit == 'x' else 'over floor'}"
        said = ("ok" if verdict.met else "**missed**") + ", machine busy" * (not verdict.fair)
        lines.append(f"| {goal.text} | {shown} | {bound} | {said} | {floor} |")
    return lines


def _comparison(workload: Workload, pairs: Sequence[Pair]) -> list[str]:
    lines = [
        f"**{workload.title}**",
        "",
        "| | " + " | ".join(workload.shown.values()) + " | pairs |",
        "|---|" + "---:|" * (len(workload.shown) + 1),
    ]
    if workload.has_floor:
        lines.append(_row(workload, FLOOR, [pair.floor for pair in pairs]))
    for adapter in workload.pairs:
        if runs := [pair.figures for pair in pairs if pair.adapter == adapter]:
            lines.append(_row(workload, adapter, runs))
    return lines


def _row(workload: Workload, adapter: str, runs: Sequence[dict[str, float]]) -> str:
    cells = [_number(statistics.median(run[key] for run in runs)) for key in workload.shown]
    heading = workload.floor_heading if adapter == FLOOR else _HEADINGS[adapter]
    return f"| {heading} | " + " | ".join(cells) + f" | {len(runs)} |"


def _number(value: float) -> str:
    """Three digits that mean something."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
