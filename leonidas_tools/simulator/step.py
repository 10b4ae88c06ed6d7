"""The base of all steps of a scenario."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from pydantic import Field

if TYPE_CHECKING:
    from leonidas_tools.simulator.session import SimulatedSession

Seconds: TypeAlias = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Step:
    """Something the simulated model does or waits for."""

    mapping_is_value: ClassVar[bool] = False
    """Whether a mapping in YAML is the value of the first field, not the fields."""

    @classmethod
    def step_name(cls) -> str:
        """Return the name in YAML, which is also the name of the session's method.

        Example:
            >>> from leonidas_tools.simulator import WaitForAnswers
            >>> WaitForAnswers.step_name()
            'wait_for_answers'
        """
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    async def play(self, session: SimulatedSession) -> None:
        """Play the session's method of the same name, with the fields as its arguments."""
        method = getattr(session, self.step_name())
        await method(**{each.name: getattr(self, each.name) for each in fields(self)})

    def __str__(self) -> str:
        told = {each.name: getattr(self, each.name) for each in fields(self) if _told(self, each)}
        text = ", ".join(f"{name}={value!r}" for name, value in told.items())
        return f"{self.step_name()}({text[:120]})"


def _told(step: Step, each: Any) -> bool:
    if not each.repr:
        return False
    return each.default is MISSING or getattr(step, each.name) != each.default
