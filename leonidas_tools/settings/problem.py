"""Settings as written, their problems, and findings about valid settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


KeyPath: TypeAlias = tuple[str | int, ...]
Severity: TypeAlias = Literal["error", "warning", "info"]
EMPTY = "is empty: give it a value, or remove the line"


def value_at(data: Any, path: Sequence[str | int]) -> Any:
    """Return the value at a path of keys; `None` if the path does not exist."""
    for step in path:
        try:
            data = data[step]
        except (LookupError, TypeError):
            return None
    return data


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of the settings, and its place."""

    message: str
    path: KeyPath = ()  # the keys that lead to it
    line: int | None = None  # counted from 1


class DocumentError(Exception):
    """Raised when a text is not YAML for settings; `problem` has the details."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.problem = Problem(message, line=line)


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingsDocument:
    """The content of a YAML text."""

    data: Any = None
    # the line of every key and list item, counted from 1
    lines: dict[KeyPath, int] = field(default_factory=dict)
    # duplicate keys, values of unknown types
    problems: list[Problem] = field(default_factory=list)
    # where the word `null` is written
    nulls: list[KeyPath] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A setting that has no effect, or another effect than it seems to have."""

    # `error` if it has no effect, `warning` if it has less than it says, `info` if it has what it
    # says
    severity: Severity
    key: str  # dotted
    message: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.key}: {self.message}"


class KeyLines:
    """The lines of dotted keys in a file.

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
