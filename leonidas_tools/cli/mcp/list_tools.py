"""`leonidas mcp tools`: list the tools of the MCP servers."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from leonidas_tools.cli.mcp.options import no_such_server
from leonidas_tools.cli.places import Config, default_config
from leonidas_tools.errors import ConfigurationError

_CHARACTERS_A_TOKEN = 4
Server = Annotated[
    str | None, typer.Argument(metavar="SERVER", help="Only the tools of this server.")
]


def list_tools(
    name: Server = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """List the tools of the MCP servers with their parameters and their size in tokens.

    The tokens are an estimate: four characters each.

    Example: leonidas mcp tools time
    """
    from leonidas_tools.cli import terminal

    tools = asyncio.run(_tools(config or default_config(), name))
    if as_json:
        terminal.write_json(tools)
        return
    console = terminal.output()
    rows = terminal.table(
        console, "tool", "server", "effect", "status", "tokens", "parameters", "description"
    )
    for tool in tools:
        rows.add_row(
            tool["name"],
            tool["server"],
            tool["effect"],
            tool["status"],
            str(tool["tokens"]),
            ", ".join(_parameters(tool["parameters"])),
            tool["description"].partition("\n")[0],
        )
    console.print(rows)
    total = sum(tool["tokens"] for tool in tools)
    count = "1 tool" if len(tools) == 1 else f"{len(tools)} tools"
    terminal.messages().print(f"{count}, about {total} tokens in every session")


async def _tools(config: Path, only: str | None) -> list[dict[str, Any]]:
    from leonidas_tools.cli.starting import open_tools
    from leonidas_tools.tools.exports import describe

    async with open_tools(config) as tools:
        servers = {server["name"]: server for server in tools.mcp_servers.status()}
        if only is not None and only not in servers:
            if only in tools.settings.current.mcp_servers:
                message = (
                    f"The MCP server {only!r} is disabled: set 'enabled: true' in the settings"
                )
                raise ConfigurationError(message)
            raise ConfigurationError(no_such_server(only, servers))
        found = []
        for name, server in servers.items():
            for tool_name in server["tools"] if only in {None, name} else ():
                told = describe(tools.registry, tools.registry[tool_name])
                found.append(_describe(name, told))
        return found


def _describe(server: str, told: dict[str, Any]) -> dict[str, Any]:
    declared = [told[key] for key in ("declared_name", "description", "parameters")]
    keys = ("name", "effect", "status", "description", "parameters")
    shown = {key: told[key] for key in keys}
    tokens = len(json.dumps(declared, ensure_ascii=False)) // _CHARACTERS_A_TOKEN
    return {"server": server, **shown, "tokens": tokens}


def _parameters(schema: dict[str, Any]) -> list[str]:
    """Return the names of the parameters; an optional one ends with a question mark."""
    required = schema.get("required", [])
    return [name if name in required else f"{name}?" for name in schema.get("properties", {})]
