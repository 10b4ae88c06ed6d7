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


class KeyLines:
    """The lines of dotted keys in a file.

    Args:
        lines: The line of each path.

    Example:
        >>> KeyLines({("tools", "add"): 3}).of("tools.add.timeout")
        3
    """

    def __init__(self, lines: Mapping[KeyPath, int]) -> None:
        self._lines = {".".join(map(str, path)): line for path, line in lines.items()}

    def of(self, key: str) -> int | None:
        """Return the line of a key, or of the nearest one above it that the file has."""
        while key and key not in self._lines:
            key = key.rpartition(".")[0]
        return self._lines.get(key)
