"""Count the calls of a session that run or wait."""

from __future__ import annotations


class OpenCalls:
    """The model's calls of a session that have no result yet, without calls by tools.

    Their invocations count themselves, from their start to their end.

    Args:
        count: Their number; minus infinity for calls that are never too many.
    """

    __slots__ = ("count",)

    def __init__(self, count: float = 0) -> None:
        self.count = count
