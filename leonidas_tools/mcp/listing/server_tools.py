"""The tools of one server in a registry."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from leonidas_tools.mcp.listing.tool_names import (
    ListedNames,
    belongs_to_other_server,
    configured_name,
    is_used,
    model_name,
    name_for,
)
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from leonidas_tools.mcp.listing.definitions import AnyTool
    from leonidas_tools.settings.models import MCPServerSettings
    from leonidas_tools.tools.registry import ToolRegistry

logger = visible_logger(__name__)


class ServerTools:
    """Keeps the tools of one server in a registry up to date.

    Args:
        server: The server's name.
        registry: The registry of the tools.
        settings: The server's settings, which may set names of tools.
        is_reserved: Returns whether a name is reserved for another server, also for a late tool.
        others: Returns the prefixes of the names of other servers' tools.
    """

    def __init__(
        self,
        server: str,
        registry: ToolRegistry,
        settings: MCPServerSettings,
        is_reserved: Callable[[str, str, bool], bool],
        others: Callable[[str], Collection[str]],
    ) -> None:
        self.settings = settings
        self._server = server
        self._registry = registry
        self._is_reserved = is_reserved
        self._others = others
        self._names: dict[str, str] = {}
        self._configured: dict[str, str | None] = {}
        self._listed: dict[str, AnyTool] = {}
        listed = ListedNames(server)
        names, first = frozenset(listed.names()), listed.first()
        self._first = None if first is None else frozenset(first)
        """Tools of the first listing; late tools of other servers do not get their names."""
        self._expected = self._model_names(names & (self._first or frozenset()))
        self._expected_late = self._model_names(names - (self._first or frozenset()))
        self._is_known = bool(self._expected | self._expected_late)

    def registered(self) -> list[AnyTool]:
        """Return the tools in the registry."""
        tools = (self._registry.get(self._names[name]) for name in self._listed)
        return [tool for tool in tools if tool is not None]

    def expects(self, name: str, *, late: bool = True) -> bool:
        """Return whether a tool of the server, if `late` even a late one, had this name before."""
        name = model_name(name)
        return name in self._expected or (late and name in self._expected_late)

    def may_list(self, name: str) -> bool:
        """Return whether the listing is still unknown, and may contain a tool of this name."""
        if self._is_known:
            return False
        prefix = configured_name("", self.settings) or ""
        renamed = {each.name for each in self.settings.tools.values()}
        return name in renamed or name.startswith(prefix)

    def update(self, tools: list[AnyTool]) -> None:
        """Register new and changed tools, and remove tools that are no longer listed."""
        self._expected = self._expected_late = frozenset()
        self._is_known = True
        listed = {tool.name: tool for tool in self._drop_foreign(tools)}
        for gone in self._listed.keys() - listed.keys():
            self._unregister(gone)
        for name, tool in listed.items():
            configured = configured_name(name, self.settings)
            if configured != self._configured.get(name):
                self._unregister(name)
                self._names.pop(name, None)
                self._listed.pop(name, None)
            self._configured[name] = configured
            if self._listed.get(name) is not tool:
                self._register(name, tool)
        self._listed = listed
        if self._first is None:
            self._first = frozenset(listed)

    def _drop_foreign(self, tools: list[AnyTool]) -> list[AnyTool]:
        """Return the tools that rules for another server do not apply to."""
        others = self._others(self._server)
        own = [
            tool for tool in tools if not belongs_to_other_server(self._server, tool.name, others)
        ]
        if len(own) < len(tools):
            logger.warning(
                "MCP server %r: %d tools are left out: their prefixed names start like those of "
                "another server",
                self._server,
                len(tools) - len(own),
            )
        return own

    def clear(self) -> None:
        """Remove all tools."""
        self.update([])

    def _register(self, name: str, tool: AnyTool) -> None:
        if self._is_ours(name):
            self._registry.replace(_rename(tool, self._names[name]))
            return
        is_first = self._first is None or name in self._first
        is_late = not is_first and self._configured[name] is None
        chosen = name_for(
            self._server,
            name,
            self.settings,
            is_taken=lambda wanted: self._is_taken(wanted, is_late=is_late),
            previous=self._names.get(name),
            others=self._others(self._server),
        )
        self._names[name] = chosen
        configured = self._configured[name]
        if chosen != (name if configured is None else configured):
            logger.log(
                logging.INFO if configured is None else logging.WARNING,
                "The tool %r of the MCP server %r is named %r here: the name %r is taken, or "
                "starts like those of another server",
                name,
                self._server,
                chosen,
                name if configured is None else configured,
            )
        self._registry.register(_rename(tool, chosen))

    def _is_taken(self, name: str, *, is_late: bool) -> bool:
        # The name that a model uses for another tool is taken: `send_mail` for "send mail".
        known = (self._registry.find(each) for each in (name, model_name(name)))
        is_known = name in self._registry or any(tool is not None for tool in known)
        return is_known or self._is_reserved(self._server, name, is_late)

    def _unregister(self, name: str) -> None:
        if self._is_ours(name):
            self._registry.unregister(self._names[name])

    def _is_ours(self, name: str) -> bool:
        """Return whether the registry contains this tool, even with changed options."""
        before = self._listed.get(name)
        now = self._registry.get(self._names.get(name, name))
        return before is not None and now is not None and now.function is before.function

    def _model_names(self, tools: Iterable[str]) -> frozenset[str]:
        """Return the names that a model would use for the used ones of these tools."""
        used = (tool for tool in tools if is_used(self.settings, tool))
        return frozenset(model_name(configured_name(tool, self.settings) or tool) for tool in used)


def _rename(tool: AnyTool, name: str) -> AnyTool:
    # Most keep their name: a copy of 10,000 tools would block the event loop for half a second.
    return tool if tool.name == name else tool.with_options(name=name)
