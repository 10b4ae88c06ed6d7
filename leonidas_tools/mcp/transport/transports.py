"""How a server is reached, as its settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leonidas_tools.mcp.transport.http import HTTPServer
from leonidas_tools.mcp.transport.stdio import StdioServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from leonidas_tools.mcp.transport.redaction import Redaction
    from leonidas_tools.settings.models import MCPServerSettings


def transport_to(
    name: str,
    settings: MCPServerSettings,
    redact: Redaction,
    *,
    on_bytes: Callable[[], None],
    on_lost: Callable[[str], None],
    on_doubt: Callable[[str], None],
) -> tuple[Any, StdioServer | None]:
    """The transport of a server, not opened yet; over stdio its process, too.

    Args:
        name: The server's name.
        settings: How to reach it.
        redact: Takes secrets out of what it says, and learns new ones.
        on_bytes: Called with each sound of it.
        on_lost: Called when it is gone.
        on_doubt: Called when it may be gone.
    """
    if settings.command is not None:
        process = StdioServer(name, settings, redact, on_lost=on_lost, on_bytes=on_bytes)
        return process.streams(), process
    on_failure = on_lost if settings.transport == "sse" else on_doubt
    server = HTTPServer(name, settings, on_failure, on_bytes=on_bytes, on_secret=redact.learn)
    return server.streams(), None
