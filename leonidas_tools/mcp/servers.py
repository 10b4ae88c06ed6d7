"""All MCP servers of the settings, and their tools in a registry."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from leonidas_tools.mcp.listing.server_tools import ServerTools
from leonidas_tools.mcp.listing.tool_names import name_prefixes
from leonidas_tools.mcp.trust.quarantine import fields_of
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from leonidas_tools.calls.context import ToolContext
    from leonidas_tools.errors import ToolError
    from leonidas_tools.mcp.listing.definitions import AnyTool
    from leonidas_tools.mcp.server import MCPServer
    from leonidas_tools.settings.models import MCPServerSettings
    from leonidas_tools.tools.registry import ToolRegistry

logger = visible_logger(__name__)

_WATCH_SECONDS = 0.5
_SELECTION = frozenset({"tools", "prefix", "include", "exclude", "max_tools", "pin"})
"""Settings that select the tools of a server, and do not affect its connection."""


HeadersHook: TypeAlias = "Callable[[str, ToolContext | None], Awaitable[Mapping[str, str]]]"
"""Returns HTTP headers for a request to a server, by the server's name and the context of the call;
without a context, the request belongs to no call."""


class MCPServers:
    """Runs the MCP servers of the settings, and keeps their tools in a registry up to date.

    The servers run inside `async with`, which may be entered many times; the last exit stops the
    servers. Entering does not wait for the servers, and a failed server raises no error.

    `report` is called with the name and the data of an event for the user. `headers` returns fresh
    HTTP headers for each request to a server.

    Example:
        >>> from leonidas_tools.tools.registry import ToolRegistry
        >>> MCPServers(ToolRegistry(), {}).status()
        []
    """

    def __init__(
        self,
        registry: ToolRegistry,
        servers: Mapping[str, MCPServerSettings],
        report: Callable[..., None] | None = None,
        headers: HeadersHook | None = None,
    ) -> None:
        self.registry = registry
        self._headers = headers
        self._report = report or (lambda _kind, **_: None)
        self._servers: dict[str, MCPServer] = {}
        self._tools: dict[str, ServerTools] = {}
        self._order: list[str] = []
        self._prefixes: dict[str, set[str]] = {}
        self._watching: asyncio.Task[None] | None = None
        self._users = 0
        self._stopping: set[asyncio.Task[None]] = set()
        self.configure(servers)
        registry.expect(self._explain_missing)

    @property
    def tools(self) -> list[AnyTool]:
        """Return the tools known so far."""
        return [tool for tools in self._tools.values() for tool in tools.registered()]

    async def __aenter__(self) -> Self:
        self._users += 1
        if self._users == 1:
            for server in self._servers.values():
                self._start(server)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._users -= 1
        if self._users:
            return
        stopping = self._stopping
        stopping |= {asyncio.create_task(server.stop()) for server in self._servers.values()}
        if self._watching is not None:
            self._watching.cancel()
            stopping.add(self._watching)
            self._watching = None
        if stopping:
            await asyncio.wait(stopping)
            stopping.clear()

    def configure(self, servers: Mapping[str, MCPServerSettings]) -> None:
        """Apply other settings: start new servers, restart changed ones, stop removed ones.

        If only the selection of tools has changed, the tools are listed again.

        Running calls of a stopped server may finish. The tools of a removed server are removed at
        once; the tools of a restarted server return `unavailable` until it is connected.
        """
        wanted = {name: settings for name, settings in servers.items() if settings.enabled}
        self._order = list(wanted)
        self._prefixes = {name: name_prefixes(name, each) for name, each in servers.items()}
        for name in self._servers.keys() - wanted.keys():
            self._stop(self._servers.pop(name))
            self._tools.pop(name).clear()
        for name, settings in wanted.items():
            server = self._servers.get(name)
            if server is not None and _have_same_connection(server.settings, settings):
                if server.settings != settings:
                    self._tools[name].settings = settings
                    server.apply(settings)
                continue
            if server is not None:
                self._stop(server)
            self._create(name, settings)

    def may_list_more(self, servers: Mapping[str, MCPServerSettings]) -> bool:
        """Return whether servers with these settings may still list other tools."""
        for name, settings in servers.items():
            server = self._servers.get(name)
            if settings.enabled and (
                server is None or server.settings != settings or not server.is_usable
            ):
                return True
        return False

    async def ready(self, timeout_seconds: float) -> bool:
        """Wait until every server has connected or failed; return whether all servers are usable.

        The tools of connected servers are registered. A server that is down is retried in the
        background, and is not waited for.
        """
        servers = list(self._servers.values())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                for server in servers:
                    await server.wait_until_tried()
        return all(server.is_usable for server in servers)

    def status(self) -> list[dict[str, Any]]:
        """Return each server's status as plain JSON: `name`, `state`, `tools`, `last_error`, …."""
        return [
            {**server.status(), "tools": [tool.name for tool in self._tools[name].registered()]}
            for name, server in self._servers.items()
        ]

    def _create(self, name: str, settings: MCPServerSettings) -> None:
        from leonidas_tools.mcp.server import MCPServer

        tools = self._tools.get(name)
        if tools is None:
            tools = ServerTools(
                name, self.registry, settings, self._is_reserved, self._foreign_prefixes
            )
        self._tools[name] = tools
        tools.settings = settings

        def on_tools(listed: list[AnyTool]) -> None:
            if self._servers.get(name) is server:
                tools.update(listed)
                report = server.definitions.report
                for tool in report.news if report.denies else ():
                    changed = fields_of(report.changed[tool])
                    self._report("tool_quarantined", server=name, tool=tool, changed=changed)

        self._servers[name] = server = MCPServer(name, settings, on_tools, self._headers)
        if self._users:
            self._start(server)

    def _start(self, server: MCPServer) -> None:
        server.start()
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name="mcp:watch")

    def _is_reserved(self, server: str, name: str, is_late: bool) -> bool:
        """Return whether the name is reserved for a server with precedence that has not listed yet.

        Otherwise, the faster server would get the name, which differs each time. The order of the
        settings decides, but tools of first listings precede late tools: otherwise, a server could
        take the name of another server's tool in the next process.
        """
        before = self._order[: self._order.index(server)] if server in self._order else []
        others = [each for each in self._order if each != server] if is_late else before
        return any(
            self._tools[each].expects(name, late=is_late and each in before)
            for each in others
            if each in self._tools
        )

    def _foreign_prefixes(self, server: str) -> set[str]:
        """Return the prefixes of the names of other servers' tools."""
        others = (self._prefixes[each] for each in self._prefixes if each != server)
        return set().union(*others)

    def _explain_missing(self, name: str) -> ToolError | None:
        """Return the error for a tool that a server may list once it is connected, if any."""
        servers = [(self._servers[each], self._tools[each]) for each in self._order]
        for server, tools in servers:
            if tools.expects(name):
                return server.unavailable()
        for server, tools in servers:
            if server.is_starting and tools.may_list(name):
                return server.unavailable()
        return None

    async def _watch(self) -> None:
        """Read tools again when settings change, or the user may have trusted tools."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            for server in list(self._servers.values()):
                if server.is_stale:
                    await server.reread()

    def _stop(self, server: MCPServer) -> None:
        if self._users:
            task = asyncio.create_task(server.stop(drain=True))
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)


def _have_same_connection(one: MCPServerSettings, other: MCPServerSettings) -> bool:
    """Return whether two settings differ only in the selection of tools."""
    return one.model_dump(exclude=set(_SELECTION)) == other.model_dump(exclude=set(_SELECTION))
