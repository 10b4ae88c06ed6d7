"""The listening socket on loopback, and the connections that it refuses."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from websockets.asyncio.server import Server, serve
from websockets.asyncio.server import ServerConnection as WebSocketConnection

from leonidas_tools.simulator.elastic_loop import elastic
from leonidas_tools.simulator.recording import Refusal

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from websockets.http11 import Request, Response


class PausableConnection(WebSocketConnection):
    """A connection whose input can be paused: no messages, no pongs, no closing handshake.

    The end of the TCP connection is still detected. Paused input is processed on resumption.
    """

    _withheld: list[bytes] | None = None

    def pause_input(self) -> None:
        """Withhold all input until `resume_input`."""
        self._withheld = []

    def resume_input(self) -> None:
        """Process the withheld input, and all input after it."""
        withheld, self._withheld = self._withheld or [], None
        for data in withheld:
            super().data_received(data)

    def data_received(self, data: bytes) -> None:
        """Process received bytes, or withhold them while input is paused."""
        if self._withheld is None:
            super().data_received(data)
        else:
            self._withheld.append(data)


_PATHS = (
    ("/ws/google.ai.generativelanguage.", "GenerativeService.BidiGenerateContent"),
    ("/ws/google.ai.generativelanguage.", "GenerativeService.BidiGenerateContentConstrained"),
    ("/ws/google.cloud.aiplatform.", "LlmBidiService/BidiGenerateContent"),
)
_CLOSE_SECONDS = 1.0
_NEVER = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRefusal:
    """A refusal of a future connection.

    With an `http_status`, the HTTP request is refused; otherwise the setup.
    """

    http_status: int | None = None
    close_code: int = 1011
    reason: str = ""


class Listener:
    """Listens on one port of loopback and refuses connections as planned."""

    def __init__(
        self,
        handle: Callable[[PausableConnection], Awaitable[None]],
        *,
        on_refusal: Callable[[Refusal], None],
        tls: ssl.SSLContext,
    ) -> None:
        self._handle = handle
        self._on_refusal = on_refusal
        self._tls = tls
        self._servers: list[Server] = []
        self._refusals: deque[PlannedRefusal] = deque()
        self._reopening: asyncio.TimerHandle | None = None
        self._opening: set[asyncio.Task[None]] = set()
        self.port = 0

    async def open(self) -> None:
        """Start listening; always on the same port."""
        if any(server.is_serving() for server in self._servers):
            return
        server = await serve(
            self._serve,
            "127.0.0.1",
            self.port,
            ssl=self._tls,
            create_connection=PausableConnection,
            process_request=self._process_request,
            compression=None,
            max_size=None,
            ping_interval=None,
            open_timeout=_NEVER,  # else `advance` would time out running handshakes
            close_timeout=_CLOSE_SECONDS,
        )
        self._servers.append(server)
        self.port = int(next(iter(server.sockets)).getsockname()[1])

    async def _serve(self, websocket: WebSocketConnection) -> None:
        assert isinstance(websocket, PausableConnection)  # see create_connection
        await self._handle(websocket)

    def pause(self) -> None:
        """Stop listening; open connections stay open."""
        for server in self._servers:
            server.server.close()

    def pause_for(self, seconds: float) -> None:
        """Stop listening for some seconds of the loop's time."""
        self.pause()
        self._reopening = asyncio.get_running_loop().call_later(seconds, self._reopen)

    def _reopen(self) -> None:
        task = asyncio.create_task(self.open())
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._reopening is not None:
            self._reopening.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        for server in self._servers:
            server.close()
        closed = [asyncio.create_task(server.wait_closed()) for server in self._servers]
        _, late = await asyncio.wait(closed, timeout=3 * _CLOSE_SECONDS)
        if late:  # a client has connected and sent nothing
            elastic(asyncio.get_running_loop()).advance(_NEVER)
            await asyncio.wait(late)

    # Refusals.

    def refuse(self, count: int, refusal: PlannedRefusal) -> None:
        """Refuse the next `count` connections."""
        self._refusals.extend([refusal] * count)

    def refusal_at_setup(self) -> PlannedRefusal | None:
        """Return the planned refusal of the connection whose setup has arrived, if any."""
        if self._refusals and self._refusals[0].http_status is None:
            return self._refusals.popleft()
        return None

    def _process_request(
        self, connection: WebSocketConnection, request: Request
    ) -> Response | None:
        path = request.path.partition("?")[0]
        if not any(path.startswith(start) and path.endswith(end) for start, end in _PATHS):
            text = f"{path} is not the path of the Live API\n"
            return connection.respond(HTTPStatus.NOT_FOUND, text)
        if not self._refusals or self._refusals[0].http_status is None:
            return None
        status = HTTPStatus(self._refusals[0].http_status)
        reason = self._refusals.popleft().reason or status.phrase
        self._on_refusal(Refusal(stage="http", code=status, reason=reason))
        return connection.respond(status, f"{reason}\n")
