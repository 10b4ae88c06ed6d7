"""Answer listings of resources and prompts page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mcp_types

from leonidas_tools.mcp.features.wording import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

READS = mcp_types.ToolAnnotations(read_only_hint=True)

_MOST_LISTED = 100
_LONGEST_DESCRIPTION = 300


def listing_tool(name: str, description: str) -> mcp_types.Tool:
    """Return a tool that lists something, a page a call."""
    cursor = {
        "type": "string",
        "description": "Where to go on: the 'next_cursor' of the answer before.",
    }
    return mcp_types.Tool(
        name=name,
        description=description,
        input_schema={
            "type": "object",
            "properties": {"cursor": cursor},
            "additionalProperties": False,
        },
        annotations=READS,
    )


def page_of(
    kind: str,
    things: Sequence[BaseModel],
    page: mcp_types.PaginatedResult,
    fields: set[str],
    **more: Any,
) -> mcp_types.CallToolResult:
    """Return one page of the list, and the cursor of the next one."""
    said: dict[str, Any] = {kind: shown(things, fields), **more}
    if page.next_cursor is not None:
        said["next_cursor"] = page.next_cursor
    left_out = len(things) - _MOST_LISTED
    if left_out > 0:
        said["left_out"] = left_out
    return mcp_types.CallToolResult(content=[], structured_content=said)


def shown(things: Sequence[BaseModel], fields: set[str]) -> list[dict[str, Any]]:
    """Return what the model needs of things that a server lists: the first of them, in short."""
    said = [
        each.model_dump(mode="json", by_alias=True, exclude_none=True, include=fields)
        for each in things[:_MOST_LISTED]
    ]
    return [_short(each) for each in said]


def _short(said: dict[str, Any]) -> dict[str, Any]:
    if "description" in said:
        said["description"] = clean(said["description"], _LONGEST_DESCRIPTION)
    return said
