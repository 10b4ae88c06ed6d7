"""Settings as they were written, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where.

    Args:
        message: What is wrong and what to do about it.
        path: The keys that lead to it.
        line: The line, counted from 1.
    """

    message: str
    path: KeyPath = ()
    line: int | None = None


class DocumentError(Exception):
    """Raised when a text is not YAML that could hold settings; carries the problem."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.problem = Problem(message, line=line)


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingsDocument:
    """The content of a YAML text.

    Args:
        data: Plain data: mappings with text for keys, lists, text, numbers, booleans, `None`.
        lines: The line of every key and list item, counted from 1.
        problems: Keys that stand twice, values of unknown kinds.
    """

    data: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
