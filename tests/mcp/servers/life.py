"""A server whose calls last, report, are cancelled, and end it."""

import asyncio
import os

from mcp.server.mcpserver import Context, MCPServer
from serving import read_only, run

server = MCPServer("life")
cancelled = asyncio.Event()


@server.tool(annotations=read_only())
async def pid() -> str:
    """The server's process."""
    return str(os.getpid())


@server.tool(annotations=read_only())
async def environment() -> dict[str, str]:
    """What the server was given."""
    return dict(os.environ)


@server.tool(annotations=read_only())
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
async def wait(ctx: Context) -> str:
    """Never answers."""
    await ctx.report_progress(0, message="waiting")
    try:
        await asyncio.Event().wait()
    finally:
        cancelled.set()
    return "never"


@server.tool(annotations=read_only())
async def saw_cancellation() -> str:
    """Answers once a call was cancelled."""
    await cancelled.wait()
    return "yes"


@server.tool(annotations=read_only())
async def steps(ctx: Context) -> str:
    """Reports three steps."""
    await ctx.report_progress(1, 4, "one")
    await ctx.report_progress(2, 4, "two")
    await ctx.report_progress(3)
    return "done"


async def _die(ctx: Context) -> str:
    await ctx.report_progress(0, message="dying")
    os._exit(3)


server.add_tool(_die, name="die", description="Ends the server.")
server.add_tool(_die, name="die_reading", annotations=read_only())

if __name__ == "__main__":
    run(server)
