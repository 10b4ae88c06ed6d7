"""Serve tools over standard input and output or HTTP, until cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp_server.app import MCPApp
from leonidas_tools.mcp_server.guard import HTTPAccess, TokenBucket, is_loopback
from leonidas_tools.mcp_server.server import ToolServer
from leonidas_tools.mcp_server.stdio import Pipes, claim_pipes, streams
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send
    from uvicorn._types import ASGISendEvent
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

    from leonidas_tools.processors.advanced import AdvancedToolProcessor
    from leonidas_tools.runtime.runtime import ToolRuntime

logger = visible_logger(__name__)
PATH = "/mcp"
_DRAIN_SECONDS = 5.0
_CLOSE_SECONDS = 2
MAX_CONNECTIONS = 1024
MAX_ACCEPTED_AT_ONCE = 64
"""Most connections accepted in one iteration of the loop. It is less than the limit of
waiting connections, so that a request is read before its connection could be closed."""
MAX_HEAD_BYTES = 16_384
_HEAD_SECONDS = 10.0
_STALL_SECONDS = 30.0
"""Seconds within which a client must read some of the sent data."""
_MAX_WAITING = 512
_MAX_WAITING_OF_ADDRESS = 256
_MAX_OF_ADDRESS = 768
_FRAMES_PER_SECOND = 400.0
_MAX_FRAMES_AT_ONCE = 2000.0
_SMALL_CHUNKS_PER_SECOND = 100.0
_MAX_SMALL_CHUNKS_AT_ONCE = 500.0
_SMALL_CHUNK_BYTES = 512
"""Length below which a chunk of a body is small: it takes as long to parse as a long one."""
_PIECE_BYTES = 4096
"""Most bytes parsed at once: frames may have only six bytes, and are counted once parsed."""
_ABORT_SECONDS = 2.0
_REFUSED = 1008
_BAD_HEAD: Final = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket with a rate limit for frames, including pings and fragments.

    The app does not see these frames. A client that does not read cannot keep the WebSocket open. A
    WebSocket that the app refuses is not logged as an error of the app.
    """

    _abort_timer: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn.debug = False  # otherwise, the DEBUG log would contain tokens and messages
        self._frames = TokenBucket(per_second=_FRAMES_PER_SECOND, at_once=_MAX_FRAMES_AT_ONCE)

    def data_received(self, data: bytes) -> None:
        """Process received data."""
        for start in range(0, len(data), _PIECE_BYTES):
            super().data_received(data[start : start + _PIECE_BYTES])
            if self.transport.is_closing():
                return
        if not self.handshake_initiated:
            # The head is complete, but the parser allows shorter lines than the HTTP parser. The
            # connection would wait for nothing, without limits of its time and number.
            self.transport.write(_BAD_HEAD)
            self.transport.close()

    def handle_events(self) -> None:
        """Process the parsed frames; close the connection if there are too many."""
        if self._frames.spend(len(self.conn.events)):
            super().handle_events()
            return
        self.conn.fail(_REFUSED, "Too many messages: send them in real time")
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.queue.put_nowait({"type": "websocket.disconnect", "code": _REFUSED})
        self.close_sent = True
        self.transport.close()
        self._abort_soon()

    def keepalive_timeout(self) -> None:
        """Close the connection of a client that has not answered a ping."""
        super().keepalive_timeout()
        self._abort_soon()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """Close the connection soon, even if the client does not read the remaining data."""
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
            self.handshake_complete = True  # uvicorn does not set it, and would log an error

    def _abort_soon(self) -> None:
        if self._abort_timer is None:
            self._abort_timer = self.loop.call_later(_ABORT_SECONDS, self.transport.abort)


