"""Write MCP servers to a settings file."""

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from leonidas_tools.errors import ConfigurationError

_EMPTY = "version: 1\n"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def read_server_sections(file: Path) -> dict[str, list[str]]:
    """Return the sections of a settings file that have each server, by server.

    A server may be invalid, since a command may remove it.
    """
    from leonidas_tools.settings.document import read_document
    from leonidas_tools.settings.load import FOREIGN, read_settings, read_text
    from leonidas_tools.settings.problem import DocumentError

    text = read_text(file) if file.exists() else _EMPTY
    try:
        data = read_document(text).data
        sections = {key: (data.get(key) or {}).keys() for key in ("mcp_servers", FOREIGN)}
    except (DocumentError, AttributeError):
        read_settings(text, file)  # raises the error with its problems
        raise
    names = {name for section in sections.values() for name in section}
    return {name: [key for key, servers in sections.items() if name in servers] for name in names}


def write_servers(file: Path, servers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Add servers to a settings file, and return a note for each variable that is not set.

    A variable that is not set is written with an empty default, so that the file still loads.
    """
    from leonidas_tools.settings.load import load
    from leonidas_tools.settings.write import update_file

    before = read_server_sections(file)
    for name in servers:
        if name in before:
            raise ConfigurationError(
                f"There is an MCP server {name!r} already: `leonidas mcp remove "
                f"{shlex.quote(name)}` first, or choose another name",
                file=file,
            )
    loadable = {name: _loadable(server) for name, server in servers.items()}
    load({"mcp_servers": loadable})  # its errors name no line of a file that is not written
    missing = sorted({variable for server in servers.values() for variable in _unset(server)})
    update_file(file, {"mcp_servers": loadable}, initial=_EMPTY)
    return [
        f"set the environment variable {name}, or write it to .env: it is empty" for name in missing
    ]


def problem_of(name: str, server: Mapping[str, Any]) -> str | None:
    """Return why a server cannot be written to a settings file, or `None`."""
    from leonidas_tools.settings.load import load

    try:
        load({"mcp_servers": {name: _loadable(server)}})
    except ConfigurationError as error:
        first = error.problems[0]
        place = (first.key or "").removeprefix(f"mcp_servers.{name}").removeprefix(".")
        return f"{place}: {first.message}" if place else first.message
    return None


def secret_notes(name: str, server: Mapping[str, Any]) -> list[str]:
    """Return a note for each value of a server that is a secret in plain text."""
    from leonidas_tools.redaction import is_secret_name
    from leonidas_tools.settings.foreign_servers import variable_name

    return [
        f"{name}: {section}.{key} has a secret in plain text; set an environment variable instead, "
        f"and write ${{{variable_name(f'{name}_{key}')}}}"
        for section in ("env", "headers")
        for key, value in server.get(section, {}).items()
        if is_secret_name(key) and "${" not in value
    ]


def _is_set(variable: str) -> bool:
    from leonidas_tools.settings.load import INTERPRETER_VARIABLE

    return variable in os.environ or variable == INTERPRETER_VARIABLE


def _unset(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from (name for name in _VARIABLE.findall(value) if not _is_set(name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _unset(item)
    elif isinstance(value, list):
        for item in value:
            yield from _unset(item)


def _loadable(value: Any) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda m: m[0] if _is_set(m[1]) else f"${{{m[1]}:-}}", value)
    if isinstance(value, Mapping):
        return {key: _loadable(item) for key, item in value.items()}
    return [_loadable(item) for item in value] if isinstance(value, list) else value
