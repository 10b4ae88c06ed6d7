"""`leonidas mcp list`: how the MCP servers of the settings do."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from leonidas_tools.cli.mcp.options import Config
from leonidas_tools.cli.places import default_config


def list_servers(
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """Start every MCP server of the settings; show its state, tools and last error."""
    from rich.text import Text

    from leonidas_tools.cli import terminal

    servers = asyncio.run(_status(config or default_config()))
    if as_json:
        terminal.write_json(servers)
        return
    console = terminal.output()
    rows = terminal.table(
        console, "server", "transport", "state", "protocol", "connected in", "tools", "last error"
    )
    for server in servers:
        good = server["state"] in {"ready", "standby"}
        seconds = server["connect_seconds"]
        rows.add_row(
            server["name"],
            server["transport"],
            Text(server["state"], "green" if good else "yellow"),
            server["protocol_version"] or "",
            "" if seconds is None else f"{seconds * 1000:.0f} ms",
            _counted(server["tools"]),
            server["last_error"] or "",
        )
    console.print(rows)


def _counted(tools: list[str]) -> str:
    return f"{len(tools)}: {', '.join(tools)}" if tools else ""


async def _status(config: Path) -> list[dict[str, Any]]:
    """Every server of the settings, those included that are switched off."""
    from leonidas_tools.cli.starting import started

    async with started(config) as tools:
        running = {server["name"]: server for server in tools.mcp_servers.status()}
        return [
            {
                "name": name,
                "transport": settings.transport,
                "state": running[name]["state"] if name in running else "disabled",
                "protocol_version": running.get(name, {}).get("protocol_version"),
                "connect_seconds": running.get(name, {}).get("connect_seconds"),
                "tools": running[name]["tools"] if name in running else [],
                "last_error": running.get(name, {}).get("last_error"),
            }
            for name, settings in tools.settings.current.mcp_servers.items()
        ]
