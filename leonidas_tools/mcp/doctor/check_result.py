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


def ok(step: str, message: str, seconds: float | None = None) -> CheckResult:
    """Return the result of a step that has succeeded."""
    return CheckResult(step=step, outcome="ok", message=message, seconds=seconds)


def note(step: str, message: str, hint: str | None = None) -> CheckResult:
    """Return the result of a step that the server can work in spite of."""
    return CheckResult(step=step, outcome="note", message=message, hint=hint)


def failed(step: str, message: str, hint: str | None = None) -> CheckResult:
    """Return the result of a step because of which the server cannot work."""
    return CheckResult(step=step, outcome="failed", message=message, hint=hint)
