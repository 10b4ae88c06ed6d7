"""Select the tools of a server, and name them in the registry."""

from __future__ import annotations

import json
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from leonidas_tools.files.private import PrivateFile
from leonidas_tools.mcp.data_files import data_file
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.similar import closest
from leonidas_tools.settings.problem import Finding
from leonidas_tools.tools.names import legal_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from leonidas_tools.settings.models import MCPServerSettings

logger = visible_logger(__name__)

_SEPARATOR = "__"
_OURS = frozenset({"answer_question", "confirm_action", "find_tools", "read_result"})
"""Tools of the library that are registered on demand: a server's tool cannot have these names."""


def name_for(
    server: str,
    tool: str,
    settings: MCPServerSettings,
    *,
    is_taken: Callable[[str], bool],
    previous: str | None = None,
    others: Collection[str] = (),
) -> str:
    """Return a free name: the configured one, the tool's own, or one with the server's prefix.

    The tool's own name is not free if it starts with a prefix of another server (`others`): a rule
    that allows that server would also apply to this tool.

    Example:
        >>> from leonidas_tools.settings.models import MCPServerSettings
        >>> settings = MCPServerSettings(command="x")
        >>> name_for("web", "search", settings, is_taken={"search"}.__contains__)
        'web__search'
        >>> prefixed = MCPServerSettings(command="x", prefix="my")
        >>> name_for("web", "search", prefixed, is_taken=lambda name: False)
        'my__search'
        >>> name_for("web", "mail__send", settings, is_taken=lambda name: False, others=["mail__"])
        'web__mail__send'
        >>> name_for("web", "mail _send", settings, is_taken=lambda name: False, others=["mail__"])
        'web__mail _send'
    """
    configured = configured_name(tool, settings)
    long = f"{server}{_SEPARATOR}{tool}"
    if configured is not None:
        candidates = [configured, long]
    else:
        own = (name for name in (previous, tool) if name is not None)
        candidates = [name for name in own if name == long or not _has_prefix(name, others)]
        candidates.append(long)
    for candidate in candidates:
        # Some models accept no dots in names.
        is_ours = model_name(candidate).replace(".", "_") in _OURS
        if not is_ours and not is_taken(candidate):
            return candidate
    number = 2
    while is_taken(f"{long}_{number}"):
        number += 1
    return f"{long}_{number}"


def model_name(name: str) -> str:
    """Return the name that a model uses for a tool, if no other tool has this name."""
    return legal_names([name])[name]


def configured_name(tool: str, settings: MCPServerSettings) -> str | None:
    """Return the name of a tool in the settings, if they set one."""
    configured = settings.tools.get(tool)
    if configured is not None and configured.name is not None:
        return configured.name
    return None if settings.prefix is None else f"{settings.prefix}{_SEPARATOR}{tool}"


def name_prefixes(server: str, settings: MCPServerSettings) -> set[str]:
    """Return the prefixes of the names of a server's tools, by its name and its settings."""
    return {f"{each}{_SEPARATOR}" for each in (server, settings.prefix) if each is not None}


def belongs_to_other_server(server: str, tool: str, others: Collection[str]) -> bool:
    """Return whether rules cannot distinguish a tool's long name from names of another server.

    Example:
        >>> belongs_to_other_server("web", "mail__send", ["web__mail__"])
        True
    """
    own = f"{server}{_SEPARATOR}"
    return _has_prefix(own + tool, [each for each in others if len(each) > len(own)])


def _has_prefix(name: str, prefixes: Collection[str]) -> bool:
    """Return whether a name, or the name that a model uses for it, has one of these prefixes."""
    known = model_name(name).replace(".", "_")
    return any(each.startswith(tuple(prefixes)) for each in (name, known))


class ListedNames:
    """The names that one server has listed, stored for later processes.

    The names of the first listing are stored as well: a tool that is added later must not take the
    name of a tool that another server listed first.

    Example:
        >>> ListedNames("notes").keep(["add", "search"])
        >>> ListedNames("notes").names()
        ['add', 'search']
        >>> ListedNames("notes").keep(["add", "search", "send"])
        >>> ListedNames("notes").first()
        ['add', 'search']
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._file = PrivateFile(data_file(server, "listing"))
        self._kept: list[str] | None = None

    def keep(self, names: Sequence[str]) -> None:
        """Store the names, and log a failure to write them; this blocks."""
        if self._kept == list(names):
            return
        first = self.first()
        try:
            self._file.write(
                json.dumps({"tools": list(names), "first": list(names) if first is None else first})
            )
            self._kept = list(names)
        except OSError as error:
            logger.debug("The listing of the MCP server %r is not cached: %s", self._server, error)

    def names(self) -> list[str]:
        """Return the names; none if they are unknown."""
        return self._read().get("tools", [])

    def first(self) -> list[str] | None:
        """Return the names of the first listing; `None` before there was one."""
        kept = self._read()
        return kept.get("first", kept.get("tools"))

    def _read(self) -> dict[str, list[str]]:
        try:
            kept = json.loads(self._file.read() or "{}")
            return {key: [str(name) for name in names] for key, names in kept.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}  # the names only stabilize the choice of names, so their loss is harmless


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
