"""Findings about well-formed settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.settings.problem import KeyPath

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


def line_of(key: str, lines: Mapping[KeyPath, int]) -> int | None:
    """Return the line of a dotted key, or of the nearest one above it that the file has."""
    dotted = {".".join(map(str, path)): line for path, line in lines.items()}
    while key and key not in dotted:
        key = key.rpartition(".")[0]
    return dotted.get(key)
