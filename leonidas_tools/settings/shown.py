"""Settings for display: with variables as written, and without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from leonidas_tools.redaction import MASK, is_secret_name, redact, redact_text
from leonidas_tools.redaction.addresses import shown_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leonidas_tools.settings.models import Settings
    from leonidas_tools.settings.tool_configuration import ToolConfiguration


def shown(settings: Settings, tool: str | None = None) -> dict[str, Any]:
    """Return the settings as plain JSON, with `${NAME}` in place of values of the environment.

    Example:
        >>> from leonidas_tools.settings.load import load
        >>> settings = load({"tools": {"search": {"custom_parameters": {"api_key": "abcd"}}}})
        >>> shown(settings)
        {'tools': {'search': {'custom_parameters': {'api_key': '***'}}}}
    """
    if tool is not None:
        own = settings.for_tool(tool).model_dump(mode="json")
        return _tool(_as_written(own, settings.written))
    plain = settings.model_dump(mode="json", exclude_unset=True)
    body: dict[str, Any] = _as_written(plain, settings.written)
    if "defaults" in body:
        body["defaults"] = _tool(body["defaults"])
    if "tools" in body:
        body["tools"] = _tools(body["tools"])
    if "mcp_servers" in body:
        servers = body["mcp_servers"]
        body["mcp_servers"] = {name: _server(server) for name, server in servers.items()}
    return body


def shown_parameters(settings: Settings, tool: ToolConfiguration) -> dict[str, Any]:
    """Return the custom parameters of a tool for display, without secrets."""
    plain = tool.model_dump(mode="json", include={"custom_parameters"})["custom_parameters"]
    return _own(_as_written(plain, settings.written))


def _as_written(value: Any, written: Mapping[str, str]) -> Any:
    """Return the settings with variables as written in the file."""
    if isinstance(value, str):
        return written.get(value, value) if value else value
    if isinstance(value, dict):
        return {key: _as_written(item, written) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_written(item, written) for item in value]
    return value


def _tools(tools: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    return {name: _tool(tool) for name, tool in tools.items()}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Mask the secrets in the custom parameters of a tool."""
    if tool.get("custom_parameters"):
        tool["custom_parameters"] = _own(tool["custom_parameters"])
    if tool.get("environment_specific"):
        tool["environment_specific"] = _tools(tool["environment_specific"])
    return tool


def _own(values: Mapping[str, Any]) -> dict[str, Any]:
    """Mask the secrets, but not the names of variables, which are not secret."""
    masked = redact(values)
    return {
        name: value if isinstance(value, str) and value.startswith("${") else masked[name]
        for name, value in values.items()
    }


def _server(server: dict[str, Any]) -> dict[str, Any]:
    if server.get("args"):
        server["args"] = without_secret_options(server["args"])
    if server.get("url"):
        server["url"] = _address(server["url"])
    if server.get("tools"):
        server["tools"] = _tools(server["tools"])
    return server


def without_secret_options(arguments: Sequence[str]) -> list[str]:
    """Return a program's arguments without the values of secret options, such as `--token`.

    Example:
        >>> without_secret_options(["serve", "--token", "abcd", "--api-key=abcd", "--port", "80"])
        ['serve', '--token', '***', '--api-key=***', '--port', '80']
    """
    masked, hide = list[str](), False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        is_secret = argument.startswith("-") and is_secret_name(name)
        if hide and not argument.startswith("-"):
            masked.append(MASK)
        else:
            masked.append(f"{name}={MASK}" if is_secret and equals else redact_text(argument))
        hide = is_secret and not equals
    return masked


def _address(url: str) -> str:
    """Return a URL without its user, the keys in its path, and the values in its query."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    shown_user = user if user.startswith("${") else MASK
    parts = parts._replace(
        netloc=f"{shown_user}{at}{host}" if at else host, path=shown_path(parts.path), fragment=""
    )
    if parts.query:
        names = [(name, MASK) for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
        parts = parts._replace(query=urlencode(names, quote_via=lambda text, *_: quote(text, "*")))
    return redact_text(parts.geturl())
