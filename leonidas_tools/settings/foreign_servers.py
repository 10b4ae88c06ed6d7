"""Convert the MCP servers of other programs' settings to `mcp_servers`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.files.reading import read_file, why_unreadable
from leonidas_tools.redaction import is_secret_name
from leonidas_tools.settings.mcp_settings import split_command

_SECTIONS = ("mcpServers", "servers", "context_servers")
_TRANSPORTS = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
    "sse": "sse",
    "local": "stdio",
    "remote": "http",
}
_RENAMED = {
    "environment": "env",
    "includeTools": "include",
    "excludeTools": "exclude",
    "disabledTools": "exclude",
}
_SAME = ("command", "args", "env", "cwd", "headers")
_URLS = {"url": None, "httpUrl": "http", "serverUrl": None}
_OAUTH = {
    "clientId": "client_id",
    "CLIENT_ID": "client_id",
    "client_id": "client_id",
    "clientSecret": "client_secret",
    "CLIENT_SECRET": "client_secret",
    "client_secret": "client_secret",
    "scopes": "scopes",
    "issuer": "issuer",
    "callbackPort": "callback_port",
}
_ACCOUNTS = ("oauth", "auth")
_HANDLED = {*_SAME, *_RENAMED, *_URLS, "type", "transport", "timeout", "disabled", "enabled"}
_WORDLESS = {"description", "name", "icon", "gallery", "version"}
"""Keys that do not affect how a server is reached or used."""

_WHY = {
    "trust": "say under `policies.rules` which calls need no approval",
    "autoApprove": "say under `policies.rules` which calls need no approval",
    "alwaysAllow": "say under `policies.rules` which calls need no approval",
    "envFile": "load it before Leonidas starts, or name each variable under `env`",
    "sandbox": "Leonidas does not run servers in a sandbox",
    "sandboxEnabled": "Leonidas does not run servers in a sandbox",
}
_MILLISECONDS_FROM = 1000
_FORM = re.compile(r"\$\{([^}]*)\}")
_OURS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?")
_BARE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignServers:
    """The MCP servers of another program's file."""

    # the settings of each server, as under `mcp_servers`
    servers: dict[str, dict[str, Any]] = field(default_factory=dict)
    # a sentence about each key that was not converted, or that needs an action
    notes: list[str] = field(default_factory=list)
    # why a server could not be converted, by name
    refused: dict[str, str] = field(default_factory=dict)


def read_foreign(path: Path) -> ForeignServers:
    """Read a file of another program, such as `claude_desktop_config.json` or `.vscode/mcp.json`.

    Raises:
        ConfigurationError: The file cannot be read, or has no servers.
    """
    try:
        data = json.loads(_without_comments(read_file(path).decode("utf-8-sig")))
    except OSError as error:
        raise ConfigurationError(why_unreadable(error), file=path) from None
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        message = "is not JSON: correct it, or name the file that lists the MCP servers"
        raise ConfigurationError(message, file=path, line=line) from None
    found = foreign_servers(data, _workspace(path))
    if not found.servers and not found.refused:
        raise ConfigurationError(
            "has no MCP servers: list them under 'mcpServers' or 'servers'", file=path
        )
    return found


def foreign_servers(data: Any, workspace: Path | None = None) -> ForeignServers:
    """Return the MCP servers in another program's settings.

    Example:
        >>> data = {"mcpServers": {"notes": {"httpUrl": "https://notes.example/mcp"}}}
        >>> foreign_servers(data).servers
        {'notes': {'url': 'https://notes.example/mcp', 'transport': 'http'}}
    """
    found = ForeignServers()
    servers, inputs = _section(data)
    variables = Variables(inputs, workspace or Path.cwd())
    for name, written in servers.items():
        if not isinstance(written, Mapping):
            found.refused[str(name)] = "it should be a mapping"
            continue
        try:
            found.servers[str(name)] = _server(str(name), written, variables, found.notes)
        except ValueError as error:
            found.refused[str(name)] = str(error)
    found.notes.extend(variables.notes)
    return found


def _section(data: Any) -> tuple[Mapping[str, Any], list[Any]]:
    """Return the servers by name, and the inputs for their variables."""
    if not isinstance(data, Mapping):
        return {}, []
    nested = data.get("mcp")
    for place in (data, nested if isinstance(nested, Mapping) else {}):
        for key in _SECTIONS:
            servers = place.get(key)
            if isinstance(servers, list) and all(isinstance(each, Mapping) for each in servers):
                servers = {str(each.get("name")): each for each in servers}  # as in Continue
            if isinstance(servers, Mapping):
                inputs = place.get("inputs")
                return servers, inputs if isinstance(inputs, list) else []
    for unnamed in (data, nested or {}):
        if unnamed and isinstance(unnamed, Mapping) and all(map(_is_server, unnamed.values())):
            return unnamed, []
    return {}, []


def _is_server(value: Any) -> bool:
    return isinstance(value, Mapping) and bool({"command", *_URLS} & value.keys())


def _server(
    name: str, written: Mapping[str, Any], variables: Variables, notes: list[str]
) -> dict[str, Any]:
    server: dict[str, Any] = {key: written[key] for key in _SAME if written.get(key)}
    if isinstance(server.get("command"), Mapping):  # in the format of Zed
        nested = server.pop("command")
        server |= {"command": nested.get("path"), "args": nested.get("args", [])}
    for theirs, ours in _RENAMED.items():
        if written.get(theirs):
            server[ours] = written[theirs]
    _add_address(server, written)
    if written.get("disabled") is True or written.get("enabled") is False:
        server["enabled"] = False
    if (timeout := _timeout(written.get("timeout"))) is not None:
        server["timeout"] = timeout
    for key in _ACCOUNTS:
        if isinstance(account := written.get(key), Mapping):
            server["auth"] = {_OAUTH[k]: v for k, v in account.items() if k in _OAUTH and v}
    _make_texts(name, server, notes)
    _note_rest(name, written, notes)
    return {key: variables.ours(value) for key, value in split_command(server).items()}


