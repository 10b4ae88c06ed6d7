"""An MCP server over stdio whose process can be found and killed: `mcp_server.py NAME PID_FILE`."""

import asyncio
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

_, name, pid_file = sys.argv
server = MCPServer(name)


@server.tool(name=f"{name}_echo")
async def echo(conversation: int, number: int, seconds: float) -> int:
    """Says a number after some seconds."""
    await asyncio.sleep(seconds)
    return number


if __name__ == "__main__":
    new = Path(f"{pid_file}.new")
    new.write_text(str(os.getpid()))
    new.replace(pid_file)
    server.run("stdio")
