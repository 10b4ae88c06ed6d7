"""Recovery attempts after failures: by strategy and kind of error, and how often they helped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.calls.events import EventKind, ToolEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_STRATEGIES = frozenset({"retry", "fallback", "similar_tool"})
_KIND = r"[A-Za-z_][A-Za-z0-9_.]{0,63}"
_OTHER_KIND = "(other)"
_MOST_KINDS = 64

RecoveryKey: TypeAlias = tuple[str, str]
"""A strategy and a kind of error."""


def recovery_key(event: ToolEvent) -> RecoveryKey:
    """Return the strategy and the kind of error of a retry or a fallback.

    The event's `strategy` tells a `similar_tool` from a declared `fallback`; its `error` is an
    exception or a word. A text is no kind: it may hold anything, so it is not kept.

    Args:
        event: An event of kind `tool_retry` or `tool_fallback`.
    """
    default = "retry" if event.kind is EventKind.RETRY else "fallback"
    strategy = event.data.get("strategy", default)
    error = event.data.get("error", "")
    kind = type(error).__name__ if isinstance(error, BaseException) else str(error)
    return (
        strategy if strategy in _STRATEGIES else default,
        kind if re.fullmatch(_KIND, kind) else _OTHER_KIND,
    )


class Recoveries:
    """Counts the recoveries that were tried and those that led to success, in bounded memory."""

    __slots__ = ("succeeded", "tried")

    def __init__(self) -> None:
        self.tried: dict[RecoveryKey, int] = {}
        self.succeeded: dict[RecoveryKey, int] = {}

    def add(self, key: RecoveryKey) -> RecoveryKey:
        """Count a recovery that is being tried; gives the key it is counted under."""
        if key not in self.tried and len(self.tried) >= _MOST_KINDS:
            key = (key[0], _OTHER_KIND)
        self.tried[key] = self.tried.get(key, 0) + 1
        return key

    def succeed(self, key: RecoveryKey) -> None:
        """Count that a recovery led to success."""
        self.succeeded[key] = self.succeeded.get(key, 0) + 1

    @classmethod
    def merged(cls, parts: Iterable[Recoveries]) -> Recoveries:
        """Return the sum of several."""
        total = cls()
        for part in parts:
            _sum_into(total.tried, part.tried)
            _sum_into(total.succeeded, part.succeeded)
        return total

    def to_json(self) -> dict[str, Any]:
        """By strategy and kind of error, how many were tried and succeeded, as plain JSON."""
        report: dict[str, dict[str, dict[str, int]]] = {}
        for key, tried in self.tried.copy().items():
            strategy, kind = key
            counts = {"tried": tried, "succeeded": self.succeeded.get(key, 0)}
            report.setdefault(strategy, {})[kind] = counts
        return report


def _sum_into(total: dict[RecoveryKey, int], part: Mapping[RecoveryKey, int]) -> None:
    for key, count in dict(part).items():
        total[key] = total.get(key, 0) + count
