"""`leonidas mcp add` and `remove`: servers into the settings file and out, its comments kept."""

import shlex
from typing import Annotated, Any

import typer

from leonidas_tools.cli.mcp.options import Name, file_to_change
from leonidas_tools.cli.mcp.writing import secret_notes, write_servers, written_servers
from leonidas_tools.cli.places import Config
from leonidas_tools.errors import ConfigurationError

Target = Annotated[
    list[str],
    typer.Argument(
        metavar="URL | -- COMMAND [ARG]...", help="An address, or behind -- a command to start."
    ),
]
Header = Annotated[
    list[str] | None, typer.Option("--header", "-H", help="'Name: value', sent with each request.")
]
Variable = Annotated[
    list[str] | None, typer.Option("--env", "-e", help="NAME=value, for the command.")
]
Transport = Annotated[str | None, typer.Option(help="http or sse; guessed from the address.")]
Folder = Annotated[str | None, typer.Option("--cwd", help="The folder the command starts in.")]
Login = Annotated[bool, typer.Option("--login", help="People log in to it with the browser.")]


def add(  # noqa: PLR0913, PLR0917 - each is an option of the command
    name: Name,
    target: Target,
    header: Header = None,
    env: Variable = None,
    transport: Transport = None,
    cwd: Folder = None,
    login: Login = False,
    config: Config = None,
) -> None:
    """Add a server to the settings file.

    leonidas mcp add time -- '${LEONIDAS_PYTHON}' -m mcp_server_time

    leonidas mcp add notes https://notes.example/mcp --header 'Authorization: Bearer ${TOKEN}'
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
    file = file_to_change(config)
    for note in [*write_servers(file, {name: server}), *secret_notes(name, server)]:
        terminal.say(note, err=True)
    then = f"leonidas mcp {'login' if login else 'test'} {shlex.quote(name)}"
    terminal.say(f"{file}: {name} was added; see whether it answers: {then}")


def remove(name: Name, config: Config = None) -> None:
    """Remove a server from the settings file, and forget its tokens, its pins and its tools."""
    from leonidas_tools.cli import terminal
    from leonidas_tools.mcp.places import forget
    from leonidas_tools.settings.write import update_file

    file = file_to_change(config)
    sections = written_servers(file).get(name)
    if sections is None:
        raise ConfigurationError(f"There is no MCP server {name!r}", file=file)
    update_file(file, {section: {name: None} for section in sections})
    forget(name)
    terminal.say(f"{file}: {name} was removed")


def _check_name(name: str) -> None:
    """Refuse a name that is a path: it would be part of the names of tools and files."""
    if "/" in name or "\\" in name:
        said = "a name has no '/' and no '\\'; use letters, digits, '_', '-' and '.'"
        raise ConfigurationError(f"{name!r} is no name for a server: {said}")


def _server(target: list[str]) -> dict[str, Any]:
    command, *args = target
    if command.startswith(("http://", "https://")):
        if args:
            raise typer.BadParameter(f"nothing goes behind an address: {' '.join(args)}")
        return {"url": command}
    if "://" in command:
        raise typer.BadParameter(f"an address begins with http:// or https://, not {command!r}")
    return {"command": command, "args": args} if args else {"command": command}


def _pairs(texts: list[str] | None, sign: str, form: str) -> dict[str, str]:
    pairs = {}
    for text in texts or []:
        key, found, value = text.partition(sign)
        if not found or not key.strip():
            raise typer.BadParameter(f"{key!r} is not of the form {form}")
        pairs[key.strip()] = value.strip() if sign == ":" else value
    return pairs
