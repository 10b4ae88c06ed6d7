"""List a server's tools page by page, and cache them for the next session."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import mcp_types

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.files.private import PrivateFile
from leonidas_tools.mcp.data_files import data_file
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp.client.client import Client

    from leonidas_tools.mcp.transport.repairs import CheckedTransport
    from leonidas_tools.settings.models import MCPServerSettings

logger = visible_logger(__name__)

_MAX_TOOLS = 100_000
_MAX_PAGES = 1_000
_SLICE = 64
"""Tools read in one iteration of the event loop."""
_KIND = "tools"
_REACHED_BY = {"command", "args", "cwd", "url", "transport"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """The listing of a server.

    Args:
        tools: The valid tools.
        refused: The reasons why other tools are invalid, by name.
    """

    tools: list[mcp_types.Tool]
    refused: dict[str, str] = field(default_factory=dict)


async def list_tools(server: str, client: Client, checked: CheckedTransport) -> Listing:
    """Return a server's tools from all pages; an invalid tool does not affect the others.

    A cursor that comes again ends the listing.

    Raises:
        ConfigurationError: There are too many pages or tools.
    """
    if client.server_capabilities.tools is None:
        return Listing(tools=[])
    checked.refused = {}
    tools: list[mcp_types.Tool] = []
    cursor: str | None = None
    seen: set[str] = set()
    while True:
        page = await client.list_tools(cursor=cursor)
        tools.extend(page.tools)
        async for more in _read_rest(client, checked.rest):
            tools.extend(more)
        cursor = page.next_cursor
        if not cursor or cursor in seen:
            if cursor:
                logger.warning("MCP server %r: the same page of its tools came twice", server)
            checked.keep_outputs({tool.name for tool in tools})
            return Listing(tools=tools, refused=checked.refused)
        if len(seen) >= _MAX_PAGES or len(tools) > _MAX_TOOLS:
            raise ConfigurationError(f"lists its tools without end: {len(tools):,} so far")
        seen.add(cursor)


async def _read_rest(client: Client, tools: list[Any]) -> AsyncIterator[list[mcp_types.Tool]]:
    """Read the tools of a page that are too many for the client library to check at once."""
    for first in range(0, len(tools), _SLICE):
        await asyncio.sleep(0)
        some = {"tools": tools[first : first + _SLICE]}
        page = mcp_types.ListToolsResult.model_validate(some, by_name=False)
        taken = client.session._absorb_tool_listing(page, complete=False)  # noqa: SLF001 - as it does for a page
        yield taken.tools


class ListingCache:
    """The last listing of a server, cached in a file, so that it is known without the server.

    `ListedNames` stores the tool names of every server; its file is short, and is read without the
    client library. The whole listing is stored only for a server that starts lazily.

    Args:
        name: The server's name.
        settings: The server's settings; the listing of another server of this name is ignored.
    """

    def __init__(self, name: str, settings: MCPServerSettings) -> None:
        self._name = name
        self._file = PrivateFile(data_file(name, _KIND))
        reached_by = settings.model_dump_json(include=_REACHED_BY)
        self._server = hashlib.sha256(reached_by.encode()).hexdigest()

    def load(self) -> Listing | None:
        """Return the cached listing, if there is one."""
        try:
            text = self._file.read()
            kept = None if text is None else _CachedListing.model_validate_json(text)
        except (OSError, ValueError) as error:
            logger.warning(
                "MCP server %r: the cached listing cannot be used: %s", self._name, error
            )
            return None
        if kept is None or kept.server != self._server:
            return None
        return Listing(tools=kept.tools, refused=kept.refused)

    def keep(self, listing: Listing) -> None:
        """Cache a listing; log a failure to write it."""
        kept = _CachedListing(server=self._server, tools=listing.tools, refused=listing.refused)
        try:
            self._file.write(kept.model_dump_json(by_alias=True))
        except OSError as error:
            logger.warning("MCP server %r: its listing cannot be cached: %s", self._name, error)


class _CachedListing(mcp_types.ListToolsResult):
    server: str
    refused: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it
