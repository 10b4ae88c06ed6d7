"""Findings about well-formed settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A setting that does not do what it seems to.

    Args:
        severity: `error` where it does nothing, `warning` where it does less than it says.
        key: The dotted path of the setting.
        message: What is wrong and what to do about it.
    """

    severity: Severity
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.key}: {self.message}"
