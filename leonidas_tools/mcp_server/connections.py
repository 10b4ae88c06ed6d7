"""Bound the HTTP connections, so that idle ones cannot lock out other clients."""

from __future__ import annotations

import ipaddress
from collections import Counter
from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

MOST_CONNECTIONS = 1024
MOST_ACCEPTED_AT_ONCE = 64
"""How many connections are accepted in one iteration of the loop. It is less than the limit of
waiting connections, so that a request is read before its connection could be closed."""
LONGEST_HEAD_BYTES = 16_384
_HEAD_SECONDS = 10.0
_MOST_WAITING = 512
_MOST_WAITING_OF_ADDRESS = 256
_MOST_OF_ADDRESS = 768


class BoundedConnection(H11Protocol):
    """A connection with a time limit for request heads, whose arrival may close an idle one.

    A connection waits while it has no complete request. If too many wait, for one address or in
    total, the one that has waited longest is closed, so that a new client can always connect. One
    address has at most three quarters of all connections.
    """

    _address = ""
    _since = 0.0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, closing another or this one if there are too many."""
        super().connection_made(transport)
        self._address = _network_of(self.client)
        self._since = self.loop.time()
        self._make_room()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer of the connection."""
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process received data."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Continue with the next request."""
        self._since = self.loop.time()
        super().on_response_complete()
        self._watch()

    @property
    def is_waiting(self) -> bool:
        """Return whether it has not yet sent a complete request."""
        return not self.transport.is_closing() and (self._is_idle or self.cycle.more_body)

    @property
    def _is_idle(self) -> bool:
        """Return whether no request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _watch(self) -> None:
        """Start the timer for the head of the next request, or stop it during a request."""
        if not self._is_idle or self.transport.is_closing():
            self._unwatch()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def _unwatch(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if self._is_idle:
            self.transport.abort()  # not `close`: a client that does not read would keep it open

    def _make_room(self) -> None:
        others = [c for c in self.connections if isinstance(c, BoundedConnection) and c is not self]
        same = [other for other in others if other._address == self._address]  # noqa: SLF001 - of its own kind
        if len(same) >= _MOST_OF_ADDRESS:
            self.transport.abort()
            return
        waiting = [other for other in same if other.is_waiting]
        if len(waiting) >= _MOST_WAITING_OF_ADDRESS:
            _longest(waiting).transport.abort()
            return
        waiting = [other for other in others if other.is_waiting]
        if len(waiting) >= _MOST_WAITING:
            crowd = Counter(other._address for other in waiting).most_common(1)[0][0]  # noqa: SLF001
            _longest([each for each in waiting if each._address == crowd]).transport.abort()  # noqa: SLF001


def _longest(waiting: list[BoundedConnection]) -> BoundedConnection:
    """Return the connection that has waited longest."""
    return min(waiting, key=lambda each: each._since)  # noqa: SLF001


def _network_of(client: tuple[str, int] | None) -> str:
    """Return the client's address; for IPv6 its /64 network, since one client has all of it."""
    try:
        address = ipaddress.ip_address("" if client is None else client[0].partition("%")[0])
    except ValueError:
        return ""
    if address.version == 6:  # noqa: PLR2004 - the version of the protocol
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
