"""The tools of a settings file, with their MCP servers started and somebody told of it."""

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from leonidas_tools.cli import terminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from leonidas_tools import AdvancedToolProcessor
    from leonidas_tools.approvals.request import Channel

_START_SECONDS = 60.0


@asynccontextmanager
async def started(
    config: Path, *, needed: str | None = None, approval: "Channel | None" = None
) -> "AsyncIterator[AdvancedToolProcessor]":
    """The tools, ready to be called; a server that is down has been logged and is not waited for.

    Args:
        config: The settings file.
        needed: The one tool that is needed: where it is there already, no server is waited for.
        approval: Asks a person; by default the model does.

    Raises:
        LeonidasError: The settings are wrong, or a toolbox cannot be loaded.
    """
    from leonidas_tools import AdvancedToolProcessor

    async with AdvancedToolProcessor(config=config, approval=approval) as tools:
        names = [server["name"] for server in tools.mcp_servers.status()]
        if names and (needed is None or needed not in tools.registry):
            console = terminal.messages()
            message = terminal.line(f"Starting MCP servers: {', '.join(names)}")
            if not console.is_terminal:
                console.print(message)
            with console.status(message):
                await tools.ready(_START_SECONDS)
        yield tools
