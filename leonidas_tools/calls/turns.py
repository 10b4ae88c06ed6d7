"""Count the turns of the user in a conversation."""

from __future__ import annotations


class Turns:
    """The turns of the user; limits per turn start again with each.

    A live session counts them by itself; a program with a loop of its own calls `next`
    when the user has said something.

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
        """Begin a new turn, because the user has spoken."""
        self.number += 1
