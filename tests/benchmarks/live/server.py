"""A simulated server in a process of its own, so that it shares no interpreter with the agent."""

import gc
import multiprocessing
import os
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Self, TypeAlias, TypeVar, cast

from leonidas_tools.simulator import LiveSimulator, Scenario
from leonidas_tools.simulator.scenario import Play

T = TypeVar("T")
Ask: TypeAlias = Callable[[LiveSimulator], T]
_START_SECONDS = 30.0


class SimulatedServer:
    """Plays a script on each connection in turn, and leads every client in this process there.

    Both processes have the same monotonic clock.

    Args:
        plays: The scripts: functions of a module, since the other process has to find them.
        generation: Whose server it is; by default a plain one.
    """

    def __init__(self, *plays: Play | partial[Any], generation: str | None = None) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawning.Pipe()
        self._process = spawning.Process(target=_serve, args=(theirs, plays, generation))

    def __enter__(self) -> Self:
        self._process.start()
        if not self._pipe.poll(_START_SECONDS):
            raise TimeoutError("the simulated server does not start")
        os.environ.update(self._pipe.recv())
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.send(None)
        self._process.join()

    def ask(self, question: Ask[T]) -> T:
        """What a function of a module learns from the simulator."""
        self._pipe.send(question)
        answer, error = self._pipe.recv()
        if error is not None:
            raise RuntimeError(error)
        return cast("T", answer)


def _serve(pipe: Connection, plays: tuple[Play, ...], generation: str | None) -> None:
    gc.disable()  # a full collection takes 0.1 s, which would count as a delay of the agent
    scenario = Scenario(connections=plays)
    with LiveSimulator(scenario, generation=generation) as simulator:
        pipe.send(simulator.environment())
        while (question := pipe.recv()) is not None:
            try:
                simulator.check()
                pipe.send((question(simulator), None))
            except Exception as error:  # told where it is of use
                pipe.send((None, repr(error)))
