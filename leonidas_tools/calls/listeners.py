"""Subscribed callbacks for one kind of change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, ParamSpec

from leonidas_tools.redaction import described
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")

_logger = visible_logger(__name__)


class Listeners(Generic[P]):
    """Calls every subscribed listener; logs an exception of a listener, and continues.

    Example:
        >>> listeners, heard = Listeners[str]("tools"), []
        >>> unsubscribe = listeners.subscribe(heard.append)
        >>> listeners.notify("added")
        >>> unsubscribe()
        >>> listeners.notify("removed")
        >>> heard
        ['added']
    """

    __slots__ = ("_subject", "subscribed")

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self.subscribed: dict[object, Callable[P, object]] = {}
        """The listeners; check them if even a call of `notify` without listeners costs too much."""

    def subscribe(self, listener: Callable[P, object]) -> Callable[[], None]:
        """Add a listener, and return a function that removes it."""
        subscription = object()
        self.subscribed[subscription] = listener

        def unsubscribe() -> None:
            self.subscribed.pop(subscription, None)

        return unsubscribe

    def notify(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call every listener."""
        for listener in tuple(self.subscribed.values()):
            try:
                listener(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - a listener must not break its subject
                _logger.warning("A listener for %s failed: %s", self._subject, described(error))
