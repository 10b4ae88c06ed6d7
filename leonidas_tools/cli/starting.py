"""Load the tools of a settings file, with their MCP servers started."""

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from leonidas_tools.cli import terminal
from leonidas_tools.cli.places import TOOLS, no_such
from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from leonidas_tools import ToolRuntime
    from leonidas_tools.approvals.request import Channel
    from leonidas_tools.tools.registry import AnyTool

_START_SECONDS = 60.0


@asynccontextmanager
async def open_tools(
    config: Path,
    *,
    needed: str | None = None,
    approval: "Channel | None" = None,
    builtin_tools: bool = True,
) -> "AsyncIterator[ToolRuntime]":
    """Yield the tools, ready for calls, even if a server cannot start.

    Args:
        config: The settings file.
        needed: The only tool that is needed; servers are not awaited if it is loaded already.
        approval: The channel that asks a person; by default the model asks.
        builtin_tools: Whether to include the built-in tools of a voice agent.
    """
    from leonidas_tools import ToolRuntime

    async with ToolRuntime(config=config, approval=approval, builtin_tools=builtin_tools) as tools:
        await wait_for_servers(tools, needed=needed)
        yield tools


async def wait_for_servers(tools: "ToolRuntime", *, needed: str | None = None) -> None:
    """Wait until the MCP servers have listed their tools, and show that they start."""
    names = [server["name"] for server in tools.mcp_servers.status()]
    if names and (needed is None or needed not in tools.registry):
        console = terminal.messages()
        message = terminal.line(f"Starting MCP servers: {', '.join(names)}")
        if not console.is_terminal:
            console.print(message)
        with console.status(message):
            await tools.ready(_START_SECONDS)


def get_tool(tools: "ToolRuntime", name: str) -> "AnyTool":
    """Return a tool."""
    if name in tools.registry:
        return tools.registry[name]
    raise ConfigurationError(no_such("tool", name, tools.registry.suggestions(name), TOOLS))
