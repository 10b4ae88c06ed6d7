"""A client by the SDK of 2025, which runs in that SDK's own environment; prints what it has seen.

Its arguments are a JSON of the server (`command` and `args`, or `url` and `headers`) and a folder.
"""

import asyncio
import json
import sys
from pathlib import Path

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.exceptions import McpError


async def exists(path):
    while not path.exists():
        await asyncio.sleep(0.02)


def told(result):
    return {"error": result.isError, "text": result.content[0].text}


async def called(session, name, arguments):
    try:
        return told(await session.call_tool(name, arguments))
    except McpError as error:
        return {"code": error.error.code}


async def cancelled(session, folder):
    """Whether a call stops once it is cancelled, and whether the next is answered."""
    begun, stopped = folder / "begun", folder / "stopped"
    request_id = session._request_id
    looking = asyncio.create_task(
        session.call_tool("look", {"begun": str(begun), "stopped": str(stopped)})
    )
    await exists(begun)
    params = types.CancelledNotificationParams(requestId=request_id, reason="no more")
    notification = types.CancelledNotification(method="notifications/cancelled", params=params)
    await session.send_notification(types.ClientNotification(notification))
    await exists(stopped)
    looking.cancel()
    await asyncio.wait({looking})
    return await called(session, "add", {"a": 2, "b": 3})


async def use(read, write, folder):
    progress = []

    async def on_progress(done, total, message):
        progress.append([done, total, message])

    async with ClientSession(read, write) as session:
        hello = await session.initialize()
        tools = (await session.list_tools()).tools
        structured = await session.call_tool("add", {"a": 1, "b": 2}, progress_callback=on_progress)
        seen = {
            "protocol": hello.protocolVersion,
            "tools": {tool.name: tool.annotations.readOnlyHint for tool in tools},
            "add": told(structured),
            "progress": progress,
            "structured": structured.structuredContent,
            "wrong": await called(session, "add", {"a": "one"}),
            "failed": await called(session, "fail", {}),
            "unknown": await called(session, "nothing", {}),
            "after the cancelled": await cancelled(session, folder),
        }
        print(json.dumps(seen))


async def main():
    server, folder = json.loads(sys.argv[1]), Path(sys.argv[2])
    if "url" in server:
        async with streamablehttp_client(server["url"], headers=server["headers"]) as streams:
            await use(streams[0], streams[1], folder)
    else:
        async with stdio_client(StdioServerParameters(**server)) as streams:
            await use(*streams, folder)


asyncio.run(asyncio.wait_for(main(), 120))
