"""Count the turns of the user in a conversation."""

from __future__ import annotations


class Turns:
    """The turns of the user; limits per turn are reset by each turn.

    A live session counts them; a program with its own receive loop calls `next` when the user has
    said something.

    Example:
        >>> from leonidas_tools.calls.call import ToolSession
        >>> session = ToolSession("kitchen")
        >>> session.get(Turns).next()
        >>> session.get(Turns).number
        1
    """

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def next(self) -> None:
        """Start a new turn, because the user has spoken."""
        self.number += 1
