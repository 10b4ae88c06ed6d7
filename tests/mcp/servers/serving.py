"""Runs a server as a script: over stdio, or over HTTP on a port of loopback.

`script.py` speaks over stdio; `script.py http [PORT]` and `script.py sse [PORT]` listen, and print
the port as the first line.
"""

import asyncio
import socket
import sys

import mcp_types
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server


def read_only(**options):
    return mcp_types.ToolAnnotations(read_only_hint=True, **options)


def run(server):
    if len(sys.argv) > 1 and sys.argv[1] in {"http", "sse"}:
        _listen(server)
    else:
        asyncio.run(_speak(server))


async def _speak(server):
    server = server._lowlevel_server if isinstance(server, MCPServer) else server
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _listen(server):
    listening = socket.create_server(
        ("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), backlog=64
    )
    app = server.sse_app() if sys.argv[1] == "sse" else server.streamable_http_app()
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listening])
