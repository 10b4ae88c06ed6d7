"""MCP servers written into a settings file."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from leonidas_tools.errors import ConfigurationError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def written(file: Path) -> dict[str, Any]:
    """What stands in a settings file, variables as they are written.

    Args:
        file: The file; what is wrong in it is found elsewhere.
    """
    from leonidas_tools.settings.document import read_document
    from leonidas_tools.settings.load import read_text
    from leonidas_tools.settings.problem import DocumentError

    try:
        data = read_document(read_text(file)).data
    except DocumentError:
        return {}
    return data if isinstance(data, dict) else {}


def write_servers(file: Path, servers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Adds servers to a settings file, and says what is to be done about their secrets.

    A variable that is not set is written with an empty default: the file stays one that loads.

    Args:
        file: The settings file.
        servers: By name, as they stand under `mcp_servers`.

    Raises:
        ConfigurationError: One is there already, or the settings would be wrong with it.
    """
    from leonidas_tools.settings.load import FOREIGN
    from leonidas_tools.settings.write import update_file

    before = written(file)
    for section in ("mcp_servers", FOREIGN):
        for name in servers:
            if name in (before.get(section) or {}):
                raise ConfigurationError(
                    f"There is an MCP server {name!r} already: `leonidas mcp remove {name}` first, "
                    "or choose another name",
                    file=file,
                )
    missing = sorted({variable for server in servers.values() for variable in _unset(server)})
    update_file(file, {"mcp_servers": {name: _loadable(s) for name, s in servers.items()}})
    return [
        f"set the environment variable {name}, or write it to .env: it is empty" for name in missing
    ]


def secret_notes(name: str, server: Mapping[str, Any]) -> list[str]:
    """Which values of a server are secrets in plain text.

    Args:
        name: The server's name.
        server: Its settings.
    """
    from leonidas_tools.redaction import is_secret_name
    from leonidas_tools.settings.foreign_variables import variable_name

    return [
        f"{name}: {section}.{key} holds a secret as plain text; better set an environment variable "
        f"and write ${{{variable_name(f'{name}_{key}')}}}"
        for section in ("env", "headers")
        for key, value in server.get(section, {}).items()
        if is_secret_name(key) and "${" not in value
    ]


def _unset(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from (name for name in _VARIABLE.findall(value) if name not in os.environ)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _unset(item)
    elif isinstance(value, list):
        for item in value:
            yield from _unset(item)


def _loadable(value: Any) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda m: m[0] if m[1] in os.environ else f"${{{m[1]}:-}}", value)
    if isinstance(value, Mapping):
        return {key: _loadable(item) for key, item in value.items()}
    return [_loadable(item) for item in value] if isinstance(value, list) else value
