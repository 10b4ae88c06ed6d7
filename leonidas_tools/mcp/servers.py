"""All MCP servers of the settings, and their tools in a registry."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.mcp.asks import Asks
    from leonidas_tools.mcp.definitions import AnyTool
    from leonidas_tools.mcp.server import MCPServer
    from leonidas_tools.registry import ToolRegistry
    from leonidas_tools.settings.models import MCPServerSettings

logger = logging.getLogger(__name__)

_SEPARATOR = "__"


class MCPServers:
    """Runs the MCP servers of the settings and keeps a registry in step with their tools.

    Inside `async with` the servers run; it may be entered many times, and the last to leave stops
    them. Nothing here waits for a server, and none can fail it.

    Args:
        registry: Where the tools are registered.
        servers: Settings by server name.
        asks: Answers what the servers ask.

    Example:
        >>> from leonidas_tools.registry import ToolRegistry
        >>> MCPServers(ToolRegistry(), {}).status()
        []
    """

    def __init__(
        self,
        registry: ToolRegistry,
        servers: Mapping[str, MCPServerSettings],
        asks: Asks | None = None,
    ) -> None:
        self.registry = registry
        self._asks = asks
        self._servers: dict[str, MCPServer] = {}
        self._tools: dict[str, _ServerTools] = {}
        self._users = 0
        self._stopping: set[asyncio.Task[None]] = set()
        self.configure(servers)

    @property
    def tools(self) -> list[AnyTool]:
        """The tools known so far."""
        return [tool for tools in self._tools.values() for tool in tools.registered()]

    async def __aenter__(self) -> Self:
        self._users += 1
        if self._users == 1:
            for server in self._servers.values():
                server.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._users -= 1
        if self._users:
            return
        stopping = self._stopping
        stopping |= {asyncio.create_task(server.stop()) for server in self._servers.values()}
        if stopping:
            await asyncio.wait(stopping)
            stopping.clear()

    def configure(self, servers: Mapping[str, MCPServerSettings]) -> None:
        """Applies other settings: what is new starts, what has changed starts anew, the rest ends.

        The calls under way at a server that ends may finish; its tools are gone at once, and
        those of one that has changed answer `unavailable` until it is back.

        Args:
            servers: Settings by server name.
        """
        wanted = {name: settings for name, settings in servers.items() if settings.enabled}
        for name in self._servers.keys() - wanted.keys():
            self._end(self._servers.pop(name))
            self._tools.pop(name).clear()
        for name, settings in wanted.items():
            server = self._servers.get(name)
            if server is not None and _connects_alike(server.settings, settings):
                server.apply(settings)
                continue
            if server is not None:
                self._end(server)
            self._begin(name, settings)

    async def ready(self, timeout_seconds: float) -> bool:
        """Waits until every server is connected and its tools are registered.

        Returns as soon as every server has been tried: one that is down keeps being tried in the
        background, and is not waited for.

        Args:
            timeout_seconds: How long to wait at most.
        """
        from leonidas_tools.mcp.server import ServerState

        good = (ServerState.READY, ServerState.STANDBY)
        servers = list(self._servers.values())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                for server in servers:
                    await server.wait_for(*good, ServerState.DOWN, ServerState.STOPPED)
        return all(server.state in good for server in servers)

    def status(self) -> list[dict[str, Any]]:
        """How each server does, as plain JSON: `name`, `state`, `tools`, `last_error`, …."""
        return [
            {**server.status(), "tools": [tool.name for tool in self._tools[name].registered()]}
            for name, server in self._servers.items()
        ]

    def _begin(self, name: str, settings: MCPServerSettings) -> None:
        from leonidas_tools.mcp.server import MCPServer

        tools = self._tools.setdefault(name, _ServerTools(name, self.registry))

        def on_tools(listed: list[AnyTool]) -> None:
            if self._servers.get(name) is server:
                tools.update(listed)

        self._servers[name] = server = MCPServer(name, settings, on_tools, self._asks)
        if self._users:
            server.start()

    def _end(self, server: MCPServer) -> None:
        if self._users:
            task = asyncio.create_task(server.stop(drain=True))
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)


class _ServerTools:
    """The tools of one server in the registry, by the names the server gives them."""

    def __init__(self, server: str, registry: ToolRegistry) -> None:
        self._server = server
        self._registry = registry
        self._names: dict[str, str] = {}
        self._listed: dict[str, AnyTool] = {}

    def registered(self) -> list[AnyTool]:
        """The tools as they stand in the registry."""
        tools = (self._registry.get(self._names[name]) for name in self._listed)
        return [tool for tool in tools if tool is not None]

    def update(self, tools: list[AnyTool]) -> None:
        """Puts new and changed tools into the registry, and takes out those that are gone."""
        listed = {tool.name: tool for tool in tools}
        for gone in self._listed.keys() - listed.keys():
            self._take_out(gone)
        for name, tool in listed.items():
            if self._listed.get(name) is not tool:
                self._put(name, tool)
        self._listed = listed

    def clear(self) -> None:
        """Takes all tools out."""
        self.update([])

    def _put(self, name: str, tool: AnyTool) -> None:
        if self._is_ours(name):
            self._registry.replace(tool.with_options(name=self._names[name]))
            return
        chosen = self._names[name] = self._free_name(name)
        if chosen != name:
            logger.info(
                "The tool %r of the MCP server %r is named %r here: its name is taken",
                name,
                self._server,
                chosen,
            )
        self._registry.register(tool.with_options(name=chosen))

    def _take_out(self, name: str) -> None:
        if self._is_ours(name):
            self._registry.unregister(self._names[name])

    def _is_ours(self, name: str) -> bool:
        """Whether the registry holds this tool; whoever may have changed its options."""
        before = self._listed.get(name)
        now = self._registry.get(self._names.get(name, name))
        return before is not None and now is not None and now.function is before.function

    def _free_name(self, name: str) -> str:
        """The name it had, else its own, else one with the server's name before it."""
        long = f"{self._server}{_SEPARATOR}{name}"
        number = 1
        for candidate in (self._names.get(name, name), name, long):
            if candidate not in self._registry:
                return candidate
        while f"{long}_{number}" in self._registry:
            number += 1
        return f"{long}_{number}"


def _connects_alike(one: MCPServerSettings, other: MCPServerSettings) -> bool:
    """Whether two settings mean the same server.

    Settings of its tools are looked up per call, and of other directories it is told.
    """
    plain: dict[str, Any] = {"tools": {}}
    if one.roots and other.roots:
        plain["roots"] = ()
    return one.model_copy(update=plain) == other.model_copy(update=plain)
