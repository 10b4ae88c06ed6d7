"""The category `mcp`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp.servers import HeadersHook, MCPServers
from leonidas_tools.processors.category import CategoryProcessor
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.settings.models import MCPServerSettings
from leonidas_tools.tools.tool import ToolCategory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.tools.registry import AnyTool, ToolRegistry


logger = visible_logger(__name__)


class MCPToolProcessor(CategoryProcessor):
    """Runs the tools of MCP servers, connected while a stream runs or inside `async with`.

    After a registry stage, pass its registry: the servers' tools are added and removed there.

    Args:
        servers: Settings by server name, or an `MCPServers` that another object runs.
        registry: The registry for the tools; by default one of its own.
        headers: Returns fresh HTTP headers for each request to a server.

    Raises:
        pydantic.ValidationError: The settings of a server are invalid.

    Example:
        >>> mcp = MCPToolProcessor({"time": {"command": "mcp-server-time"}})
        >>> mcp.tools
        []
    """

    category: ClassVar[ToolCategory] = ToolCategory.MCP

    def __init__(
        self,
        servers: Mapping[str, MCPServerSettings | Mapping[str, Any]] | MCPServers | None = None,
        *,
        registry: ToolRegistry | None = None,
        headers: HeadersHook | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(servers, MCPServers):
            settings = {
                name: MCPServerSettings.model_validate(value)
                for name, value in (servers or {}).items()
            }
            servers = MCPServers(registry or self.registry, settings, headers=headers)
        self.servers = servers

    @classmethod
    def from_json(cls, path: str | Path, *, registry: ToolRegistry | None = None) -> Self:
        """Load the servers from another program's file, such as `claude_desktop_config.json`.

        Args:
            path: JSON with `mcpServers`, or with `servers` as in VS Code.
            registry: The registry for the tools; by default one of its own.

        Raises:
            ConfigurationError: The file cannot be read, or one of its servers is not supported.
        """
        from leonidas_tools.settings.foreign_servers import read_foreign
        from leonidas_tools.settings.load import load

        found = read_foreign(Path(path))
        for name, why in found.refused.items():
            raise ConfigurationError(why, file=Path(path), key=name)
        for note in found.notes:
            logger.warning("%s: %s", path, note)
        return cls(load({"mcp_servers": found.servers}).mcp_servers, registry=registry)

    @property
    def tools(self) -> list[AnyTool]:
        """Return the tools known so far, ready to register."""
        return self.servers.tools

    async def ready(self, timeout_seconds: float) -> bool:
        """Wait until every server is connected and its tools are known.

        Args:
            timeout_seconds: Maximum seconds to wait.
        """
        return await self.servers.ready(timeout_seconds)

    async def __aenter__(self) -> Self:
        await self.servers.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.servers.__aexit__(*error)
