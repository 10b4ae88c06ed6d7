"""`leonidas mcp add` and `remove`: change the servers of a settings file and keep its comments."""

import re
import shlex
from typing import Annotated, Any

import typer

from leonidas_tools.cli.mcp.options import ChangedConfig, Name, no_such_server
from leonidas_tools.cli.mcp.writing import read_server_sections, secret_notes, write_servers
from leonidas_tools.cli.places import config_to_change
from leonidas_tools.errors import ConfigurationError

_HOST_AND_PORT = re.compile(r"[\w.-]+:\d+(/.*)?")
"""A URL without its scheme; no command looks like it."""

Target = Annotated[
    list[str],
    typer.Argument(
        metavar="URL | -- COMMAND [ARG]...", help="A URL, or a command to start, after `--`."
    ),
]
Header = Annotated[
    list[str] | None,
    typer.Option(
        "--header", "-H", metavar="'NAME: VALUE'", help="An HTTP header for each request."
    ),
]
Variable = Annotated[
    list[str] | None,
    typer.Option(
        "--env", "-e", metavar="NAME=VALUE", help="An environment variable of the command."
    ),
]
Transport = Annotated[str | None, typer.Option(help="http or sse. Default: by the URL.")]
Folder = Annotated[
    str | None,
    typer.Option("--cwd", metavar="FOLDER", help="The working directory of the command."),
]
Login = Annotated[bool, typer.Option("--login", help="A person logs in with the browser.")]


def add(  # noqa: PLR0913, PLR0917 - each is an option of the command
    name: Name,
    target: Target,
    header: Header = None,
    env: Variable = None,
    transport: Transport = None,
    cwd: Folder = None,
    login: Login = False,
    config: ChangedConfig = None,
) -> None:
    """Add an MCP server to the settings file, which is created if it is missing.

    Example: leonidas mcp add time -- '${LEONIDAS_PYTHON}' -P -m mcp_server_time

    Example: leonidas mcp add notes https://notes.example/mcp --header 'X-Key: ${KEY}'
    """
    from leonidas_tools.cli import terminal

    _check_name(name)
    server = _server(target)
    given = {
        "env": _pairs(env, "=", "--env NAME=value"),
        "headers": _pairs(header, ":", "--header 'Name: value'"),
        "transport": transport,
        "cwd": cwd,
        "auth": {"grant": "authorization_code"} if login else None,
    }
    server |= {key: value for key, value in given.items() if value}
    file = config or config_to_change()
    is_new = not file.exists()
    for note in [*write_servers(file, {name: server}), *secret_notes(name, server)]:
        terminal.say(note, err=True)
    if is_new:
        note = f"{file} is new: from now on its tools are used here, not those of the demo"
        terminal.say(note, err=True)
    then = f"leonidas mcp {'login' if login else 'test'} {shlex.quote(name)}"
    terminal.say(f"{file}: {name} was added; to test it: {then}")


def remove(name: Name, config: ChangedConfig = None) -> None:
    """Remove an MCP server from the settings file, with its tokens, pins and known tools.

    Example: leonidas mcp remove time
    """
    from leonidas_tools.cli import terminal
    from leonidas_tools.mcp.data_files import forget
    from leonidas_tools.settings.write import update_file

    file = config or config_to_change()
    servers = read_server_sections(file)
    if name not in servers:
        raise ConfigurationError(no_such_server(name, servers, add=False), file=file)
    sections = servers[name]
    update_file(file, {section: {name: None} for section in sections})
    forget(name)
    terminal.say(f"{file}: {name} was removed")


def _check_name(name: str) -> None:
    """Refuse a name that is a path: it becomes a part of the names of tools and files."""
    if "/" in name or "\\" in name:
        said = "a name has no '/' and no '\\'; use letters, digits, '_', '-' and '.'"
        raise ConfigurationError(f"{name!r} cannot be the name of a server: {said}")


def _server(target: list[str]) -> dict[str, Any]:
    command, *args = target
    if command.startswith(("http://", "https://")):
        if args:
            raise typer.BadParameter(f"after a URL, remove {' '.join(args)!r}")
        return {"url": command}
    if "://" in command or (not args and _HOST_AND_PORT.fullmatch(command)):
        raise typer.BadParameter(f"{command!r} is not a URL: begin it with http:// or https://")
    return {"command": command, "args": args} if args else {"command": command}


def _pairs(texts: list[str] | None, sign: str, form: str) -> dict[str, str]:
    pairs = {}
    for text in texts or []:
        key, found, value = text.partition(sign)
        if not found or not key.strip():
            raise typer.BadParameter(f"{key!r} is incomplete: write {form}")
        pairs[key.strip()] = value.strip() if sign == ":" else value
    return pairs
