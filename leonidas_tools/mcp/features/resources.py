"""The resources of a server as tools: listed and read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mcp_types
from mcp.shared.exceptions import MCPError

from leonidas_tools.errors import ToolError
from leonidas_tools.mcp.features.offered_pages import READS, listing_tool, page_of, shown
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.client.client import Client

LIST = "list_resources"
READ = "read_resource"

_NOT_FOUND = -32002
"""Error code of older servers for a resource that does not exist."""
_SHOWN = {"name", "title", "description", "uri", "uri_template", "mime_type", "size"}


def resource_tools(name: str) -> list[mcp_types.Tool]:
    """Return the tools that list and read the resources of a server."""
    return [
        listing_tool(
            LIST,
            f"Lists what the server {name!r} has to read: resources with their addresses, and "
            f"templates of addresses. Read one with {READ}.",
        ),
        mcp_types.Tool(
            name=READ,
            description=f"Reads a resource of the server {name!r} by its address.",
            input_schema={
                "type": "object",
                "properties": {
                    "uri": {
                        "type": "string",
                        "description": "Its address; that of a template with its places filled.",
                    }
                },
                "required": ["uri"],
                "additionalProperties": False,
            },
            annotations=READS,
        ),
    ]


async def listed_resources(
    client: Client, arguments: Mapping[str, Any]
) -> mcp_types.CallToolResult:
    """Return a page of the resources, and at first the templates."""
    cursor = arguments.get("cursor")
    page = await client.list_resources(cursor=cursor)
    templates = await _templates(client) if cursor is None else []
    more = {"templates": templates} if templates else {}
    return page_of("resources", page.resources, page, _SHOWN, **more)


async def read_resource(client: Client, arguments: Mapping[str, Any]) -> mcp_types.CallToolResult:
    """Return a resource, as a tool would embed it.

    Raises:
        ToolError: It has no such resource.
    """
    uri = str(arguments["uri"])
    try:
        read = await client.read_resource(uri)
    except MCPError as error:
        if error.code in {mcp_types.INVALID_PARAMS, _NOT_FOUND}:
            raise ToolError(
                say("mcp_unknown_resource", uri=uri, tool=LIST),
                status="not_found",
                reason_code="unknown_resource",
            ) from error
        raise
    texts = [each for each in read.contents if isinstance(each, mcp_types.TextResourceContents)]
    if len(texts) == len(read.contents) == 1:
        content = mcp_types.TextContent(text=texts[0].text)
        return mcp_types.CallToolResult(content=[content])
    return mcp_types.CallToolResult(
        content=[mcp_types.EmbeddedResource(resource=each) for each in read.contents]
    )


async def _templates(client: Client) -> list[dict[str, Any]]:
    try:
        page = await client.list_resource_templates()
    except MCPError as error:
        if error.code == mcp_types.METHOD_NOT_FOUND:
            return []
        raise
    return shown(page.resource_templates, _SHOWN)
