"""Select the used tools of a server, and find settings of tools that it does not have."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from leonidas_tools.results.similar import closest
from leonidas_tools.settings.problem import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from leonidas_tools.settings.models import MCPServerSettings


def is_used(settings: MCPServerSettings, tool: str) -> bool:
    """Return whether a tool is included, or no `include` is set, and the tool is not excluded.

    Example:
        >>> from leonidas_tools.settings.models import MCPServerSettings
        >>> settings = MCPServerSettings(command="x", include=["read_*"], exclude=["read_all"])
        >>> [tool for tool in ("read_one", "read_all", "write") if is_used(settings, tool)]
        ['read_one']
    """
    return (settings.include is None or _matches(settings.include, tool)) and not _matches(
        settings.exclude, tool
    )


def check_server(
    server: str, settings: MCPServerSettings, listed: Collection[str]
) -> list[Finding]:
    """Return warnings about settings of tools that the server does not have, or that are not used.

    Example:
        >>> from leonidas_tools.settings.models import MCPServerSettings
        >>> settings = MCPServerSettings(command="x", exclude=["serch"])
        >>> print(*check_server("web", settings, ["search", "fetch"]))
        warning: mcp_servers.web.exclude: the server has no tool 'serch'; did you mean 'search'?
    """
    findings = _findings(f"mcp_servers.{server}", settings, listed)
    return [replace(each, message=settings.masked(each.message)) for each in findings]


def _findings(key: str, settings: MCPServerSettings, listed: Collection[str]) -> Iterator[Finding]:
    for where, patterns in (("include", settings.include or ()), ("exclude", settings.exclude)):
        for pattern in patterns:
            if not any(fnmatchcase(tool, pattern) for tool in listed):
                yield _unknown_finding(f"{key}.{where}", pattern, listed)
    for tool in settings.tools:
        if tool not in listed:
            yield _unknown_finding(f"{key}.tools.{tool}", tool, listed)
        elif not is_used(settings, tool):
            message = "the tool is not used: include it, or remove these settings"
            yield Finding(severity="warning", key=f"{key}.tools.{tool}", message=message)


def _unknown_finding(key: str, name: str, listed: Collection[str]) -> Finding:
    suggestions = closest(name, listed, limit=1)
    hint = f"; did you mean {suggestions[0]!r}?" if suggestions else ": remove it"
    message = f"the server has no tool {name!r}{hint}"
    return Finding(severity="warning", key=key, message=message)


def _matches(patterns: Collection[str], tool: str) -> bool:
    return any(fnmatchcase(tool, pattern) for pattern in patterns)
