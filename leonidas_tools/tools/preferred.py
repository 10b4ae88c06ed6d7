"""Tools that are useful in one conversation, if not all tools are declared."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from leonidas_tools.calls.listeners import Listeners

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_MAX = 200


class PreferredTools:
    """The tools that were found in a session, the latest first.

    Example:
        >>> from leonidas_tools.calls.call import ToolSession
        >>> session = ToolSession("kitchen")
        >>> session.get(PreferredTools).prefer(["book_flight"])
        >>> session.get(PreferredTools).names
        ('book_flight',)
    """

    __slots__ = ("_listeners", "names")

    def __init__(self) -> None:
        self._listeners = Listeners[[]]("preferred tools")
        self.names: tuple[str, ...] = ()

    def prefer(self, names: Iterable[str]) -> None:
        """Put tools before all others in this session."""
        order = dict.fromkeys([*names, *self.names])
        kept = tuple(itertools.islice(order, _MAX))
        if kept != self.names:
            self.names = kept
            self._listeners.notify()

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after every change; return a function that unsubscribes."""
        return self._listeners.subscribe(listener)
