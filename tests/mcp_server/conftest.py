"""Real clients of the official SDK, and a server of ours in the same loop."""

import asyncio
import json
from contextlib import AsyncExitStack

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from leonidas_tools import AdvancedToolProcessor, tool
from leonidas_tools.mcp_server import serve_http

SECONDS = 30
HELLO = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        },
    }
)
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
MODES = pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.slow)])


@tool(effect="read")
def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


class Serving:
    """A server under test, and the clients that are connected to it."""

    def __init__(self, stack):
        self._stack = stack
        self.tools = None
        self.url = None
        self.task = None
        self._leaving = {}

    async def start(self, *tools, config=None, **options):
        self.tools = AdvancedToolProcessor(tools=tools, config=config)
        address = asyncio.get_running_loop().create_future()
        serving = serve_http(self.tools, port=0, on_listening=address.set_result, **options)
        self.task = asyncio.create_task(serving)
        self._stack.push_async_callback(self.stop)
        await asyncio.wait(
            {address, self.task}, return_when=asyncio.FIRST_COMPLETED, timeout=SECONDS
        )
        self.url = address.result()
        return self

    async def stop(self):
        self.task.cancel()
        await asyncio.wait({self.task})

    async def client(self, mode="auto", headers=None, **options):
        connected, done = asyncio.get_running_loop().create_future(), asyncio.Event()

        async def hold():  # in one task from start to end, as the client wants it
            async with httpx2.AsyncClient(headers=headers, verify=False, timeout=SECONDS) as http:
                transport = streamable_http_client(self.url, http_client=http)
                async with Client(transport, mode=mode, cache=None, **options) as client:
                    connected.set_result(client)
                    await done.wait()

        async def leave():
            done.set()
            await asyncio.wait({task})
            task.exception()  # a client that loses its server says so; nobody else is to hear it

        self._leaving[connected] = leave

        task = asyncio.create_task(hold())
        self._stack.push_async_callback(leave)
        await asyncio.wait({connected, task}, return_when=asyncio.FIRST_COMPLETED, timeout=SECONDS)
        return connected.result() if connected.done() else task.result()

    async def leave(self, client):
        """Closes a client's connection."""
        for connected, leave in self._leaving.items():
            if connected.result() is client:
                await leave()

    async def post(self, body, **headers):
        """One raw request."""
        async with httpx2.AsyncClient(verify=False, timeout=SECONDS) as http:
            more = {name.replace("_", "-"): value for name, value in headers.items()}
            return await http.post(self.url, content=body, headers=HEADERS | more)


@pytest.fixture
async def serve():
    """Starts a server under test: `await serve(tool, …, config=…)`."""
    async with AsyncExitStack() as stack:

        async def start(*tools, **options):
            return await Serving(stack).start(*tools, **options)

        yield start
