"""`ToolResult` → what an MCP client is answered."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp_types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    ImageContent,
    TextContent,
)
from pydantic import TypeAdapter, ValidationError

if TYPE_CHECKING:
    from leonidas_tools.calls.call import Media, ToolResult

_PLAIN = {"status", "result", "retryable"}
_RESOURCES = "resources"


def to_answer(result: ToolResult) -> CallToolResult:
    """Turn a result into an answer.

    A result that says nothing beside what the tool returned is just that, as text, and as
    structured content unless it is a text. Else the text is the envelope that a model reads, with
    its status and message. Links and embedded resources, as results of MCP servers have them under
    `resources`, are content of their own.

    Example:
        >>> from leonidas_tools.calls.call import ToolResult
        >>> answer = to_answer(ToolResult(result={"celsius": 21}))
        >>> answer.content[0].text, answer.structured_content, answer.is_error
        ('{"celsius": 21}', {'celsius': 21}, False)
    """
    envelope = result.to_response()
    media = [_shown(one) for one in result.media]
    if not result.ok:
        return CallToolResult(content=[_text(envelope), *media], is_error=True)
    value, resources = _without_resources(result.result)
    if resources and "result" in envelope:
        envelope["result"] = value
    plain = envelope.keys() <= _PLAIN and envelope["status"] == "ok"
    content = [*media, *resources]
    if not plain or value is not None or not content:
        content.insert(0, _text(value if plain else envelope))
    return CallToolResult(content=content, structured_content=_structured(value))


def _structured(value: Any) -> dict[str, Any] | None:
    if isinstance(value, Mapping):
        return dict(value)
    return None if value is None or isinstance(value, str) else {"result": value}


def _text(value: Any) -> TextContent:
    if value is None:
        return TextContent(text="")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return TextContent(text=text)


def _shown(media: Media) -> ContentBlock:
    kind = AudioContent if media.mime_type.startswith("audio/") else ImageContent
    return kind(data=base64.b64encode(media.data).decode(), mime_type=media.mime_type)


def _without_resources(value: Any) -> tuple[Any, list[ContentBlock]]:
    """Split a value into the rest and its resources."""
    if not isinstance(value, Mapping) or not isinstance(value.get(_RESOURCES), list):
        return value, []
    adapter: TypeAdapter[list[ContentBlock]] = TypeAdapter(list[ContentBlock])
    try:
        resources = adapter.validate_python(value[_RESOURCES], by_name=False)
    except ValidationError:
        return value, []
    if any(block.type not in {"resource", "resource_link"} for block in resources):
        return value, []
    rest = {key: left for key, left in value.items() if key != _RESOURCES}
    if rest.keys() == {"text"}:
        return rest["text"], resources
    return rest or None, resources
