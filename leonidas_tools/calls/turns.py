"""Whose word was last: how often the user has spoken in a conversation."""

from __future__ import annotations


class Turns:
    """Counts the turns of the user; what is limited a turn begins anew with each.

    A live session counts them by itself; whoever drives a conversation of his own calls `next`
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
        """The user says something: whatever the model does from here on is another turn's."""
        self.number += 1
