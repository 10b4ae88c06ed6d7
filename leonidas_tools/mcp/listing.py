"""A server's tools: read from it page by page, and kept for the next session."""

from __future__ import annotations

import hashlib
import logging
import os
from typing import TYPE_CHECKING

import mcp_types
from pydantic import ValidationError

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp.places import data_file

if TYPE_CHECKING:
    from mcp.client.client import Client

    from leonidas_tools.settings.models import MCPServerSettings

logger = logging.getLogger(__name__)

_MOST_TOOLS = 100_000
_MOST_PAGES = 1_000
_KIND = "tools"
_REACHED_BY = {"command", "args", "cwd", "url", "transport"}


async def list_tools(client: Client) -> list[mcp_types.Tool]:
    """A server's tools, from all pages.

    Args:
        client: Is connected to it.

    Raises:
        ConfigurationError: The pages never end.
    """
    if client.server_capabilities.tools is None:
        return []
    tools: list[mcp_types.Tool] = []
    cursor: str | None = None
    seen: set[str] = set()
    while True:
        page = await client.list_tools(cursor=cursor)
        tools.extend(page.tools)
        cursor = page.next_cursor
        if cursor is None:
            return tools
        if cursor in seen:
            raise ConfigurationError(f"lists its tools without end: page {cursor!r} came twice")
        if len(seen) >= _MOST_PAGES or len(tools) > _MOST_TOOLS:
            raise ConfigurationError(f"lists its tools without end: {len(tools):,} so far")
        seen.add(cursor)


class KeptListing:
    """The tools that a server listed last, kept in a file so that they are known without it.

    Args:
        name: The server's name.
        settings: How to reach it; what was listed by another server of the name does not count.
    """

    def __init__(self, name: str, settings: MCPServerSettings) -> None:
        self._name = name
        self._file = data_file(name, _KIND)
        reached_by = settings.model_dump_json(include=_REACHED_BY)
        self._server = hashlib.sha256(reached_by.encode()).hexdigest()

    def load(self) -> list[mcp_types.Tool] | None:
        """The tools, if they are known."""
        try:
            kept = _Kept.model_validate_json(self._file.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            logger.warning("MCP server %r: the kept listing is of no use: %s", self._name, error)
            return None
        return kept.tools if kept.server == self._server else None

    def keep(self, tools: list[mcp_types.Tool]) -> None:
        """Keeps the tools; that it cannot is no failure."""
        text = _Kept(server=self._server, tools=tools).model_dump_json(by_alias=True)
        part = self._file.with_suffix(f".{os.getpid()}.part")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(text)
            part.replace(self._file)
        except OSError as error:
            logger.warning("MCP server %r: its listing cannot be kept: %s", self._name, error)


class _Kept(mcp_types.ListToolsResult):
    server: str
