"""The tools of an MCP server stand beside your own, under the same policies.

Run it: `python examples/mcp_server.py`
"""

import asyncio
import sys

from leonidas_tools import AdvancedToolProcessor, tool

SETTINGS = {
    "mcp_servers": {
        # Installed with Leonidas. Any command works, or `url` for a server over HTTP.
        "time": {"command": sys.executable, "args": ["-P", "-m", "mcp_server_time"]},
        "missing": {"command": "no-such-program"},  # harms no other server
    },
}


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


async def main() -> None:
    async with AdvancedToolProcessor(tools=[add], config=SETTINGS, builtin_tools=False) as tools:
        # Start-up waits for no server; this waits until each has said what it has, or 10 s.
        await tools.ready(timeout_seconds=10)
        print("tools:", sorted(each.name for each in tools.offered()))
        for name, arguments in (
            ("add", {"a": 1, "b": 2}),
            ("get_current_time", {"timezone": "Asia/Tokyo"}),
            ("get_current_time", {"timezone": "Atlantis"}),
        ):
            result = await tools.execute(name, arguments)
            print(name, result.status.value, result.result or result.message)


if __name__ == "__main__":
    asyncio.run(main())
