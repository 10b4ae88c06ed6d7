import asyncio
import contextlib
import os
import sys
import uuid
from pathlib import Path

import pytest

from leonidas_tools import AdvancedToolProcessor
from leonidas_tools.calls.call import ToolCall
from leonidas_tools.calls.context import ToolContext
from leonidas_tools.mcp.server import MCPServer, ServerState
from leonidas_tools.settings.models import MCPServerSettings, ToolConfiguration
from tests.mcp.bench import Bench
from tests.mcp.forking import SCRIPTS, started

MARK = "LEONIDAS_TEST_MARK"


def script(name, *args, **settings):
    """The settings of a server that is one of our scripts."""
    return {"command": sys.executable, "args": [str(SCRIPTS / name), *map(str, args)], **settings}


@pytest.fixture(autouse=True)
def _forked_servers(forking):
    """Servers can be forked."""


class RunningServer:
    """One server under test, the tools it has listed, and the events its calls have sent."""

    def __init__(self, settings, name="lab"):
        self.tools = {}
        self.events = asyncio.Queue()
        self._listings = asyncio.Queue()
        self.mcp = MCPServer(name, MCPServerSettings(**settings), self._listed)

    def _listed(self, tools):
        self.tools = {tool.name: tool for tool in tools}
        self._listings.put_nowait(sorted(self.tools))

    async def listing(self):
        """The names of the next listing."""
        async with asyncio.timeout(20):
            return await self._listings.get()

    async def ready(self):
        async with asyncio.timeout(20):
            state = await self.mcp.wait_for(ServerState.READY, ServerState.DOWN)
        assert state is ServerState.READY, self.mcp.last_error
        return self

    async def standby(self):
        async with asyncio.timeout(20):
            state = await self.mcp.wait_for(ServerState.STANDBY, ServerState.DOWN)
        assert state is ServerState.STANDBY, self.mcp.last_error
        return self

    async def back(self):
        async with asyncio.timeout(20):
            await self.mcp.wait_for(ServerState.READY)
        return self

    async def down(self):
        async with asyncio.timeout(20):
            await self.mcp.wait_for(ServerState.DOWN)
        return self.mcp.last_error

    async def pinged(self):
        """Waits until it has answered a ping."""
        async with asyncio.timeout(20):
            while "last_ping_seconds" not in self.mcp.status():
                await asyncio.sleep(0.01)

    async def call(self, tool, *, seconds=None, **arguments):
        tool = self.tools[tool]
        settings = None if seconds is None else ToolConfiguration(timeout=seconds)
        call = ToolCall(name=tool.name, arguments=arguments, tool=tool, settings=settings)
        context = ToolContext(call, self.events.put_nowait)
        async with asyncio.timeout(20):
            return await tool.function(context, **arguments)

    async def event(self):
        async with asyncio.timeout(20):
            return (await self.events.get()).data

    async def begun(self, tool, **arguments):
        """A call whose first progress has arrived."""
        task = asyncio.create_task(self.call(tool, **arguments))
        await self.event()
        return task


@pytest.fixture
def mark():
    """An environment by which the processes of a test are known; none is left after it."""
    value = uuid.uuid4().hex
    yield {MARK: value}
    assert marked(value) == []


def marked(value):
    """The command lines of the processes with this mark in their environment."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={value}".encode() in (directory / "environ").read_bytes():
                found.append((directory / "cmdline").read_bytes())
    return found


@pytest.fixture
async def serve(mark):
    """Starts a server under test: `await serve(settings)`; ends it after the test."""
    running = []

    def start(settings, **options):
        if "command" in settings:
            settings = {**settings, "env": {**settings.get("env", {}), **mark}}
        server = RunningServer(settings, **options)
        running.append(server)
        server.mcp.start()
        return server

    yield start
    for server in running:
        await server.mcp.stop()


class Listening:
    """A script that serves HTTP on loopback, in a process of its own."""

    def __init__(self, name, transport, env, args=(), port=0):
        self._name = name
        self._args = args
        self._env = {**os.environ, **env}
        self.transport = transport
        self.start(port)

    def start(self, port=0):
        self._process = started(self._name, self.transport, port, *self._args, env=self._env)
        self.port = int(self._process.stdout.readline())

    def signal(self, number):
        self._process.send_signal(number)

    def kill(self):
        self._process.kill()

    def restart(self):
        self.kill()
        self.start(self.port)

    @property
    def settings(self):
        path = "sse" if self.transport == "sse" else "mcp"
        return {"url": f"http://127.0.0.1:{self.port}/{path}"}


@pytest.fixture
def listen(mark):
    """Starts a script that listens: `listen("life.py", "http")`; kills it after the test."""
    listening = []

    def start(name, transport, *args):
        listening.append(Listening(name, transport, mark, args))
        return listening[-1]

    yield start
    for server in listening:
        server.kill()


@pytest.fixture
async def chain(mark):
    """Makes a chain with one server: `await chain(settings)`; ends it after the test."""
    running = []

    async def start(settings, **options):
        settings = {**settings, "env": {**settings.get("env", {}), **mark}}
        unasked = {"policies": {"risky": "allow"}}
        config = {"mcp_servers": {"lab": settings}, **unasked, **options.pop("config", {})}
        tools = AdvancedToolProcessor(config=config, builtin_tools=False, **options)
        running.append(tools)
        await tools.__aenter__()
        assert await tools.ready(60), tools.mcp_servers.status()
        return tools

    yield start
    for tools in running:
        await tools.__aexit__(None, None, None)


@pytest.fixture
def bench(tmp_path, mark):
    """Servers whose tools the test describes."""
    return Bench(tmp_path, mark)


@pytest.fixture
async def lab(mark):
    """Makes chains: `await lab(…)`; ends them after the test."""
    open_labs = []

    async def start(*args, **options):
        from tests.mcp.asked import Lab  # it imports this module

        made = await Lab(*args, env=mark, **options).__aenter__()
        open_labs.append(made)
        return made

    yield start
    for each in open_labs:
        await each.__aexit__(None, None, None)
