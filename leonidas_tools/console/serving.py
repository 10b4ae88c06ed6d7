"""Serving the console until cancelled."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from leonidas_tools.console.app import console_app
from leonidas_tools.console.talk import MAX_MESSAGE_BYTES
from leonidas_tools.mcp_server.guard import is_loopback
from leonidas_tools.mcp_server.serving import QuietServer, address_of, build_config, listening

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leonidas_tools.console.talk import Agents
    from leonidas_tools.processors.advanced import AdvancedToolProcessor
    from leonidas_tools.runtime.runtime import ToolRuntime


async def serve_console(  # noqa: PLR0913 - each is an option of the server
    tools: ToolRuntime | AdvancedToolProcessor,
    *,
    token: str,
    host: str = "127.0.0.1",
    port: int = 8787,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    agents: Agents | None = None,
    on_listening: Callable[[str], object] | None = None,
) -> None:
    """Serve the console of these tools over HTTP, until cancelled.

    Run it on the event loop of the sessions that use the tools.

    Args:
        tools: The tools; this function opens them.
        token: The token of `Authorization: Bearer …`.
        host: The address to listen on.
        port: The port; 0 for a free one.
        hosts: Allowed `Host` names besides those of this machine.
        origins: Origins of other pages that may use it.
        agents: Opens the agent of each conversation on the page.
        on_listening: Callback that receives the address once the server listens.

    Raises:
        ConfigurationError: The server cannot listen on this address, or the token is empty.
    """
    names = (*hosts, *(() if is_loopback(host) else (host,)))
    app = console_app(tools, token=token, hosts=names, origins=origins, agents=agents)
    with listening(host, port) as listener:
        http = QuietServer(build_config(app, longest_message_bytes=MAX_MESSAGE_BYTES))
        serving: asyncio.Task[None] | None = None
        try:
            async with app:
                serving = asyncio.create_task(http.serve(sockets=[listener]), name="console:http")
                if on_listening is not None:
                    on_listening(address_of(listener))
                try:
                    await asyncio.shield(serving)
                finally:
                    http.should_exit = True
        finally:
            if serving is not None:
                await asyncio.wait({serving})
