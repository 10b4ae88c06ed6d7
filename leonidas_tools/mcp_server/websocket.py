"""WebSockets as uvicorn serves them, for the gateway and the console."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

if TYPE_CHECKING:
    import asyncio

    from uvicorn._types import ASGISendEvent

_FRAMES_PER_SECOND: Final = 400.0
_MOST_FRAMES_AT_ONCE: Final = 2000.0
_PIECE_BYTES = 4096
"""Of what is read at once: a frame may have six bytes, and their number is known once parsed."""
_ABORT_SECONDS = 2.0
_REFUSED = 1008
_BAD_HEAD: Final = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket whose frames are bounded, also pings and pieces of messages.

    The app sees none of these. One that the client does not read cannot stay open, and one that the
    app refuses is no fault of the app.
    """

    _abort_timer: asyncio.TimerHandle | None = None
    _frames_left = _MOST_FRAMES_AT_ONCE
    _counted = 0.0

    def data_received(self, data: bytes) -> None:
        """Process received data."""
        for start in range(0, len(data), _PIECE_BYTES):
            super().data_received(data[start : start + _PIECE_BYTES])
            if self.transport.is_closing():
                return
        if not self.handshake_initiated:
            # The head comes whole, and the parser takes shorter lines than that of HTTP. It would
            # wait for nothing, and be no connection whose time and number are bounded.
            self.transport.write(_BAD_HEAD)
            self.transport.close()

    def handle_events(self) -> None:
        """Process the parsed frames, unless there are too many."""
        if self._spend(len(self.conn.events)):
            super().handle_events()
            return
        self.conn.fail(_REFUSED, "Too many messages: send them as they arise")
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.queue.put_nowait({"type": "websocket.disconnect", "code": _REFUSED})
        self.close_sent = True
        self.transport.close()
        self._abort_soon()

    def _spend(self, frames: int) -> bool:
        """Return whether so many frames may come now."""
        now = time.monotonic()
        more = (now - self._counted) * _FRAMES_PER_SECOND
        self._frames_left = min(self._frames_left + more, _MOST_FRAMES_AT_ONCE) - frames
        self._counted = now
        return self._frames_left >= 0

    def keepalive_timeout(self) -> None:
        """Close the connection of a client that has not answered a ping."""
        super().keepalive_timeout()
        self._abort_soon()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """Close the connection soon, although there may be data that the client does not take."""
        super().on_task_complete(task)
        self._abort_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer of the connection."""
        super().connection_lost(exc)
        if self._abort_timer is not None:
            self._abort_timer.cancel()

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message of the app."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True  # uvicorn forgets it, and logs an error

    def _abort_soon(self) -> None:
        if self._abort_timer is None:
            self._abort_timer = self.loop.call_later(_ABORT_SECONDS, self.transport.abort)
