"""Serving until cancelled: over the standard pipes of this process, or over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp_server.app import MCPApp
from leonidas_tools.mcp_server.connections import (
    LONGEST_HEAD_BYTES,
    MOST_ACCEPTED_AT_ONCE,
    MOST_CONNECTIONS,
    BoundedConnection,
)
from leonidas_tools.mcp_server.guard import HTTPAccess, is_loopback
from leonidas_tools.mcp_server.server import ToolServer
from leonidas_tools.mcp_server.stdio import Pipes, claimed_pipes, streams
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from leonidas_tools.processors.advanced import AdvancedToolProcessor
    from leonidas_tools.runtime.runtime import ToolRuntime

logger = visible_logger(__name__)

PATH = "/mcp"
_DRAIN_SECONDS = 5.0
_CLOSE_SECONDS = 2


async def serve_stdio(
    tools: ToolRuntime | AdvancedToolProcessor,
    *,
    patterns: Sequence[str] = (),
    pipes: Pipes | None = None,
) -> None:
    """Serve the client that has started this process, until it closes standard input.

    Meanwhile what anything prints goes to standard error. A running call is cancelled at the end;
    one that must not stop half done has a moment to finish.
    """
    with contextlib.nullcontext(pipes) if pipes is not None else claimed_pipes() as used:
        async with ToolServer(tools, patterns) as server:
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
        ConfigurationError: It would be open beyond this machine without a token, or it cannot
            listen there.
    """
    beyond = not is_loopback(host)
    access = HTTPAccess(token=token, hosts=tuple(hosts), origins=tuple(origins), any_address=beyond)
    app = MCPApp(ToolServer(tools, patterns), access)
    with listening(host, port) as listener:
        routed = Starlette(routes=[Route(PATH, app)])
        # It would name a scheme, of which nothing is known here.
        routed.router.redirect_slashes = False
        http = QuietServer(configured(routed))
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
        finally:  # only now, since what streams has no other end
            if serving is not None:
                await asyncio.wait({serving})


def configured(app: ASGIApp) -> uvicorn.Config:
    """Return how an app is served: bounded, and silent about what it is."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        # Cancelled at the end, when a client has not sent its whole request: that is no fault.
        with contextlib.suppress(asyncio.CancelledError):
            await app(scope, receive, send)

    return uvicorn.Config(
        answer,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # Who may speak here is told by Host, Origin and the token alone, which a proxy hands on;
        # `X-Forwarded-…` is what anybody on this machine, a page in its browser too, may send.
        proxy_headers=False,
        ws="none",
        http=BoundedConnection,
        backlog=MOST_ACCEPTED_AT_ONCE,
        h11_max_incomplete_event_size=LONGEST_HEAD_BYTES,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=_CLOSE_SECONDS,
    )


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket that listens there.

    Raises:
        ConfigurationError: That is not possible.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigurationError(f"Cannot listen at {host}:{port}: {why}") from error
    with listener:
        yield listener


def address_of(listener: socket.socket) -> str:
    """Return the address of a listening socket as a URL."""
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class QuietServer(uvicorn.Server):
    """Leaves signals to the program."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield
