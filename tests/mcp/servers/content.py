"""A server that answers with every kind of content."""

import base64

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from serving import read_only, run

PICTURE = types.ImageContent(data=base64.b64encode(b"pixels").decode(), mime_type="image/png")
LARGE = base64.b64encode(bytes(20_000_000)).decode()
SOUND = types.AudioContent(data=base64.b64encode(b"samples").decode(), mime_type="audio/wav")
LINK = types.ResourceLink(name="log", uri="file:///log.txt", mime_type="text/plain", size=3)
TEXT = types.EmbeddedResource(
    resource=types.TextResourceContents(uri="note://1", text="a note", mime_type="text/plain")
)
BLOB = types.EmbeddedResource(
    resource=types.BlobResourceContents(uri="zip://1", blob="UEs=", mime_type="application/zip")
)
EMBEDDED_PICTURE = types.EmbeddedResource(
    resource=types.BlobResourceContents(
        uri="png://1", blob=base64.b64encode(b"more").decode(), mime_type="image/png"
    )
)


def text(*texts):
    return [types.TextContent(text=one) for one in texts]


ANSWERS = {
    "nothing": types.CallToolResult(content=[]),
    "empty_text": types.CallToolResult(content=text("")),
    "text": types.CallToolResult(content=text("21 degrees")),
    "texts": types.CallToolResult(content=text("one", "two")),
    "structured": types.CallToolResult(
        content=text('{"celsius": 21}'), structured_content={"celsius": 21}
    ),
    "media": types.CallToolResult(content=[*text("see"), PICTURE, SOUND]),
    "resources": types.CallToolResult(content=[*text("see"), LINK, TEXT, BLOB]),
    "only_link": types.CallToolResult(content=[LINK]),
    "structured_with_link": types.CallToolResult(content=[LINK], structured_content={"found": 1}),
    "embedded_picture": types.CallToolResult(content=[EMBEDDED_PICTURE]),
    "error": types.CallToolResult(content=text("The shop is closed."), is_error=True),
    "silent_error": types.CallToolResult(content=[], is_error=True),
    "broken_picture": types.CallToolResult(
        content=[types.ImageContent(data="!", mime_type="image/png")]
    ),
    "large": types.CallToolResult(
        content=[*text("see"), types.ImageContent(data=LARGE, mime_type="image/png"), SOUND]
    ),
    "large_blob": types.CallToolResult(
        content=[
            types.EmbeddedResource(
                resource=types.BlobResourceContents(
                    uri="zip://2", blob=LARGE, mime_type="application/zip"
                )
            )
        ]
    ),
    "for_programs": types.CallToolResult(
        content=[
            types.TextContent(text="see", _meta={"secret": 1}),
            types.ResourceLink(name="log", uri="file:///log.txt", _meta={"secret": 1}),
            types.EmbeddedResource(
                resource=types.TextResourceContents(uri="n://1", text="n", _meta={"secret": 1}),
                _meta={"secret": 1},
            ),
        ],
        _meta={"secret": 1},
    ),
    "many": types.CallToolResult(content=text(*["x"] * 500)),
    "unstructured": types.CallToolResult(content=text("21")),
    "malformed_once": types.CallToolResult(content=[], structured_content={"celsius": "warm"}),
    "failed_unstructured": types.CallToolResult(content=text("Closed."), is_error=True),
    "malformed": types.CallToolResult(content=[], structured_content={"celsius": "warm"}),
    "refusal": None,
}
CHECKED = {"malformed", "malformed_once", "unstructured", "failed_unstructured"}
CELSIUS = {"type": "object", "properties": {"celsius": {"type": "integer"}}}


async def list_tools(context, params):
    return types.ListToolsResult(
        tools=[
            types.Tool(
                name=name,
                input_schema={"type": "object"},
                output_schema=CELSIUS if name in CHECKED else None,
                annotations=None if name == "malformed_once" else read_only(),
            )
            for name in ANSWERS
        ]
    )


async def call_tool(context, params):
    answer = ANSWERS[params.name]
    if answer is None:
        raise MCPError(code=types.INVALID_PARAMS, message="Not on a Sunday.")
    return answer


if __name__ == "__main__":
    run(Server("content", on_list_tools=list_tools, on_call_tool=call_tool))
