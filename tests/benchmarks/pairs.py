"""Runs a workload in pairs of processes: the floor, and right behind it an adapter."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.benchmarks.suite import load
from tests.benchmarks.workload import FLOOR, Figures, Workload

_MAX_SECONDS = 120
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two processes in a row.

    Args:
        adapter: Who ran behind the floor.
        floor: What the floor took; empty where there is none.
        figures: What the adapter took.
        fair: Whether the machine was free for both.
    """

    adapter: str
    floor: Figures
    figures: Figures
    fair: bool


class FailedRunError(Exception):
    """A process ended without figures."""


Results: TypeAlias = Mapping[str, Sequence[Pair]]
"""The pairs of each workload, by its name."""


def plan(names: Sequence[str], quick: bool) -> list[tuple[str, str]]:
    """Workload and adapter of every pair, adapters taking turns."""
    pairs: list[tuple[str, str]] = []
    for name in names:
        counts = {adapter: 1 if quick else count for adapter, count in load(name).pairs.items()}
        for turn in range(max(counts.values())):
            pairs += [(name, adapter) for adapter, count in counts.items() if turn < count]
    return pairs


def run_pair(name: str, adapter: str, quick: bool, say: Callable[[str], None]) -> Pair:
    """Runs one pair; once more, where the machine was not free for it."""
    workload = load(name)
    pair = _run_once(name, workload, adapter, quick)
    if not pair.fair:
        say(f"{name} {adapter}: the machine was busy, once more")
        pair = _run_once(name, workload, adapter, quick)
    return pair


def _run_once(name: str, workload: Workload, adapter: str, quick: bool) -> Pair:
    floor = _run_child(name, FLOOR, quick) if workload.has_floor else {}
    figures = _run_child(name, adapter, quick)
    return Pair(adapter=adapter, floor=floor, figures=figures, fair=workload.fair(floor, figures))


def _run_child(workload: str, adapter: str, quick: bool) -> Figures:
    command = [sys.executable, "-m", "tests.benchmarks.child", workload, adapter]
    try:
        done = subprocess.run(
            [*command, "--quick"] if quick else command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=_MAX_SECONDS,
        )
    except subprocess.CalledProcessError as error:
        reason = error.stderr[-3000:]
        raise FailedRunError(f"{workload!r} with {adapter!r} failed:\n{reason}") from error
    except subprocess.TimeoutExpired as error:
        reason = f"took longer than {_MAX_SECONDS} s"
        raise FailedRunError(f"{workload!r} with {adapter!r} {reason}") from error
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures
