"""Serve tools over standard input and output or HTTP, until cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp_server.app import MCPApp
from leonidas_tools.mcp_server.connections import Connections
from leonidas_tools.mcp_server.guard import HTTPAccess, is_loopback
from leonidas_tools.mcp_server.server import ToolServer
from leonidas_tools.mcp_server.stdio import Pipes, claim_pipes, streams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from starlette.types import ASGIApp

    from leonidas_tools.processors.advanced import AdvancedToolProcessor
    from leonidas_tools.runtime.runtime import ToolRuntime

PATH = "/mcp"
_DRAIN_SECONDS = 5.0
_CLOSE_SECONDS = 2
MAX_CONNECTIONS = 1024
MAX_ACCEPTED_AT_ONCE = 64
"""Most connections accepted in one iteration of the loop. It is less than the limit of
waiting connections, so that a request is read before its connection could be closed."""
MAX_HEAD_BYTES = 16_384


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
    routed = Starlette(routes=[Route(PATH, app)])
    # A redirect contains the scheme, which is unknown here.
    routed.router.redirect_slashes = False
    with listening(host, port) as listener:
        await serve_app(
            routed,
            listener,
            running=_drained(app),
            on_listening=lambda address: on_listening and on_listening(f"{address}{PATH}"),
        )


@contextlib.asynccontextmanager
async def _drained(app: MCPApp) -> AsyncIterator[None]:
    async with app:
        try:
            yield
        finally:
            await app.server.drain(_DRAIN_SECONDS)


async def serve_app(
    app: ASGIApp,
    listener: socket.socket,
    *,
    running: AbstractAsyncContextManager[object],
    longest_message_bytes: int | None = None,
    on_listening: Callable[[str], object] | None = None,
    drain: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serve an app until cancelled; its streams may end only when `running` is left.

    Args:
        app: The app.
        listener: The listening socket.
        running: Entered while the app is served.
        longest_message_bytes: The length limit of WebSocket messages; `None` without WebSockets.
        on_listening: Callback that receives the address once the server listens.
        drain: Called when cancelled, while the server still listens.
    """
    http = QuietServer(build_config(app, longest_message_bytes=longest_message_bytes))
    serving: asyncio.Task[None] | None = None
    try:
        async with running:
            serving = asyncio.create_task(http.serve(sockets=[listener]), name="http")
            if on_listening is not None:
                on_listening(address_of(listener))
            try:
                await asyncio.shield(serving)
            except asyncio.CancelledError:
                if drain is not None:
                    await drain()
                raise
            finally:
                http.should_exit = True
    finally:
        if serving is not None:
            await asyncio.wait({serving})


def build_config(app: ASGIApp, *, longest_message_bytes: int | None = None) -> uvicorn.Config:
    """Return the uvicorn configuration of an app, with limits and without a server header.

    Args:
        app: The app.
        longest_message_bytes: The length limit of WebSocket messages; `None` without WebSockets.
    """
    connections = Connections(app)
    return uvicorn.Config(
        connections,
        lifespan="off",
        log_config=None,
        log_level=logging.WARNING,  # more would log the headers and messages of clients
        access_log=False,
        server_header=False,
        # Access depends only on Host, Origin and the token, which a proxy forwards. Any program on
        # this machine, even a web page in its browser, can send `X-Forwarded-…`.
        proxy_headers=False,
        http=cast("type[asyncio.Protocol]", connections.http),
        ws="none" if longest_message_bytes is None else cast("Any", connections.websocket),
        ws_max_size=longest_message_bytes or 0,
        ws_per_message_deflate=False,  # a small message could expand to a large one
        backlog=MAX_ACCEPTED_AT_ONCE,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=_CLOSE_SECONDS,
    )


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
