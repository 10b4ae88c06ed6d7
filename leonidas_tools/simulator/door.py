"""The server's door: where it listens, and whom it turns away."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from websockets.asyncio.server import Server, ServerConnection, serve

from leonidas_tools.simulator.elastic_loop import elastic
from leonidas_tools.simulator.hearing import HearingConnection
from leonidas_tools.simulator.received import Refusal

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from websockets.http11 import Request, Response

_PATHS = (
    ("/ws/google.ai.generativelanguage.", "GenerativeService.BidiGenerateContent"),
    ("/ws/google.ai.generativelanguage.", "GenerativeService.BidiGenerateContentConstrained"),
    ("/ws/google.cloud.aiplatform.", "LlmBidiService/BidiGenerateContent"),
)
_CLOSE_SECONDS = 1.0
_NEVER = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusing:
    """The way a future connection is refused.

    Args:
        http_status: With this status at the HTTP request; None to refuse it after its setup.
        close_code: With this code after its setup.
        reason: What to say.
    """

    http_status: int | None = None
    close_code: int = 1011
    reason: str = ""


class Door:
    """Listens on one port of loopback while it is open.

    Args:
        handle: Serves one websocket.
        refused: Told of who was turned away at the HTTP request.
        context: The TLS context.
    """

    def __init__(
        self,
        handle: Callable[[HearingConnection], Awaitable[None]],
        *,
        refused: Callable[[Refusal], None],
        context: ssl.SSLContext,
    ) -> None:
        self._handle = handle
        self._refused = refused
        self._context = context
        self._servers: list[Server] = []
        self._refusing: deque[Refusing] = deque()
        self._reopening: asyncio.TimerHandle | None = None
        self._opening: set[asyncio.Task[None]] = set()
        self.port = 0

    async def open(self) -> None:
        """Listen, on the same port each time."""
        if any(server.is_serving() for server in self._servers):
            return
        server = await serve(
            self._serve,
            "127.0.0.1",
            self.port,
            ssl=self._context,
            create_connection=HearingConnection,
            process_request=self._process_request,
            compression=None,
            max_size=None,
            ping_interval=None,
            open_timeout=_NEVER,  # a test that moves the time on would end running handshakes
            close_timeout=_CLOSE_SECONDS,
        )
        self._servers.append(server)
        self.port = int(next(iter(server.sockets)).getsockname()[1])

    async def _serve(self, websocket: ServerConnection) -> None:
        assert isinstance(websocket, HearingConnection)  # as it was created
        await self._handle(websocket)

    def shut(self) -> None:
        """Listen no longer; the connections that are there stay."""
        for server in self._servers:
            server.server.close()

    def shut_for(self, seconds: float) -> None:
        """Listen no longer for a while, in seconds of the loop's time."""
        self.shut()
        self._reopening = asyncio.get_running_loop().call_later(seconds, self._reopen)

    def _reopen(self) -> None:
        task = asyncio.create_task(self.open())
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def close(self) -> None:
        """End everything: the listening, and the connections that are there."""
        if self._reopening is not None:
            self._reopening.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        for server in self._servers:
            server.close()
        closed = [asyncio.create_task(server.wait_closed()) for server in self._servers]
        _, late = await asyncio.wait(closed, timeout=3 * _CLOSE_SECONDS)
        if late:  # somebody has connected and then not said a word
            elastic(asyncio.get_running_loop()).advance(_NEVER)
            await asyncio.wait(late)

    # Turning away.

    def refuse(self, count: int, refusing: Refusing) -> None:
        """Turn away connections to come."""
        self._refusing.extend([refusing] * count)

    def at_setup(self) -> Refusing | None:
        """Return how to turn away the connection whose setup has come, if it is to be."""
        if self._refusing and self._refusing[0].http_status is None:
            return self._refusing.popleft()
        return None

    def _process_request(self, connection: ServerConnection, request: Request) -> Response | None:
        path = request.path.partition("?")[0]
        if not any(path.startswith(start) and path.endswith(end) for start, end in _PATHS):
            text = f"{path} is not the path of the Live API\n"
            return connection.respond(HTTPStatus.NOT_FOUND, text)
        if not self._refusing or self._refusing[0].http_status is None:
            return None
        status = HTTPStatus(self._refusing[0].http_status)
        reason = self._refusing.popleft().reason or status.phrase
        self._refused(Refusal(stage="http", code=status, reason=reason))
        return connection.respond(status, f"{reason}\n")
