"""The resources of a server as tools: listed and read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mcp_types
from mcp.shared.exceptions import MCPError

from leonidas_tools.errors import ToolError
from leonidas_tools.mcp.asks.wording import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.client.client import Client

LIST = "list_resources"
READ = "read_resource"

_NOT_FOUND = -32002
"""What older servers say of a resource that they do not have."""
_MOST_LISTED = 100
_LONGEST_DESCRIPTION = 300
_SHOWN = {"name", "title", "description", "uri", "uri_template", "mime_type", "size"}


def resource_tools(name: str) -> list[mcp_types.Tool]:
    """The tools that list and read the resources of a server.

    Args:
        name: The server's name.
    """
    reads = mcp_types.ToolAnnotations(read_only_hint=True)
    return [
        mcp_types.Tool(
            name=LIST,
            description=(
                f"Lists what the server {name!r} has to read: resources with their addresses, and "
                f"templates of addresses. Read one with {READ}."
            ),
            input_schema={
                "type": "object",
                "properties": {
                    "cursor": {
                        "type": "string",
                        "description": "Where to go on: the 'next_cursor' of the answer before.",
                    }
                },
                "additionalProperties": False,
            },
            annotations=reads,
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
            annotations=reads,
        ),
    ]


async def listed_resources(
    client: Client, arguments: Mapping[str, Any]
) -> mcp_types.CallToolResult:
    """A page of the resources, and at first the templates.

    Args:
        client: Is connected to the server.
        arguments: `cursor`.
    """
    cursor = arguments.get("cursor")
    page = await client.list_resources(cursor=cursor)
    said: dict[str, Any] = {"resources": [_shown(each) for each in page.resources[:_MOST_LISTED]]}
    if cursor is None and (templates := await _templates(client)):
        said["templates"] = templates
    if page.next_cursor is not None:
        said["next_cursor"] = page.next_cursor
    left_out = len(page.resources) - _MOST_LISTED
    if left_out > 0:
        said["left_out"] = left_out
    return mcp_types.CallToolResult(content=[], structured_content=said)


async def read_resource(client: Client, arguments: Mapping[str, Any]) -> mcp_types.CallToolResult:
    """A resource, as a tool would embed it.

    Args:
        client: Is connected to the server.
        arguments: `uri`.

    Raises:
        ToolError: It has no such resource.
    """
    uri = str(arguments["uri"])
    try:
        read = await client.read_resource(uri)
    except MCPError as error:
        if error.code in {mcp_types.INVALID_PARAMS, _NOT_FOUND}:
            raise ToolError(
                f"There is no resource {uri!r}: {LIST} tells what there is.",
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
    return [_shown(each) for each in page.resource_templates[:_MOST_LISTED]]


def _shown(thing: mcp_types.Resource | mcp_types.ResourceTemplate) -> dict[str, Any]:
    """What the model needs of it."""
    said = thing.model_dump(mode="json", by_alias=True, exclude_none=True, include=_SHOWN)
    if "description" in said:
        said["description"] = clean(said["description"], _LONGEST_DESCRIPTION)
    return said
