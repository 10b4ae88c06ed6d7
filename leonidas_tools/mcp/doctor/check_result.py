"""The result of one step of an examination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """The result of one step.

    Args:
        step: What was looked at.
        outcome: `failed` keeps the server from working, a `note` does not.
        message: What was seen, without secrets.
        hint: What to do about it.
        seconds: How long the step took, where that says something.
    """

    step: str
    outcome: Literal["ok", "note", "failed"]
    message: str
    hint: str | None = None
    seconds: float | None = None
