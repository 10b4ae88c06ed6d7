"""A websocket that can stop taking notice of what comes in."""

from __future__ import annotations

from websockets.asyncio.server import ServerConnection


class HearingConnection(ServerConnection):
    """A server's connection that may turn a deaf ear: no message, no pong, no closing handshake.

    The end of the network connection is still noticed. What comes in meanwhile is heard
    later, if the connection hears again.
    """

    _unheard: list[bytes] | None = None

    def turn_deaf(self) -> None:
        """Take no notice of what comes in from now on."""
        self._unheard = []

    def hear(self) -> None:
        """Take notice again, of what has come in meanwhile as well."""
        unheard, self._unheard = self._unheard or [], None
        for data in unheard:
            super().data_received(data)

    def data_received(self, data: bytes) -> None:
        """Take in bytes, for now or for later."""
        if self._unheard is None:
            super().data_received(data)
        else:
            self._unheard.append(data)
