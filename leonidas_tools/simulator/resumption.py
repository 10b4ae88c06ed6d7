"""Sessions that outlive their connections, and the handles that resume them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class HandleRefusedError(Exception):
    """Raised when a session cannot be resumed with a handle."""


@dataclass(kw_only=True, slots=True)
class Session:
    """One session.

    Args:
        number: Its number, counted from 1.
        connections: The connections it had, in order.
        left_at: When its last connection ended, by the loop's time; None while it is open.
    """

    number: int
    connections: list[int] = field(default_factory=list)
    left_at: float | None = None


class SessionBook:
    """The sessions of a server and their handles; used by the server's thread only.

    Args:
        handle_seconds: How long a handle is good after its session's last connection ended.
        is_open: Whether a connection is still open.

    Example:
        >>> book = SessionBook(handle_seconds=7200, is_open=lambda connection: False)
        >>> session = book.begin(1)
        >>> book.issue("h1", session)
        >>> book.left(session, now=10.0)
        >>> book.find("h1", now=20.0).connections
        [1]
        >>> book.find("h1", now=9999.0)
        Traceback (most recent call last):
        ...
        leonidas_tools.simulator.resumption.HandleRefusedError: the handle 'h1' has expired
    """

    def __init__(self, *, handle_seconds: float, is_open: Callable[[int], bool]) -> None:
        self._handle_seconds = handle_seconds
        self._is_open = is_open
        self._count = 0
        self._named = 0
        self._handles: dict[str, Session] = {}
        self._expired: set[str] = set()

    def begin(self, connection: int) -> Session:
        """Return a new session."""
        self._count += 1
        return Session(number=self._count, connections=[connection])

    def find(self, handle: str, *, now: float) -> Session:
        """Return the session that a handle resumes.

        Raises:
            HandleRefusedError: The handle is unknown, or no longer good.
        """
        session = self._handles.get(handle)
        if session is None:
            raise HandleRefusedError(f"no session has the handle {handle!r}")
        since = 0.0 if session.left_at is None else now - session.left_at
        if handle in self._expired or since > self._handle_seconds:
            raise HandleRefusedError(f"the handle {handle!r} has expired")
        return session

    def resume(self, session: Session, connection: int) -> None:
        """Note that a session goes on, on another connection."""
        session.connections.append(connection)
        session.left_at = None

    def open_connection_of(self, session: Session) -> int | None:
        """Return the connection of a session that is still open."""
        return next((each for each in session.connections if self._is_open(each)), None)

    def new_handle(self, session: Session) -> str:
        """Return a new handle."""
        self._named += 1
        return f"session-{session.number}-handle-{self._named}"

    def issue(self, handle: str, session: Session) -> None:
        """Make a handle good for a session."""
        self._handles[handle] = session
        self._expired.discard(handle)

    def expire(self, session: Session | None = None) -> None:
        """End the life of the handles issued so far: of one session, or of all."""
        self._expired |= {
            handle for handle, of in self._handles.items() if session is None or of is session
        }

    def left(self, session: Session, *, now: float) -> None:
        """Note that a connection of the session has ended."""
        if self.open_connection_of(session) is None:
            session.left_at = now
