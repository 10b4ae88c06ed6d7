"""Settings for display: with variables as written, and without secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from leonidas_tools.redaction import MASK, KnownSecrets, is_secret_name, redact, redact_text
from leonidas_tools.redaction.addresses import shown_path
from leonidas_tools.settings.problem import value_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from leonidas_tools.settings.models import Settings
    from leonidas_tools.settings.tool_configuration import ToolConfiguration

_OF_WORDS: Final = frozenset({"defaults", "environment", "policies", "tools"})
"""Sections whose texts are words such as `blocking`."""
_MAX_WORD_LENGTH: Final = 40


def to_display(settings: Settings, tool: str | None = None) -> dict[str, Any]:
    """Return the settings as plain JSON, with `${NAME}` in place of values of the environment.

    Example:
        >>> from leonidas_tools.settings.load import load
        >>> settings = load({"tools": {"search": {"custom_parameters": {"api_key": "abcd"}}}})
        >>> to_display(settings)
        {'tools': {'search': {'custom_parameters': {'api_key': '***'}}}}
    """
    secrets = KnownSecrets(settings.hidden)
    if tool is not None:
        own = settings.for_tool(tool).model_dump(mode="json")
        return _tool(secrets(_as_written(own, settings.written)))
    plain = settings.model_dump(mode="json", exclude_unset=True)
    body: dict[str, Any] = secrets(_as_written(plain, settings.written))
    if "defaults" in body:
        body["defaults"] = _tool(body["defaults"])
    if "tools" in body:
        body["tools"] = _tools(body["tools"])
    if "mcp_servers" in body:
        servers = body["mcp_servers"]
        body["mcp_servers"] = {name: _server(server) for name, server in servers.items()}
    return body


def differences(before: Settings, after: Settings) -> list[str]:
    """Return the settings that differ: numbers, switches and words with both values.

    Of all other settings, such as lists, servers and custom parameters, only the key is named.

    Example:
        >>> from leonidas_tools.settings.load import load
        >>> before = load({"tools": {"search": {"timeout": "10s"}}})
        >>> differences(before, load({"tools": {"search": {"timeout": "500ms", "lane": "web"}}}))
        ['tools.search.lane: not set → web', 'tools.search.timeout: 10 → 0.5']
    """
    one, two = (each.model_dump(mode="json", exclude_unset=True) for each in (before, after))
    seen = _Pair(to_display(before), to_display(after))
    found = [seen.of(path) for path in _find_differences(one, two)]
    if not found:  # a secret, which the plain settings do not have
        found = sorted(
            name
            for name in type(after).model_fields
            if getattr(before, name) != getattr(after, name)
        )
    return found


def _find_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the values that differ."""
    for key in sorted({*before, *after}):
        one, two = before.get(key), after.get(key)
        if one == two and (key in before) == (key in after):
            continue
        here = (*path, key)
        inner = [each for each in (one, two) if each is not None]
        is_one_server = path == ("mcp_servers",) and len(inner) == 1
        if any(inner) and all(isinstance(each, dict) for each in inner) and not is_one_server:
            yield from _find_differences(one or {}, two or {}, here)
        else:
            yield here


@dataclass(frozen=True, slots=True)
class _Pair:
    """Settings before and after a change, as they may be shown."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def of(self, path: Sequence[str]) -> str:
        key = ".".join(path)
        values = [value_at(each, path) for each in (self.before, self.after)]
        if values[0] == values[1] or not all(_is_displayable(path, each) for each in values):
            return key
        return f"{key}: {' → '.join(map(_value, values))}"


def _is_displayable(path: Sequence[str], value: Any) -> bool:
    """Return whether a value is informative and not secret."""
    if "custom_parameters" in path or is_secret_name(path[-1]):
        return False
    if isinstance(value, str):
        return (
            path[0] in _OF_WORDS and len(value) <= _MAX_WORD_LENGTH and redact_text(value) == value
        )
    return value is None or isinstance(value, int | float)


def _value(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else f"{value:g}"


def display_parameters(settings: Settings, tool: ToolConfiguration) -> dict[str, Any]:
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
        server["args"] = mask_secret_options(server["args"])
    if server.get("url"):
        server["url"] = _address(server["url"])
    if server.get("tools"):
        server["tools"] = _tools(server["tools"])
    return server


def mask_secret_options(arguments: Sequence[str]) -> list[str]:
    """Return a program's arguments without the values of secret options, such as `--token`.

    Example:
        >>> mask_secret_options(["serve", "--token", "abcd", "--api-key=abcd", "--port", "80"])
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
