"""The handle with which a live model resumes a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.calls.listeners import Listeners

if TYPE_CHECKING:
    from collections.abc import Callable

    from leonidas_tools.calls.call import ToolSession


class Resumption:
    """The handle with which the model resumes a session, also in another process.

    Example:
        >>> from leonidas_tools import ToolSession
        >>> session = ToolSession("kitchen-1", user="ana")
        >>> session.get(Resumption).use("a handle that an earlier process has kept", at=1.7e9)
        >>> session.get(Resumption).handle is None  # until the model sends a new one
        True
    """

    __slots__ = ("_handle", "_listeners", "_next", "known_until")

    def __init__(self) -> None:
        self._handle: str | None = None
        self._next: str | None = None
        self.known_until: float | None = None
        """Time up to which the model knows the conversation, in seconds since the epoch."""
        self._listeners = Listeners[[str]]("handles")

    @property
    def handle(self) -> str | None:
        """Return the newest handle; `None` if there is none."""
        return self._handle

    def use(self, handle: str, *, at: float | None = None) -> None:
        """Start the next stream of the session with this handle.

        If the model refuses the handle, the stream starts without one.

        Args:
            handle: An earlier value of `handle`, from this process or another.
            at: When the model sent the handle, in seconds since the epoch: the model does not know
                calls that ended later.
        """
        self._next, self.known_until = handle, at

    def on_change(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Subscribe to new handles.

        Args:
            listener: Receives each new handle.

        Returns:
            A function that unsubscribes.
        """
        return self._listeners.subscribe(listener)

    def take(self) -> str | None:
        """Return the handle for this stream, and clear it for the next."""
        handle, self._next = self._next, None
        return handle

    def renew(self, handle: str) -> None:
        """Set the handle to a new one of the model, and notify the listeners."""
        self._handle = handle
        self._listeners.notify(handle)


def is_from_elsewhere(session: ToolSession) -> bool:
    """Return whether a session resumes a conversation from elsewhere, maybe another process."""
    resumption = session.find(Resumption)
    return resumption is not None and resumption.known_until is not None
