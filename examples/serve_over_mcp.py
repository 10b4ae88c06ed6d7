"""Your tools as an MCP server, over HTTP, with their policies. An MCP client calls them.

From the command line: `leonidas mcp serve --config tools.yaml`, with `--http` for HTTP.
Run it: `python examples/serve_over_mcp.py`
"""

import asyncio
from contextlib import suppress

from mcp import Client

from leonidas_tools import AdvancedToolProcessor, tool
from leonidas_tools.mcp_server import serve_http


@tool(effect="read")
async def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"It is sunny in {city}."


@tool
def delete_everything() -> str:
    """Deletes everything."""
    return "gone"


async def main() -> None:
    settings = {"policies": {"rules": [{"name": "never", "tools": "delete_*", "decide": "deny"}]}}
    tools = AdvancedToolProcessor(
        tools=[get_weather, delete_everything], config=settings, builtin_tools=False
    )
    loop = asyncio.get_running_loop()
    address: asyncio.Future[str] = loop.create_future()
    serving = asyncio.create_task(serve_http(tools, port=0, on_listening=address.set_result))
    try:
        async with Client(await address) as client:
            listed = await client.list_tools()
            print("listed:", [each.name for each in listed.tools])
            for arguments in ({"city": "Porto"}, {"town": "Porto"}):
                answer = await client.call_tool("get_weather", arguments)
                print("answer:", "error" if answer.is_error else "ok", answer.content)
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


if __name__ == "__main__":
    asyncio.run(main())
