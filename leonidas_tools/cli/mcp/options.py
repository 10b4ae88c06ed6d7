"""The options of the commands about MCP servers, and the settings of a server."""

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from leonidas_tools.cli.places import default_config, no_such
from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from leonidas_tools.settings.models import MCPServerSettings

Name: TypeAlias = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the server in the settings.")
]


ChangedConfig: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar="LEONIDAS_CONFIG",
        readable=False,  # as in `Config`
        help="The file to change. Default: config/tools.yaml or tools.yaml in this folder.",
    ),
]


def server_settings(config: Path | None, name: str) -> "MCPServerSettings":
    """Return the settings of one server."""
    from leonidas_tools.settings.load import load

    servers = load(config or default_config()).mcp_servers
    if name in servers:
        return servers[name]
    raise ConfigurationError(no_such_server(name, servers))


def no_such_server(name: str, servers: Collection[str], *, add: bool = True) -> str:
    """Return a message for the name of a server that does not exist.

    Without any server, it explains how to `add` one.
    """
    from leonidas_tools.settings.explain import closest

    near = closest(name, list(servers))
    found = f"the settings have {', '.join(map(repr, servers))}" if servers else ""
    how = f"; `leonidas mcp add {shlex.quote(name)} …` adds it" if add else ""
    none = f"the settings have none{how}"
    return no_such("MCP server", name, [near] if near else [], found or none)
