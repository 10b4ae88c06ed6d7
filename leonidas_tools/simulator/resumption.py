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
    """One session, counted from 1, with its connections in order."""

    number: int
    begun_at: float = 0.0
    """Loop time at which its first connection began, in seconds."""
    connections: list[int] = field(default_factory=list)
    left_at: float | None = None
    """Loop time at which the last connection ended, in seconds; None while one is open."""


class SessionRegistry:
    """The sessions of a server and their handles; used by the server's thread only.

    A handle is valid for `handle_seconds` after its session's last connection ended.

    Example:
        >>> registry = SessionRegistry(handle_seconds=7200, is_open=lambda connection: False)
        >>> session = registry.begin(1, now=0.0)
        >>> registry.issue("h1", session)
        >>> registry.left(session, now=10.0)
        >>> registry.find("h1", now=20.0).connections
        [1]
        >>> registry.find("h1", now=9999.0)
        Traceback (most recent call last):
        ...
        leonidas_tools.simulator.resumption.HandleRefusedError: the handle 'h1' has expired
    """

    def __init__(self, *, handle_seconds: float, is_open: Callable[[int], bool]) -> None:
        self._handle_seconds = handle_seconds
        self._is_open = is_open
        self._count = 0
        self._handle_count = 0
        self._handles: dict[str, Session] = {}
        self._expired: set[str] = set()

    def begin(self, connection: int, *, now: float) -> Session:
        """Return a new session."""
        self._count += 1
        return Session(number=self._count, begun_at=now, connections=[connection])

    def find(self, handle: str, *, now: float) -> Session:
        """Return the session that a handle resumes; raise if it is unknown or expired."""
        session = self._handles.get(handle)
        if session is None:
            raise HandleRefusedError(f"no session has the handle {handle!r}")
        since = 0.0 if session.left_at is None else now - session.left_at
        if handle in self._expired or since > self._handle_seconds:
            raise HandleRefusedError(f"the handle {handle!r} has expired")
        return session

    def resume(self, session: Session, connection: int) -> None:
        """Record that a session continues on another connection."""
        session.connections.append(connection)
        session.left_at = None

    def open_connection_of(self, session: Session) -> int | None:
        """Return the open connection of a session, if any."""
        return next((each for each in session.connections if self._is_open(each)), None)

    def new_handle(self, session: Session) -> str:
        """Return a new handle."""
        self._handle_count += 1
        return f"session-{session.number}-handle-{self._handle_count}"

    def issue(self, handle: str, session: Session) -> None:
        """Register a handle of a session."""
        self._handles[handle] = session
        self._expired.discard(handle)

    def expire(self, session: Session | None = None) -> None:
        """Expire the handles issued so far, of one session or of all."""
        self._expired |= {
            handle for handle, of in self._handles.items() if session is None or of is session
        }

    def left(self, session: Session, *, now: float) -> None:
        """Record that a connection of the session has ended."""
        if self.open_connection_of(session) is None:
            session.left_at = now
