"""Resources and prompts of a server as tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import mcp_types
from mcp.shared.exceptions import MCPError

from leonidas_tools.errors import ToolError
from leonidas_tools.mcp.features.elicitation import clean
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from mcp.client.client import Client
    from pydantic import BaseModel

    from leonidas_tools.settings.models import MCPServerSettings

    Request: TypeAlias = Coroutine[Any, Any, mcp_types.CallToolResult]
    SendRequest: TypeAlias = Callable[[Client, Mapping[str, Any]], Request]

_SEPARATOR = "__"
_LIST_RESOURCES = "list_resources"
_READ_RESOURCE = "read_resource"
_NOT_FOUND = -32002
"""Error code of older servers for a resource that does not exist."""
_SHOWN_OF_RESOURCES = {"name", "title", "description", "uri", "uri_template", "mime_type", "size"}
_LIST_PROMPTS = "list_prompts"
_GET_PROMPT = "get_prompt"
_SHOWN_OF_PROMPTS = {"name", "title", "description", "arguments"}
_READS = mcp_types.ToolAnnotations(read_only_hint=True)
_MAX_LISTED = 100
_MAX_DESCRIPTION_LENGTH = 300


class ResourceTools:
    """Tools that list and read the resources and prompts of a server, if the settings enable them.

    They are listed with the server's own tools; their names contain its name or prefix.
    """

    def __init__(self, server: str, settings: MCPServerSettings) -> None:
        self.settings = settings
        self._server = server

    def tools(self, capabilities: mcp_types.ServerCapabilities) -> list[mcp_types.Tool]:
        """Return the tools for the capabilities of the server."""
        found: list[mcp_types.Tool] = []
        if self.settings.resources and capabilities.resources is not None:
            found += _resource_tools(self._server)
        if self.settings.prompts and capabilities.prompts is not None:
            found += _prompt_tools(self._server)
        return [tool.model_copy(update={"name": self._name_prefix + tool.name}) for tool in found]

    def request(self, client: Client, tool: str, arguments: Mapping[str, Any]) -> Request | None:
        """Return the request for a call of one of these tools; `None` for other tools."""
        send = self._requests().get(tool)
        return None if send is None else send(client, arguments)

    @property
    def _name_prefix(self) -> str:
        # A prefix in the settings is added to every tool.
        return "" if self.settings.prefix else self._server + _SEPARATOR

    def _requests(self) -> dict[str, SendRequest]:
        requests: dict[str, SendRequest] = {}
        if self.settings.resources:
            requests[self._name_prefix + _LIST_RESOURCES] = _list_resources
            requests[self._name_prefix + _READ_RESOURCE] = _read_resource
        if self.settings.prompts:
            requests[self._name_prefix + _LIST_PROMPTS] = _list_prompts
            requests[self._name_prefix + _GET_PROMPT] = _get_prompt
        return requests


def _resource_tools(name: str) -> list[mcp_types.Tool]:
    """Return the tools that list and read the resources of a server."""
    return [
        _listing_tool(
            _LIST_RESOURCES,
            f"Lists the resources of the server {name!r} with their URIs, and its URI templates. "
            f"Read one with {_READ_RESOURCE}.",
        ),
        mcp_types.Tool(
            name=_READ_RESOURCE,
            description=f"Reads a resource of the server {name!r} by its URI.",
            input_schema={
                "type": "object",
                "properties": {
                    "uri": {
                        "type": "string",
                        "description": (
                            "URI of the resource, or a template with its variables filled in."
                        ),
                    }
                },
                "required": ["uri"],
                "additionalProperties": False,
            },
            annotations=_READS,
        ),
    ]


async def _list_resources(client: Client, arguments: Mapping[str, Any]) -> mcp_types.CallToolResult:
    """Return a page of the resources; the first page also contains the templates."""
    cursor = arguments.get("cursor")
    page = await client.list_resources(cursor=cursor)
    templates = await _templates(client) if cursor is None else []
    more = {"templates": templates} if templates else {}
    return _page_of("resources", page.resources, page, _SHOWN_OF_RESOURCES, **more)


async def _read_resource(client: Client, arguments: Mapping[str, Any]) -> mcp_types.CallToolResult:
    """Return a single text as text, and other contents as embedded resources."""
    uri = str(arguments["uri"])
    try:
        read = await client.read_resource(uri)
    except MCPError as error:
        if error.code in {mcp_types.INVALID_PARAMS, _NOT_FOUND}:
            raise ToolError(
                say("mcp_unknown_resource", uri=uri, tool=_LIST_RESOURCES),
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
    return _select_fields(page.resource_templates, _SHOWN_OF_RESOURCES)


def _prompt_tools(name: str) -> list[mcp_types.Tool]:
    """Return the tools that list and fill in the prompts of a server."""
    return [
        _listing_tool(
            _LIST_PROMPTS,
            f"Lists the prompts of the server {name!r}, with their arguments: instructions for "
            f"tasks that it knows. Use one with {_GET_PROMPT}.",
        ),
        mcp_types.Tool(
            name=_GET_PROMPT,
            description=f"Gets a prompt of the server {name!r} with its arguments filled in.",
            input_schema={
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "Name of the prompt."},
                    "arguments": {
                        "type": "object",
                        "additionalProperties": {"type": "string"},
                        "description": "Arguments of the prompt by name, all strings.",
                    },
                },
                "required": ["name"],
                "additionalProperties": False,
            },
            annotations=_READS,
        ),
    ]


async def _list_prompts(client: Client, arguments: Mapping[str, Any]) -> mcp_types.CallToolResult:
    """Return a page of the prompts."""
    page = await client.list_prompts(cursor=arguments.get("cursor"))
    return _page_of("prompts", page.prompts, page, _SHOWN_OF_PROMPTS)


async def _get_prompt(client: Client, arguments: Mapping[str, Any]) -> mcp_types.CallToolResult:
    """Return the messages of a prompt in order, with images, audio and resources as content."""
    name = str(arguments["name"])
    try:
        prompt = await client.get_prompt(name, arguments.get("arguments") or {})
    except MCPError as error:
        if error.code == mcp_types.INVALID_PARAMS:
            raise ToolError(
                say(
                    "mcp_unknown_prompt",
                    prompt=name,
                    reason=clean(error.message),
                    tool=_LIST_PROMPTS,
                ),
                status="invalid_argument",
                reason_code="unknown_prompt",
            ) from error
        raise
    messages = [_convert_message(each) for each in prompt.messages]
    content: list[mcp_types.ContentBlock] = [
        each.content for each in prompt.messages if each.content.type != "text"
    ]
    return mcp_types.CallToolResult(content=content, structured_content={"messages": messages})


def _convert_message(message: mcp_types.PromptMessage) -> dict[str, str]:
    content = message.content
    if isinstance(content, mcp_types.TextContent):
        return {"role": message.role, "text": content.text}
    return {"role": message.role, "beside": content.type}


def _listing_tool(name: str, description: str) -> mcp_types.Tool:
    """Return a tool that lists items, one page per call."""
    cursor = {
        "type": "string",
        "description": "Cursor of the next page: `next_cursor` of the previous result.",
    }
    return mcp_types.Tool(
        name=name,
        description=description,
        input_schema={
            "type": "object",
            "properties": {"cursor": cursor},
            "additionalProperties": False,
        },
        annotations=_READS,
    )


def _page_of(
    kind: str,
    items: Sequence[BaseModel],
    page: mcp_types.PaginatedResult,
    fields: set[str],
    **more: Any,
) -> mcp_types.CallToolResult:
    """Return one page of the list, and the cursor of the next one."""
    listed: dict[str, Any] = {kind: _select_fields(items, fields), **more}
    if page.next_cursor is not None:
        listed["next_cursor"] = page.next_cursor
    left_out = len(items) - _MAX_LISTED
    if left_out > 0:
        listed["left_out"] = left_out
    return mcp_types.CallToolResult(content=[], structured_content=listed)


def _select_fields(items: Sequence[BaseModel], fields: set[str]) -> list[dict[str, Any]]:
    """Return the fields that the model needs, for the first 100 items, with short descriptions."""
    selected = [
        each.model_dump(mode="json", by_alias=True, exclude_none=True, include=fields)
        for each in items[:_MAX_LISTED]
    ]
    for each in selected:
        if "description" in each:
            each["description"] = clean(each["description"], _MAX_DESCRIPTION_LENGTH)
    return selected
