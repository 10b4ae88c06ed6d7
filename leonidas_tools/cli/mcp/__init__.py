"""`leonidas mcp`: the MCP servers of the settings; one file a command."""

import typer

from leonidas_tools.cli.mcp import list_servers, serve


def commands() -> typer.Typer:
    """The commands about MCP servers."""
    app = typer.Typer(help="The MCP servers of the settings.")
    app.callback()(lambda: None)  # keeps `list` a command of its own
    app.command("list")(list_servers.list_servers)
    app.command("serve")(serve.serve)
    return app
