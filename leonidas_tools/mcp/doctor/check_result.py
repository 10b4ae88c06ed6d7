"""The result of one step of an examination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """The result of one step.

    Args:
        step: The name of the step.
        outcome: `failed` if the server cannot work because of it, `note` if the server can.
        message: The finding, without secrets.
        hint: The remedy, if one is known.
        seconds: The duration of the step, if it is meaningful.
    """

    step: str
    outcome: Literal["ok", "note", "failed"]
    message: str
    hint: str | None = None
    seconds: float | None = None
