"""Convert the result of an MCP tool to a `ToolResult`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.call import Media, ToolResult
from leonidas_tools.errors import ToolError
from leonidas_tools.results.jsonable import MAX_MEDIA_BYTES
from leonidas_tools.results.texts import MessageText, join, say

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

_SHOWN = ("image/", "audio/")
_MAX_BLOB_LENGTH = 8192


def to_result(answer: CallToolResult, *, note: str | None = None) -> ToolResult:
    """Convert an MCP result.

    The value is the structured content, or else the text. Images and audio become media, up to the
    size limit, and are not repeated in the value. Links and embedded resources are listed under
    `resources`. Data for programs (`_meta`) is dropped. The message of the result is `note`.

    Raises:
        ToolError: An image or audio block cannot be decoded.

    Example:
        >>> from mcp_types import CallToolResult, TextContent
        >>> to_result(CallToolResult(content=[TextContent(text="21 degrees")])).to_response()
        {'status': 'ok', 'result': '21 degrees', 'retryable': False}
    """
    text = _text(answer.content)
    if answer.is_error:
        message = text or say("mcp_failed")
        return ToolResult.failed(message, result=answer.structured_content)
    structured = answer.structured_content
    rest = [block for block in answer.content if block.type != "text"]
    if not rest:
        return ToolResult(result=text if structured is None else structured, message=note)
    media, too_long = _media(rest)
    value = text if structured is None else _remove_data(structured, _data(rest))
    resources = [_resource(each) for each in rest if each.type in {"resource_link", "resource"}]
    return ToolResult(
        result=_add_resources(value, resources), media=media, message=too_long or note
    )


def _text(content: Iterable[ContentBlock]) -> str | None:
    texts = [block.text for block in content if block.type == "text"]
    return "\n".join(texts) if texts else None


def _data(content: Iterable[ContentBlock]) -> frozenset[str]:
    """Return the encoded data of images, audio and embedded resources."""
    blobs = (getattr(getattr(block, "resource", None), "blob", None) for block in content)
    return frozenset([data for _, data in _encoded_media(content)]) | frozenset(filter(None, blobs))


def _remove_data(value: Any, data: frozenset[str]) -> Any:
    """Return structured content without the data that it repeats from other content."""
    if not data:
        return value
    if isinstance(value, Mapping):
        return {
            key: _remove_data(each, data)
            for key, each in value.items()
            if not (isinstance(each, str) and each in data)
        }
    return [_remove_data(each, data) for each in value] if isinstance(value, list) else value


def _add_resources(value: Any, resources: list[dict[str, Any]]) -> Any:
    if not resources:
        return value
    if isinstance(value, Mapping):
        # If a structured result has a field of this name, the field describes the same resources.
        return {"resources": resources, **value}
    return {"resources": resources} if value is None else {"text": value, "resources": resources}


def _resource(block: ContentBlock) -> dict[str, Any]:
    hidden = _hidden_fields(block)
    said = block.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=hidden)
    blob = said.get("resource", {}).get("blob", "")
    if len(blob) > _MAX_BLOB_LENGTH:  # a truncated blob would be useless
        del said["resource"]["blob"]
        said["resource"]["size"] = len(blob) * 3 // 4
    return said


def _hidden_fields(block: ContentBlock) -> dict[str, Any]:
    """Return the fields that the model does not need, or receives as media."""
    hidden: dict[str, Any] = {"meta": True, "annotations": True, "icons": True}
    if block.type == "resource":
        hidden["resource"] = {"meta": True, **({"blob": True} if _is_shown(block) else {})}
    return hidden


def _is_shown(block: ContentBlock) -> bool:
    """Return whether an embedded resource is an image or audio."""
    resource: Any = getattr(block, "resource", None)
    return hasattr(resource, "blob") and (resource.mime_type or "").startswith(_SHOWN)


def _media(content: Iterable[ContentBlock]) -> tuple[tuple[Media, ...], str | None]:
    """Return images and audio up to the size limit, and a message about the others."""
    shown: list[Media] = []
    left_out: list[MessageText] = []
    room = MAX_MEDIA_BYTES
    for mime_type, data in _encoded_media(content):
        if len(data) * 3 // 4 > room:  # decoding it would block the event loop
            left_out.append(say("mcp_media_size", type=mime_type, bytes=f"{len(data) * 3 // 4:,}"))
            continue
        shown.append(_decode_media(mime_type, data))
        room -= len(shown[-1].data)
    if not left_out:
        return tuple(shown), None
    media = join(*left_out, between=", ")
    return tuple(shown), say("mcp_media_too_large", media=media, bytes=f"{MAX_MEDIA_BYTES:,}")


def _encoded_media(content: Iterable[ContentBlock]) -> Iterator[tuple[str, str]]:
    for block in content:
        if block.type in {"image", "audio"}:
            yield block.mime_type, block.data
        elif block.type == "resource" and _is_shown(block):
            resource: Any = block.resource
            yield resource.mime_type, resource.blob


def _decode_media(mime_type: str, data: str) -> Media:
    try:
        return Media(mime_type=mime_type, data=base64.b64decode(data, validate=True))
    except binascii.Error as error:
        raise ToolError(say("mcp_media_unreadable", type=mime_type)) from error
