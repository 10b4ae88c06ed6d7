"""The tools that the conformance suite calls by their names."""

import asyncio
import base64

from leonidas_tools import ToolContext, ToolError, ToolResult, tool
from leonidas_tools.calls.call import Media
from leonidas_tools.tools.tool import Tool

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
WAV = b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0@\x1f\0\0@\x1f\0\0\1\0\x08\0data\0\0\0\0"


@tool(effect="read")
def test_simple_text() -> str:
    """Says something."""
    return "This is a simple text response for testing."


@tool(effect="read")
def test_image_content() -> ToolResult:
    """Shows a picture."""
    return ToolResult(media=[Media(mime_type="image/png", data=PNG)])


@tool(effect="read")
def test_audio_content() -> ToolResult:
    """Makes a sound."""
    return ToolResult(media=[Media(mime_type="audio/wav", data=WAV)])


@tool(effect="read")
def test_embedded_resource() -> dict:
    """Gives a resource."""
    return {"resources": [_resource("test://embedded-resource", "text/plain", "This is embedded.")]}


@tool(effect="read")
def test_multiple_content_types() -> ToolResult:
    """Gives some of everything."""
    resource = _resource("test://mixed-content-resource", "application/json", '{"test": "data"}')
    return ToolResult(
        result={"text": "Multiple content types test:", "resources": [resource]},
        media=[Media(mime_type="image/png", data=PNG)],
    )


@tool(effect="read")
async def test_tool_with_progress(ctx: ToolContext) -> str:
    """Tells how far it is."""
    for fraction in (0.0, 0.5, 1.0):
        ctx.progress(fraction=fraction)
        await asyncio.sleep(0.05)
    return "done"


@tool(effect="read")
def test_error_handling() -> str:
    """Fails."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool(effect="once", requires_approval=True)
def test_elicitation(message: str) -> str:
    """Does what a person has to allow.

    Args:
        message: What to ask.
    """
    return f"allowed: {message}"


@tool(effect="read")
async def test_reconnection() -> str:
    """Takes a moment."""
    await asyncio.sleep(0.2)
    return "still here"


def _named(**arguments):
    return arguments


json_schema_2020_12_tool = Tool.from_json_schema(
    name="json_schema_2020_12_tool",
    description="Tool with JSON Schema 2020-12 features",
    parameters={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "additionalProperties": False,
    },
    function=_named,
)


def _resource(uri, mime_type, text):
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}
