"""A server that prints on standard output what is no message, before it answers and in calls."""

import os

from mcp.server.mcpserver import MCPServer
from serving import read_only, run

out = os.dup(1)  # the transport moves standard output away for itself
server = MCPServer("noisy")


@server.tool(annotations=read_only())
async def chat() -> str:
    """Prints while it works."""
    os.write(out, b'still here\n\xff\xfe\n{"jsonrpc": 1}\n\n')
    return "hello"


if __name__ == "__main__":
    os.write(out, b"Welcome!\n")
    run(server)