class BoundedConnection(H11Protocol):
    """A connection with time limits for request heads and for a client that does not read.

    The rate of small chunks in a body is limited.

    A connection waits while it has no complete request. If too many wait, for one address or in
    total, the connection that has waited longest is closed. So a new client can always connect. One
    address has at most three quarters of all connections.
    """

    _address = ""
    _since = 0.0
    _timer: asyncio.TimerHandle | None = None
    _is_upgraded = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._small_chunks = TokenBucket(
            per_second=_SMALL_CHUNKS_PER_SECOND, at_once=_MAX_SMALL_CHUNKS_AT_ONCE
        )
        self._parsed = self.conn.next_event
        self.conn.next_event = self._next_event  # type: ignore[method-assign]

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
        """Process received data in pieces: the parser accepts a head of any length at once."""
        for start in range(0, len(data), _PIECE_BYTES):
            super().data_received(data[start : start + _PIECE_BYTES])
            if self._is_upgraded or self.transport.is_closing():
                break
        self._watch()

    def _next_event(self) -> Any:
        """Return the next parsed event; abort the connection after too many small chunks."""
        event = self._parsed()
        if isinstance(event, h11.Data) and _is_small(event) and not self._small_chunks.spend():
            self.transport.abort()
            return h11.NEED_DATA
        return event

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Switch to the WebSocket protocol, which has separate limits."""
        self._is_upgraded = True
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        """Pause the app until the client reads the sent data."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Resume the app."""
        super().resume_writing()
        self._watch()

    def on_response_complete(self) -> None:
        """Continue with the next request."""
        self._since = self.loop.time()
        super().on_response_complete()
        self._watch()

    @property
    def is_waiting(self) -> bool:
        """Return whether the client has not yet sent a complete request."""
        return not self.transport.is_closing() and (self._is_idle or self.cycle.more_body)

    @property
    def _is_idle(self) -> bool:
        """Return whether no request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    @property
    def _is_for_client(self) -> bool:
        """Return whether the client must act: send a request, or read the sent data."""
        return not self._is_upgraded and (self._is_idle or self.flow.write_paused)

    def _watch(self) -> None:
        """Start the timer if the client must act; otherwise, stop it."""
        if not self._is_for_client:
            self._unwatch()
        elif self._timer is None:
            unsent_bytes = self.transport.get_write_buffer_size()
            seconds = _STALL_SECONDS if unsent_bytes else _HEAD_SECONDS
            self._timer = self.loop.call_later(seconds, self._give_up, unsent_bytes)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self, unsent_bytes: int) -> None:
        self._timer = None
        if 0 < self.transport.get_write_buffer_size() < unsent_bytes:
            self._watch()  # a slow client still gets its response
        elif self._is_for_client:
            self.transport.abort()  # not `close`: a client that does not read would keep it open

    def _make_room(self) -> None:
        others = [c for c in self.connections if isinstance(c, BoundedConnection) and c is not self]
        same = [other for other in others if other._address == self._address]  # noqa: SLF001 - the same class
        if len(same) >= _MAX_OF_ADDRESS:
            self.transport.abort()
            return
        waiting = [other for other in same if other.is_waiting]
        if len(waiting) >= _MAX_WAITING_OF_ADDRESS:
            _longest(waiting).transport.abort()
            return
        waiting = [other for other in others if other.is_waiting]
        if len(waiting) >= _MAX_WAITING:
            crowd = Counter(other._address for other in waiting).most_common(1)[0][0]  # noqa: SLF001
            _longest([each for each in waiting if each._address == crowd]).transport.abort()  # noqa: SLF001


def _is_small(data: h11.Data) -> bool:
    """Return whether data is a small chunk, and not part of a chunk or of an unchunked body."""
    return data.chunk_start and data.chunk_end and len(data.data) < _SMALL_CHUNK_BYTES


def _longest(waiting: list[BoundedConnection]) -> BoundedConnection:
    """Return the connection that has waited longest."""
    return min(waiting, key=lambda each: each._since)  # noqa: SLF001


def _network_of(client: tuple[str, int] | None) -> str:
    """Return the client's address, or its IPv6 /64 network, as one client has all of it."""
    try:
        address = ipaddress.ip_address("" if client is None else client[0].partition("%")[0])
    except ValueError:
        return ""
    if address.version == 6:  # noqa: PLR2004 - the version of the protocol
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


async def serve_stdio(
    tools: ToolRuntime | AdvancedToolProcessor,
    *,
    patterns: Sequence[str] = (),
    pipes: Pipes | None = None,
) -> None:
    """Serve the client that has started this process, until it closes standard input.

    Meanwhile, all printed output goes to standard error. Running calls are cancelled at the end; a
    call that cannot be interrupted has 5 seconds to finish.
    """
    with contextlib.nullcontext(pipes) if pipes is not None else claim_pipes() as used:
        async with ToolServer(tools, patterns, single_client=True) as server:
            try:
                async with streams(used) as (inbox, outbox):
                    options = server.mcp.create_initialization_options()
                    await server.mcp.run(inbox, outbox, options)
            finally:
                await server.drain(_DRAIN_SECONDS)


