"""The prompts of a server as tools: listed and filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mcp_types
from mcp.shared.exceptions import MCPError

from leonidas_tools.errors import ToolError
from leonidas_tools.mcp.features.offered_pages import READS, listing_tool, page_of
from leonidas_tools.mcp.features.wording import clean
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.client.client import Client

LIST = "list_prompts"
GET = "get_prompt"

_SHOWN = {"name", "title", "description", "arguments"}


def prompt_tools(name: str) -> list[mcp_types.Tool]:
    """Return the tools that list and fill in the prompts of a server."""
    return [
        listing_tool(
            LIST,
            f"Lists the prompts of the server {name!r}, with their arguments: instructions for "
            f"tasks that it knows. Use one with {GET}.",
        ),
        mcp_types.Tool(
            name=GET,
            description=f"Gets a prompt of the server {name!r} with its arguments filled in.",
            input_schema={
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "Its name."},
                    "arguments": {
                        "type": "object",
                        "additionalProperties": {"type": "string"},
                        "description": "Its arguments by name, all of them texts.",
                    },
                },
                "required": ["name"],
                "additionalProperties": False,
            },
            annotations=READS,
        ),
    ]


async def listed_prompts(client: Client, arguments: Mapping[str, Any]) -> mcp_types.CallToolResult:
    """Return a page of the prompts."""
    page = await client.list_prompts(cursor=arguments.get("cursor"))
    return page_of("prompts", page.prompts, page, _SHOWN)


async def got_prompt(client: Client, arguments: Mapping[str, Any]) -> mcp_types.CallToolResult:
    """Return a prompt: its messages in order, with pictures, sounds and resources beside them.

    Raises:
        ToolError: It has no such prompt, or wants other arguments.
    """
    name = str(arguments["name"])
    try:
        prompt = await client.get_prompt(name, arguments.get("arguments") or {})
    except MCPError as error:
        if error.code == mcp_types.INVALID_PARAMS:
            raise ToolError(
                say("mcp_unknown_prompt", prompt=name, reason=clean(error.message), tool=LIST),
                status="invalid_argument",
                reason_code="unknown_prompt",
            ) from error
        raise
    said = {"messages": [_message(each) for each in prompt.messages]}
    beside: list[mcp_types.ContentBlock] = [
        each.content for each in prompt.messages if each.content.type != "text"
    ]
    return mcp_types.CallToolResult(content=beside, structured_content=said)


def _message(message: mcp_types.PromptMessage) -> dict[str, str]:
    content = message.content
    if isinstance(content, mcp_types.TextContent):
        return {"role": message.role, "text": content.text}
    return {"role": message.role, "beside": content.type}
