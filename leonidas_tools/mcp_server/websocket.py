"""WebSockets as uvicorn serves them, for the gateway and the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent


class QuietWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket whose refusal is no fault of the app."""

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message of the app."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True  # uvicorn forgets it, and logs an error
