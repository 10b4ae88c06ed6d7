"""Serving the gateway until cancelled."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from leonidas_tools.gateway.app import GatewayApp, gateway_app
from leonidas_tools.mcp_server.guard import is_loopback
from leonidas_tools.mcp_server.serving import QuietServer, address_of, build_config, listening

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from leonidas_tools.gateway.limits import GatewayLimits
    from leonidas_tools.live.gemini import GeminiLiveProcessor
    from leonidas_tools.processors.advanced import AdvancedToolProcessor

MAX_MESSAGE_BYTES: Final = 64_000
"""Limit of a WebSocket message: more than a second of audio in the largest format."""


async def serve_gateway(  # noqa: PLR0913 - each is an option of the server
    tools: AdvancedToolProcessor,
    model: GeminiLiveProcessor,
    *,
    secret: str,
    host: str = "127.0.0.1",
    port: int = 8788,
    limits: GatewayLimits | None = None,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    listener: socket.socket | None = None,
    on_listening: Callable[[str], object] | None = None,
) -> None:
    """Serve conversations over WebSockets, until cancelled; then drain.

    If cancelled again while it drains, end all conversations at once.

    Args:
        tools: The tools of all conversations; this function opens them.
        model: The model of all conversations.
        secret: The secret that signs tokens, at least 32 bytes.
        host: The address to listen on. Beyond this machine, put a proxy with TLS in front.
        port: The port; 0 for a free one.
        limits: The limits of this process.
        hosts: Allowed `Host` names besides those of this machine.
        origins: Origins of web pages of other servers that may use it.
        listener: A listening socket, instead of `host` and `port`.
        on_listening: Callback that receives the address once the server listens.

    Raises:
        ConfigurationError: The server cannot listen on this address, or the secret is too short.
    """
    app = gateway_app(
        tools,
        model,
        secret=secret,
        limits=limits,
        hosts=hosts,
        origins=origins,
        any_address=not is_loopback(host),
    )
    if listener is None:
        with listening(host, port) as opened:
            await _serve(app, opened, on_listening)
    else:
        await _serve(app, listener, on_listening)


async def _serve(
    app: GatewayApp, listener: socket.socket, on_listening: Callable[[str], object] | None
) -> None:
    config = build_config(app, longest_message_bytes=MAX_MESSAGE_BYTES)
    http = QuietServer(config)
    serving: asyncio.Task[None] | None = None
    try:
        async with app:
            serving = asyncio.create_task(http.serve(sockets=[listener]), name="gateway:http")
            if on_listening is not None:
                on_listening(address_of(listener))
            try:
                await asyncio.shield(serving)
            except asyncio.CancelledError:
                await app.drain()  # while it listens, so that probes receive a response
                raise
            finally:
                http.should_exit = True
    finally:
        if serving is not None:
            await asyncio.wait({serving})
