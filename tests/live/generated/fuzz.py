"""`python -m tests.live.generated --sessions 100000`: generated sessions in virtual time.

They are played in batches, each with a seed of its own. What is done is kept in a file, so that the
next start goes on from there; batches that failed are played again.
"""

import argparse
import logging
import multiprocessing
import os
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from leonidas_tools.simulator import GENERATIONS
from tests.live.generated.show import held
from tests.live.generated.steps import planned, scripts
from tests.live.generated.verdict import judge
from tests.live.generated.virtual import Arena

BATCH_SESSIONS = 100
_BATCHES_PER_PROCESS = 20
_NETWORKS = ((0.0, 0.02), (0.15, 0.05), (0.0, 0.1), (0.4, 0.1))
"""How long a network takes from one end to the other, and how often the user sends a frame."""
_SHOW_SECONDS = {True: 1.0, False: 30.0}
"""How often the progress is shown: on a terminal, and elsewhere."""
_KEPT = Path("build/fuzz.sqlite")


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Sessions of one generation of models over one kind of network, with one seed."""

    number: int
    sessions: int = BATCH_SESSIONS

    @property
    def generation(self) -> str:
        """Return the generation."""
        return sorted(GENERATIONS)[self.number % len(GENERATIONS)]

    @property
    def network(self) -> dict[str, float]:
        """Return how the network is."""
        kind = self.number // len(GENERATIONS) % len(_NETWORKS)
        return dict(zip(("delay_seconds", "frame_seconds"), _NETWORKS[kind], strict=True))


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of a batch."""

    batch: Batch
    sessions: int
    """How many were played."""
    seconds: float
    failure: str | None


def play(batch: Batch, verdict: Callable[[Any], None] = judge) -> Result:
    """Play a batch up to its first failure, which is made as small as can be."""
    began, played, failure = time.monotonic(), 0, None

    @seed(batch.number)
    @settings(
        max_examples=batch.sessions,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        plan=st.lists(planned, min_size=6, max_size=12).map(tuple),
        steps=scripts(),
        unique_ids=st.booleans(),
    )
    def hold(**drawn: Any) -> None:
        nonlocal played
        verdict(held(generation=batch.generation, arena=arena, **batch.network, **drawn))
        played += 1

    with Arena() as arena:
        try:
            hold()
        except Exception as error:
            failure = "".join(traceback.format_exception(error))
    seconds = time.monotonic() - began
    return Result(batch=batch, sessions=played, seconds=seconds, failure=failure)


class Kept:
    """The file that says what is done."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path)
        with self._connection:
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY, "
                "generation TEXT, sessions INTEGER, seconds REAL, failure TEXT)"
            )

    def add(self, result: Result) -> None:
        """Keep the result of a batch."""
        batch = result.batch
        row = (batch.number, batch.generation, result.sessions, result.seconds, result.failure)
        with self._connection:
            self._connection.execute("INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?, ?)", row)

    def missing(self, sessions: int) -> list[Batch]:
        """Return the batches, for so many sessions in all, that are not done or have failed."""
        done = dict(
            self._connection.execute("SELECT number, sessions FROM batches WHERE failure IS NULL")
        )
        wanted = (
            Batch(number=number, sessions=min(BATCH_SESSIONS, sessions - number * BATCH_SESSIONS))
            for number in range(-(-sessions // BATCH_SESSIONS))
        )
        return [batch for batch in wanted if done.get(batch.number, 0) < batch.sessions]

    def count(self) -> int:
        """Return how many sessions were played."""
        (count,) = self._connection.execute("SELECT TOTAL(sessions) FROM batches").fetchone()
        return int(count)

    def failures(self) -> list[tuple[int, str]]:
        """Return the batches that failed, and why."""
        rows = self._connection.execute(
            "SELECT number, failure FROM batches WHERE failure IS NOT NULL ORDER BY number"
        )
        return rows.fetchall()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def main(arguments: list[str] | None = None) -> int:
    """Play what is missing, and return 1 if anything failed."""
    given_ = _parse(arguments)
    with closing(Kept(given_.file)) as kept:
        _play_all(kept.missing(given_.sessions), kept, sessions=given_.sessions, jobs=given_.jobs)
        failures = kept.failures()
        for number, failure in failures:
            print(f"\nThe batch with seed {number}:\n{failure}")
        print(f"{kept.count()} sessions, {len(failures)} batches failed; see {given_.file}")
    return 1 if failures else 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.live.generated", description=__doc__)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--file", type=Path, default=_KEPT, help="says what is done")
    return parser.parse_args(arguments)


def _play_all(batches: list[Batch], kept: Kept, *, sessions: int, jobs: int) -> None:
    began, played, shown = time.monotonic(), 0, 0.0
    is_terminal = sys.stdout.isatty()
    processes = multiprocessing.get_context("spawn")
    with processes.Pool(jobs, _be_quiet, maxtasksperchild=_BATCHES_PER_PROCESS) as pool:
        for result in pool.imap_unordered(play, batches):
            kept.add(result)
            played += result.sessions
            seconds = time.monotonic() - began
            if seconds < shown + _SHOW_SECONDS[is_terminal] and kept.count() < sessions:
                continue
            shown = seconds
            line = (
                f"{kept.count()} of {sessions} sessions, {played / seconds:.1f} a second, "
                f"{len(kept.failures())} batches failed"
            )
            print(line, end="\r" if is_terminal else "\n", flush=True)
    if is_terminal:
        print()


def _be_quiet() -> None:
    """Report no lost connection: there are many."""
    for name in ("leonidas_tools", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