async def serve_http(  # noqa: PLR0913 - each is an option of the server
    tools: ToolRuntime | AdvancedToolProcessor,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    patterns: Sequence[str] = (),
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    on_listening: Callable[[str], None] | None = None,
) -> None:
    """Serve MCP clients over streamable HTTP at `/mcp`, until cancelled.

    Raises:
        ConfigurationError: The server would accept other hosts without a token, or cannot listen
            at the address.
    """
    beyond = not is_loopback(host)
    access = HTTPAccess(token=token, hosts=tuple(hosts), origins=tuple(origins), any_address=beyond)
    app = MCPApp(ToolServer(tools, patterns), access)
    with listening(host, port) as listener:
        routed = Starlette(routes=[Route(PATH, app)])
        # A redirect contains the scheme, which is unknown here.
        routed.router.redirect_slashes = False
        http = QuietServer(build_config(routed))
        serving: asyncio.Task[None] | None = None
        try:
            async with app:
                serving = asyncio.create_task(http.serve(sockets=[listener]))
                if on_listening is not None:
                    on_listening(f"{address_of(listener)}{PATH}")
                try:
                    await asyncio.shield(serving)
                finally:
                    http.should_exit = True
                    await app.server.drain(_DRAIN_SECONDS)
        finally:  # only now, because streams end with the app
            if serving is not None:
                await asyncio.wait({serving})


def build_config(app: ASGIApp, *, longest_message_bytes: int | None = None) -> uvicorn.Config:
    """Return the uvicorn configuration of an app, with limits and without a server header.

    Args:
        app: The app.
        longest_message_bytes: The length limit of WebSocket messages; `None` without WebSockets.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        # Cancelled at shutdown if a client has not sent its whole request, which is not an error.
        with contextlib.suppress(asyncio.CancelledError):
            await app(scope, receive, send)

    config = uvicorn.Config(
        answer,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # Access depends only on Host, Origin and the token, which a proxy forwards. Any program on
        # this machine, even a web page in its browser, can send `X-Forwarded-…`.
        proxy_headers=False,
        ws="none" if longest_message_bytes is None else BoundedWebSocket,
        ws_max_size=longest_message_bytes or 0,
        ws_per_message_deflate=False,  # a small message could expand to a large one
        http=BoundedConnection,
        backlog=MAX_ACCEPTED_AT_ONCE,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=_CLOSE_SECONDS,
    )
    config.load()
    config.loaded_app = answer  # without the middleware that logs headers at TRACE
    return config


@contextmanager
def listening(host: str, port: int, *, shared: bool = False) -> Iterator[socket.socket]:
    """Yield a socket that listens at an address.

    Args:
        host: The address.
        port: The port; 0 for a free one.
        shared: Whether other processes of this user may listen at the same port; the kernel
            distributes the connections among them.

    Raises:
        ConfigurationError: The socket cannot listen there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, reuse_port=shared)
    except (OSError, OverflowError) as error:
        raise _not_listening(host, port, error) from error
    with listener:
        yield listener


@contextmanager
def reserved(host: str, port: int) -> Iterator[int]:
    """Reserve a port, and yield its number; only `listening` with `shared` can use it meanwhile.

    Raises:
        ConfigurationError: The port is not available.
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as holder:
        try:
            # Bound without sharing, so that a second server fails; shared only afterwards.
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if holder.family == socket.AF_INET6:
                holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            holder.bind((host, port))
        except (OSError, OverflowError) as error:
            raise _not_listening(host, port, error) from error
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        yield holder.getsockname()[1]


def _not_listening(host: str, port: int, error: Exception) -> ConfigurationError:
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ConfigurationError(f"Cannot listen at {host}:{port}: {why}")


def address_of(listener: socket.socket) -> str:
    """Return the address of a listening socket as a URL."""
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class QuietServer(uvicorn.Server):
    """A uvicorn server that leaves signals to the program."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield
