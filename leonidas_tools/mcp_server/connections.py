"""Limits of the connections of a server that uvicorn does not have, around its protocols."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from leonidas_tools.mcp_server.guard import TokenBucket

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_CLIENT_SECONDS = 10.0
"""Seconds within which a client must send its request, or read some of the sent data."""
_MAX_WAITING = 512
_FRAMES_PER_SECOND = 400.0
_MAX_FRAMES_AT_ONCE = 2000.0
_PIECE_BYTES = 4096
"""Most bytes parsed at once: h11 limits no head that comes at once, and frames have six bytes."""
_REFUSED = 1008
_TOO_MANY_FRAMES = b"Too many messages: send them in real time"


class Connections:
    """An ASGI app that notes which connections are served, and the protocols of these connections.

    A connection waits while none of its requests is served. If too many wait, the one that has
    waited longest is closed, so a new client can always connect.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: dict[Any, _Connection] = {}
        self._waiting: dict[_Connection, None] = {}  # in the order in which they began to wait

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        connection = self._open.get(scope["client"])
        if connection is not None:
            self._waiting.pop(connection, None)
        is_refused = False

        async def note(message: Message) -> None:
            nonlocal is_refused
            is_refused = message["type"] == "websocket.http.response.body"
            await send(message)

        try:
            # Cancelled at shutdown if a client has not sent its whole request: this is no error.
            with contextlib.suppress(asyncio.CancelledError):
                await self._app(scope, receive, note)
        finally:
            if connection is not None:
                self.wait(connection)
        if is_refused:
            raise ClientDisconnected  # otherwise, uvicorn logs an error

    def http(self, **options: Any) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        return _Connection(self, H11Protocol(**options))

    def websocket(self, **options: Any) -> asyncio.Protocol:
        """Return the protocol of a connection that becomes a WebSocket."""
        return _WebSocket(self, WebSocketsSansIOProtocol(**options))

    def add(self, connection: _Connection) -> None:
        """Add a connection, or replace the one that becomes a WebSocket."""
        before = self._open.pop(connection.client, None)
        if before is not None:
            self._waiting.pop(before, None)
        self._open[connection.client] = connection
        self.wait(connection)

    def wait(self, connection: _Connection) -> None:
        """Note that a connection waits for its client."""
        if self.is_open(connection):
            connection.turns += 1
            self._waiting[connection] = None
            if len(self._waiting) > _MAX_WAITING:
                oldest = next(iter(self._waiting))
                self.remove(oldest)
                oldest.transport.abort()

    def is_open(self, connection: _Connection) -> bool:
        """Return whether a connection has not ended, nor become a WebSocket."""
        return self._open.get(connection.client) is connection

    def is_waiting(self, connection: _Connection) -> bool:
        """Return whether none of the connection's requests is served."""
        return connection in self._waiting

    def remove(self, connection: _Connection) -> None:
        """Remove a connection that has ended."""
        self._waiting.pop(connection, None)
        if self.is_open(connection):
            del self._open[connection.client]


class _Connection(asyncio.Protocol):
    """A connection, which is closed if its client neither sends a request nor reads.

    `turns` counts what has happened on it since it was opened.
    """

    transport: asyncio.Transport
    client: Any

    def __init__(self, connections: Connections, protocol: asyncio.Protocol) -> None:
        self.turns = 0
        self._connections = connections
        self._protocol = protocol
        self._is_paused = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.client = transport.get_extra_info("peername")[:2]
        self._protocol.connection_made(transport)
        self._connections.add(self)
        self._watch()

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), _PIECE_BYTES):
            piece = data[start : start + _PIECE_BYTES]
            if not self._connections.is_open(self) or not self._admit(piece):
                return
            self._protocol.data_received(piece)

    def _admit(self, piece: bytes) -> bool:  # noqa: ARG002 - a WebSocket looks at it
        return not self.transport.is_closing()

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._is_paused = True
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._is_paused = False
        self.turns += 1
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._connections.remove(self)
        self._protocol.connection_lost(exc)

    def _watch(self) -> None:
        seen = (self.turns, self.transport.get_write_buffer_size())
        self._timer = asyncio.get_running_loop().call_later(_CLIENT_SECONDS, self._check, *seen)

    def _check(self, turns: int, unsent_bytes: int) -> None:
        """Abort the connection if its client must act, and has not since the last check."""
        if not self._connections.is_open(self):
            return
        unsent = self.transport.get_write_buffer_size()
        is_for_client = (
            self._is_paused or self.transport.is_closing() or self._connections.is_waiting(self)
        )
        if is_for_client and turns == self.turns and (not unsent or unsent >= unsent_bytes):
            self.transport.abort()  # not `close`: a client that does not read would keep it open
        else:
            self._watch()


class _WebSocket(_Connection):
    """A WebSocket with a rate limit for frames, as the app sees no pings and no fragments."""

    def __init__(self, connections: Connections, protocol: asyncio.Protocol) -> None:
        super().__init__(connections, protocol)
        self._bucket = TokenBucket(per_second=_FRAMES_PER_SECOND, at_once=_MAX_FRAMES_AT_ONCE)
        self._frames = _FrameCounter()
        self._has_begun = False

    def data_received(self, data: bytes) -> None:
        if self._has_begun:
            super().data_received(data)
        else:  # uvicorn passes the head of the request
            self._has_begun = True
            self._protocol.data_received(data)

    def _admit(self, piece: bytes) -> bool:
        if not super()._admit(piece):
            return False
        if self._bucket.spend(self._frames.count(piece)):
            return True
        body = struct.pack("!H", _REFUSED) + _TOO_MANY_FRAMES
        self.transport.write(bytes([0x88, len(body)]) + body)
        self.transport.close()
        return False


class _FrameCounter:
    """Counts the frames of a WebSocket by their heads."""

    def __init__(self) -> None:
        self._head = b""
        self._skip = 0

    def count(self, data: bytes) -> int:
        """Return how many heads of frames these bytes complete."""
        data, frames, at = self._head + data, 0, self._skip
        while at + 2 <= len(data):
            kind, is_masked = data[at + 1] & 0x7F, data[at + 1] >> 7
            head = at + 2 + {126: 2, 127: 8}.get(kind, 0)
            if head > len(data):
                break
            length = kind if kind < 126 else int.from_bytes(data[at + 2 : head])  # noqa: PLR2004
            at = head + 4 * is_masked + length
            frames += 1
        self._head, self._skip = data[at:], max(0, at - len(data))
        return frames