def _make_texts(name: str, server: dict[str, Any], notes: list[str]) -> None:
    for section in ("env", "headers"):
        values = server.get(section)
        if isinstance(values, Mapping):
            server[section] = {k: v if isinstance(v, str) else _text(v) for k, v in values.items()}
            _warn_of_secrets(name, section, server[section], notes)


def _note_rest(name: str, written: Mapping[str, Any], notes: list[str]) -> None:
    taken = {key for key in _ACCOUNTS if isinstance(written.get(key), Mapping)}
    for key in sorted(map(str, written.keys() - _HANDLED - _WORDLESS - taken)):
        why = f": {_WHY[key]}" if key in _WHY else ""
        notes.append(f"{name}: `{key}` is not imported{why}")


def _add_address(server: dict[str, Any], written: Mapping[str, Any]) -> None:
    kind = written.get("type", written.get("transport"))
    transport = _TRANSPORTS.get(str(kind).lower()) if kind is not None else None
    if kind is not None and transport is None:
        raise ValueError(f"its transport {kind!r} is not supported: choose stdio, http or sse")
    if "command" in server:
        server.pop("headers", None)
        return
    for key, implied in _URLS.items():
        if written.get(key):
            server["url"] = written[key]
            transport = transport or implied
            break
    if "url" not in server:
        raise ValueError("it has neither a command nor a url")
    for key in ("args", "env", "cwd"):
        server.pop(key, None)
    if transport is not None:
        server["transport"] = transport


def _timeout(value: Any) -> float | None:
    """Return the seconds; a number from 1000 on is in milliseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return None
    return value / 1000 if value >= _MILLISECONDS_FROM else value


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def _warn_of_secrets(name: str, section: str, values: Mapping[str, str], notes: list[str]) -> None:
    for key, value in values.items():
        if value and "$" not in value and is_secret_name(key):
            notes.append(
                f"{name}: {section}.{key} has a secret in plain text; set an environment variable "
                f"instead, and write ${{{variable_name(key)}}}"
            )


def _workspace(path: Path) -> Path:
    folder = path.resolve().parent
    return folder.parent if folder.name.startswith(".") else folder


def _without_comments(text: str) -> str:
    """Replace comments, and commas before a closing bracket, with spaces: editors allow both."""
    blank = re.compile(r"[^\n]")
    token = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
    text = token.sub(lambda m: m[0] if m[0][0] == '"' else blank.sub(" ", m[0]), text)
    comma = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[}\]])', re.DOTALL)
    return comma.sub(lambda m: m[0] if m[0][0] == '"' else " ", text)


class Variables:
    """Converts variables, and collects those that the user must set.

    Args:
        inputs: The values that the other program asks its user for, each with an `id`.
        workspace: The value of `${workspaceFolder}`.

    Example:
        >>> from pathlib import Path
        >>> variables = Variables([{"id": "api-key", "description": "The key"}], Path("/home/ana"))
        >>> variables.ours(["${env:HOME}", "Bearer ${input:api-key}", "${workspaceFolder}/x"])
        ['${HOME}', 'Bearer ${API_KEY}', '/home/ana/x']
        >>> variables.notes
        ['set the environment variable API_KEY (The key)']
    """

    def __init__(self, inputs: list[Any], workspace: Path) -> None:
        self.notes: list[str] = []
        self._inputs = {str(i["id"]): i for i in inputs if isinstance(i, Mapping) and "id" in i}
        self._known = {
            "workspaceFolder": str(workspace),
            "workspaceRoot": str(workspace),
            "workspaceFolderBasename": workspace.name,
            "cwd": str(workspace),
            "userHome": "${HOME}",
            "pathSeparator": "/",
            "/": "/",
        }

    def ours(self, value: Any) -> Any:
        """Return the same data with every variable in the syntax of our settings.

        Raises:
            ValueError: A variable is unknown.
        """
        if isinstance(value, str):
            bare = _BARE.fullmatch(value)
            return f"${{{bare[1]}}}" if bare else _FORM.sub(self._one, value)
        if isinstance(value, Mapping):
            return {key: self.ours(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.ours(item) for item in value]
        return value

    def _one(self, match: re.Match[str]) -> str:
        kind, colon, name = match[1].partition(":")
        if colon and kind == "env" and _OURS.fullmatch(name):
            return f"${{{name}}}"
        if colon and kind == "input":
            return self._input(name)
        if match[1] in self._known:
            return self._known[match[1]]
        if _OURS.fullmatch(match[1]):
            return match[0]
        raise ValueError(f"{match[0]} is not known here: write its value, or ${{NAME}}")

    def _input(self, name: str) -> str:
        wanted = variable_name(name)
        asked = self._inputs.get(name, {})
        what = asked.get("description")
        note = f"set the environment variable {wanted}" + (f" ({what})" if what else "")
        if note not in self.notes:
            self.notes.append(note)
        default = asked.get("default")
        return f"${{{wanted}:-{default}}}" if isinstance(default, str) else f"${{{wanted}}}"


def variable_name(text: str) -> str:
    """Return a name that an environment variable can have.

    Example:
        >>> variable_name("api-key")
        'API_KEY'
    """
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").upper()
    return f"_{name}" if name[:1].isdigit() else name or "VALUE"
