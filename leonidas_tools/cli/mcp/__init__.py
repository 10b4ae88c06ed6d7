"""`leonidas mcp`: the MCP servers of the settings; one module per command."""

import typer

from leonidas_tools.cli.mcp import (
    add,
    doctor,
    import_servers,
    list_servers,
    list_tools,
    login,
    serve,
    trust,
)


def commands() -> typer.Typer:
    """Return the commands about MCP servers."""
    app = typer.Typer(help="Manage the MCP servers of the settings, or serve tools to MCP clients.")
    app.command("list")(list_servers.list_servers)
    app.command("tools")(list_tools.list_tools)
    app.command("test")(doctor.examine_server)
    app.command("add")(add.add)
    app.command("remove")(add.remove)
    app.command("import")(import_servers.import_servers)
    app.command("login")(login.login)
    app.command("logout")(login.logout)
    app.command("serve")(serve.serve)
    app.command("trust")(trust.trust)
    return app
