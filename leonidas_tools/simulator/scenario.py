"""A scenario: the script of the simulated model, for one connection or several in turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from leonidas_tools.simulator.session import ClientLeftError, SimulatedSession, StepFailedError

if TYPE_CHECKING:
    from leonidas_tools.simulator.steps import Step

Play: TypeAlias = Callable[[SimulatedSession], Awaitable[None]]
"""A scenario in Python: an async function that plays one connection."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The behaviour of the simulated model.

    Args:
        steps: The steps, played on every connection from the start; or an async function.
        connections: One script for each connection, in turn, in place of `steps`.
        name: The name of the scenario.
        description: Its purpose.
        generation: The generation of models that plays it, such as `3.1`; by default a server
            without quirks.
        needs: Its requirements, in words; shown when it fails.

    Example:
        >>> from leonidas_tools.simulator import Call, WaitForAnswers
        >>> scenario = Scenario([Call.one("roll_dice", {"sides": 6}), WaitForAnswers()])
        >>> len(scenario.scripts)
        1
    """

    steps: Sequence[Step] | Play = ()
    _: KW_ONLY
    connections: Sequence[Sequence[Step] | Play] = ()
    name: str = "scenario"
    description: str = ""
    generation: str | None = None
    needs: str = ""

    def __post_init__(self) -> None:
        """Check the scripts.

        Raises:
            TypeError: A script is neither an async function nor a sequence of steps.
        """
        for script in self.scripts:
            _check(script)

    @property
    def scripts(self) -> Sequence[Sequence[Step] | Play]:
        """Return one script for each connection."""
        return self.connections or (self.steps,)

    def script_for(self, number: int) -> Play | None:
        """Return the script of a connection, counted from 1; None if there is none."""
        if not self.connections:
            return as_play(self.steps)
        return as_play(self.connections[number - 1]) if number <= len(self.connections) else None

    @classmethod
    def load(cls, path: Path | str) -> Scenario:
        """Read a scenario from a YAML file.

        Raises:
            ConfigurationError: The file cannot be read, or a step in it is wrong; the message
                names file, line and key.
        """
        from leonidas_tools.simulator.scenario_file import load_scenario

        return load_scenario(Path(path))


def _check(script: object) -> None:
    if isinstance(script, str | Path):
        raise TypeError(f"steps must be a list of steps; a file is Scenario.load({str(script)!r})")
    for step in script if isinstance(script, Iterable) else ():
        if isinstance(step, type) or not hasattr(step, "play"):
            raise TypeError(f"{step!r} is not a step: give one, such as Say('Hello.')")


def as_play(script: Sequence[Step] | Play) -> Play:
    """Return a function that plays a script."""
    if callable(script):
        return script
    steps = tuple(script)

    async def play(session: SimulatedSession) -> None:
        for number, step in enumerate(steps, start=1):
            try:
                await step.play(session)
            except StepFailedError as error:
                raise StepFailedError(f"step {number} ({step}): {error}") from None
            except ClientLeftError as error:
                raise ClientLeftError(
                    f"step {number} ({step}): {str(error) or 'interrupted'}"
                ) from None

    return play
