"""What the commands about MCP servers have in common."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from leonidas_tools.cli.places import default_config
from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from leonidas_tools.settings.models import MCPServerSettings

Name: TypeAlias = Annotated[str, typer.Argument(help="The server's name in the settings.")]

_OWN = Path("config/tools.yaml")


def server_settings(config: Path | None, name: str) -> "MCPServerSettings":
    """The settings of one server.

    Args:
        config: The settings file; the default one when left out.
        name: The server's name.

    Raises:
        ConfigurationError: The settings are wrong, or hold no such server.
    """
    from leonidas_tools.settings.explain import closest
    from leonidas_tools.settings.load import load

    servers = load(config or default_config()).mcp_servers
    if name in servers:
        return servers[name]
    near = closest(name, list(servers))
    hint = f"did you mean {near!r}?" if near else f"there are {', '.join(servers) or 'none'}"
    raise ConfigurationError(f"There is no MCP server {name!r} in the settings; {hint}")


def file_to_change(config: Path | None) -> Path:
    """The settings file that a command writes to, which may be missing.

    What came with the package is never written to.

    Args:
        config: The file; `config/tools.yaml` in the working directory when left out.
    """
    return config or _OWN
