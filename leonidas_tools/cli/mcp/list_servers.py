"""`leonidas mcp list`: the state of the MCP servers of the settings."""

import asyncio
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from leonidas_tools.cli.places import Config, default_config

_GOOD = frozenset({"ready", "standby", "disabled"})
"""The states of a server that works or is disabled."""


def list_servers(
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """Start the MCP servers of the settings and show their states, tools and last errors.

    The exit code is 1 if an enabled server cannot be used.

    Example: leonidas mcp list --json
    """
    from leonidas_tools.cli import terminal

    servers = asyncio.run(_status(config or default_config()))
    if as_json:
        terminal.write_json(servers)
    else:
        _show(servers)
    if any(server["state"] not in _GOOD for server in servers):
        raise typer.Exit(1)


def _show(servers: list[dict[str, Any]]) -> None:
    from rich.text import Text

    from leonidas_tools.cli import terminal

    console = terminal.output()
    rows = terminal.table(
        console, "server", "transport", "state", "protocol", "connected in", "tools", "last error"
    )
    for server in servers:
        good = server["state"] in _GOOD
        seconds = server["connect_seconds"]
        rows.add_row(
            server["name"],
            server["transport"],
            Text(server["state"], "green" if good else "yellow"),
            server["protocol_version"] or "",
            "" if seconds is None else f"{seconds * 1000:.0f} ms",
            _format_names(server["tools"], server["quarantined"]),
            server["last_error"] or "",
        )
    console.print(rows)
    for server in servers:
        if server["quarantined"]:
            name = shlex.quote(server["name"])
            terminal.messages().print(f"quarantined tools have changed: leonidas mcp trust {name}")


def _format_names(tools: list[str], quarantined: list[str]) -> str:
    names = [f"{name} (quarantined)" if name in quarantined else name for name in tools]
    return f"{len(names)}: {', '.join(names)}" if names else ""


async def _status(config: Path) -> list[dict[str, Any]]:
    """Return the status of every server of the settings, disabled servers included."""
    from leonidas_tools.cli.starting import open_tools

    async with open_tools(config) as tools:
        running = {server["name"]: server for server in tools.mcp_servers.status()}
        denied = {tool.name for tool in tools.registry if tool.metadata.quarantine is not None}
        return [
            _as_json(name, settings.transport, running.get(name, {}), denied)
            for name, settings in tools.settings.current.mcp_servers.items()
        ]


def _as_json(name: str, transport: Any, server: dict[str, Any], denied: set[str]) -> dict[str, Any]:
    tools = server.get("tools", [])
    return {
        "name": name,
        "transport": transport,
        "state": server.get("state", "disabled"),
        "protocol_version": server.get("protocol_version"),
        "connect_seconds": server.get("connect_seconds"),
        "tools": tools,
        "quarantined": [tool for tool in tools if tool in denied],
        "last_error": server.get("last_error"),
    }
