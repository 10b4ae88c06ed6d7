"""`leonidas mcp import`: copy the servers of another program into the settings file."""

from pathlib import Path
from typing import Annotated

import typer

from leonidas_tools.cli.mcp.options import ChangedConfig
from leonidas_tools.cli.mcp.writing import problem_of, read_server_sections, write_servers
from leonidas_tools.cli.places import config_to_change

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Such as claude_desktop_config.json, .vscode/mcp.json, .cursor/mcp.json or "
        ".gemini/settings.json.",
    ),
]


def import_servers(file: File, config: ChangedConfig = None) -> None:
    """Copy the MCP servers of another program into the settings file.

    A server that cannot be copied is named with the reason, and the exit code is then 1.

    Example: leonidas mcp import .vscode/mcp.json
    """
    from leonidas_tools.cli import terminal
    from leonidas_tools.settings.foreign_servers import read_foreign

    found = read_foreign(file)
    settings = config or config_to_change()
    known = read_server_sections(settings)
    refused = dict(found.refused)
    for name, server in found.servers.items():
        if name in known:
            refused[name] = f"{settings} has a server of that name; remove or rename one"
        elif (problem := problem_of(name, server)) is not None:
            refused[name] = problem
    taken = {name: server for name, server in found.servers.items() if name not in refused}
    notes = [*found.notes, *(write_servers(settings, taken) if taken else [])]
    for note in notes:
        terminal.say(note, err=True)
    for name, why in refused.items():
        shown = name if name.isprintable() else repr(name)
        terminal.say(f"{shown}: skipped: {why}", err=True)
    terminal.say(f"{settings}: {', '.join(taken) or 'nothing'} copied from {file}")
    if refused:
        raise typer.Exit(1)
