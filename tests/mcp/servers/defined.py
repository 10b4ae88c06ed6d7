"""A server whose tools are described in a file; `defined.py FILE`.

The file holds a JSON list of tools. A call answers with its arguments as JSON, or with what the
tool has under `_meta.answer`. `announce` says that the list has changed, as often as it is told.
"""

import json
import sys
from pathlib import Path

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from serving import run

bus = InMemorySubscriptionBus()
listings = []
ANNOUNCE = types.Tool(
    name="announce",
    input_schema={"type": "object", "properties": {"times": {"type": "integer"}}},
)


def tools():
    described = json.loads(Path(sys.argv[1]).read_text())
    return [*(types.Tool.model_validate(each) for each in described), ANNOUNCE]


async def list_tools(context, params):
    listings.append(params)
    return types.ListToolsResult(tools=tools())


async def call_tool(context, params):
    arguments = params.arguments or {}
    if params.name == "announce":
        for _ in range(arguments.get("times", 1)):
            await bus.publish(ToolsListChanged())
            await context.session.send_tool_list_changed()
        return types.CallToolResult(content=[types.TextContent(text=str(len(listings)))])
    (called,) = (tool for tool in tools() if tool.name == params.name)
    answer = (called.meta or {}).get("answer")
    if answer is not None:
        return types.CallToolResult.model_validate(answer)
    return types.CallToolResult(content=[types.TextContent(text=json.dumps(arguments))])


if __name__ == "__main__":
    run(
        Server(
            "defined",
            on_list_tools=list_tools,
            on_call_tool=call_tool,
            on_subscriptions_listen=ListenHandler(bus),
        )
    )
