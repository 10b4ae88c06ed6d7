"""MCP servers whose tools a test describes, and all that is made of them."""

import asyncio
import json

from leonidas_tools import AdvancedToolProcessor
from tests.mcp.forking import forked


def described(name, description="Does it.", **more):
    """A tool as a server lists it."""
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **more}


class Bench:
    """Tools of servers that each list what a file says."""

    def __init__(self, directory, mark):
        self.tools = None
        self._directory = directory
        self._mark = mark
        self._servers = {}

    def server(self, name, *tools, **settings):
        """A server of the settings; it lists these tools."""
        self.lists(name, *tools)
        self._servers[name] = forked("defined.py", self._path(name), env=self._mark, **settings)
        return self

    def lists(self, name, *tools):
        """What a server lists from now on."""
        described_tools = [described(each) if isinstance(each, str) else each for each in tools]
        part = self._path(name).with_suffix(".part")
        part.write_text(json.dumps(described_tools))
        part.replace(self._path(name))

    @property
    def settings(self):
        return {"mcp_servers": dict(self._servers)}

    def processor(self, **more):
        """All tools of the servers; they are not there before they are waited for."""
        self.tools = AdvancedToolProcessor(
            config={"policies": {"risky": "allow"}, **self.settings, **more}, builtin_tools=False
        )
        return self.tools

    async def ready(self):
        assert await self.tools.ready(30), self.tools.mcp_servers.status()

    async def until(self, holds):
        """Waits until something holds, and looks at it after each change of the tools."""
        changed = asyncio.Event()
        stop = self.tools.registry.on_change(changed.set)
        try:
            async with asyncio.timeout(60):
                while not holds():
                    changed.clear()
                    await changed.wait()
        finally:
            stop()

    def names(self):
        """What tools of servers are called here, but those by which tests tell them something."""
        names = [tool.name for tool in self.tools.registry if tool.origin is not None]
        return sorted(name for name in names if "announce" not in name)

    def declared(self):
        """What the model reads, by name."""
        declarations = self.tools.declarations()
        functions = declarations[0].function_declarations if declarations else []
        return {function.name: function for function in functions}

    async def call(self, name, **arguments):
        """A call that has ended; the JSON of what it has answered, if it went well."""
        async with asyncio.timeout(60):
            result = await self.tools.execute(name, arguments)
        return json.loads(result.result) if result.ok and result.result else result

    def status(self, server):
        """How a server does."""
        (status,) = (s for s in self.tools.mcp_servers.status() if s["name"] == server)
        return status

    def _path(self, name):
        return self._directory / f"{name}.json"
