"""The prompts of a server as tools: listed and filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mcp_types
from mcp.shared.exceptions import MCPError

from leonidas_tools.errors import ToolError
from leonidas_tools.mcp.asks.wording import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.client.client import Client

LIST = "list_prompts"
GET = "get_prompt"

_MOST_LISTED = 100
_LONGEST_DESCRIPTION = 300


def prompt_tools(name: str) -> list[mcp_types.Tool]:
    """The tools that list and fill in the prompts of a server.

    Args:
        name: The server's name.
    """
    reads = mcp_types.ToolAnnotations(read_only_hint=True)
    return [
        mcp_types.Tool(
            name=LIST,
            description=(
                f"Lists the prompts of the server {name!r}, with their arguments: instructions for "
                f"tasks that it knows. Use one with {GET}."
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
            annotations=reads,
        ),
    ]


async def listed_prompts(client: Client, arguments: Mapping[str, Any]) -> mcp_types.CallToolResult:
    """A page of the prompts.

    Args:
        client: Is connected to the server.
        arguments: `cursor`.
    """
    page = await client.list_prompts(cursor=arguments.get("cursor"))
    said: dict[str, Any] = {"prompts": [_shown(each) for each in page.prompts[:_MOST_LISTED]]}
    if page.next_cursor is not None:
        said["next_cursor"] = page.next_cursor
    left_out = len(page.prompts) - _MOST_LISTED
    if left_out > 0:
        said["left_out"] = left_out
    return mcp_types.CallToolResult(content=[], structured_content=said)


async def got_prompt(client: Client, arguments: Mapping[str, Any]) -> mcp_types.CallToolResult:
    """A prompt: its messages in order, with pictures, sounds and resources beside them.

    Args:
        client: Is connected to the server.
        arguments: `name` and `arguments`.

    Raises:
        ToolError: It has no such prompt, or wants other arguments.
    """
    name = str(arguments["name"])
    try:
        prompt = await client.get_prompt(name, arguments.get("arguments") or {})
    except MCPError as error:
        if error.code == mcp_types.INVALID_PARAMS:
            raise ToolError(
                f"The prompt {name!r} cannot be used so: {clean(error.message)}. {LIST} tells "
                "which there are, and what they need.",
                status="invalid_argument",
                reason_code="unknown_prompt",
            ) from error
        raise
    said = {"messages": [_message(each) for each in prompt.messages]}
    beside: list[mcp_types.ContentBlock] = [
        each.content for each in prompt.messages if each.content.type != "text"
    ]
    return mcp_types.CallToolResult(content=beside, structured_content=said)


def _shown(prompt: mcp_types.Prompt) -> dict[str, Any]:
    said = prompt.model_dump(
        mode="json",
        by_alias=True,
        exclude_none=True,
        include={"name", "title", "description", "arguments"},
    )
    if "description" in said:
        said["description"] = clean(said["description"], _LONGEST_DESCRIPTION)
    return said


def _message(message: mcp_types.PromptMessage) -> dict[str, str]:
    content = message.content
    if isinstance(content, mcp_types.TextContent):
        return {"role": message.role, "text": content.text}
    return {"role": message.role, "beside": content.type}
