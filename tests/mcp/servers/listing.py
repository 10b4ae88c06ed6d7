"""A server that lists the tools named in a file, in pages; `listing.py FILE [PAGE_SIZE]`.

A line of the file is a tool: its name, and behind a space its input schema.
"""

import json
import os
import sys
from pathlib import Path

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from serving import run

page_size = int(sys.argv[2]) if len(sys.argv) > 2 else 100
bus = InMemorySubscriptionBus()


def tools():
    for line in Path(sys.argv[1]).read_text().splitlines():
        name, _, schema = line.partition(" ")
        yield types.Tool(name=name, input_schema=json.loads(schema or '{"type": "object"}'))


async def list_tools(context, params):
    start = int(params.cursor) if params and params.cursor else 0
    every = list(tools())
    end = start + page_size
    more = str(end) if end < len(every) else None
    return types.ListToolsResult(tools=every[start:end], next_cursor=more)


async def call_tool(context, params):
    if params.name == "exit":
        os._exit(0)
    if params.name == "announce":
        await bus.publish(ToolsListChanged())
        await context.session.send_tool_list_changed()
    return types.CallToolResult(content=[types.TextContent(text=params.name)])


if __name__ == "__main__":
    run(
        Server(
            "listing",
            on_list_tools=list_tools,
            on_call_tool=call_tool,
            on_subscriptions_listen=ListenHandler(bus),
        )
    )
