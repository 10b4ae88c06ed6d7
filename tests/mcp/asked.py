"""A person that a server asks, as a test has them answer."""

import asyncio
import json

from leonidas_tools import AdvancedToolProcessor, ToolSession
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.transcript import Transcript
from tests.mcp.forking import forked


async def call(tools, name, /, **arguments):
    async with asyncio.timeout(60):
        return await tools.execute(name, arguments)


def answering(*decisions):
    """A channel that answers so, one after another, and what it was asked."""
    asked, left = [], list(decisions)

    async def person(request):
        asked.append(request)
        return left.pop(0)

    return person, asked


ASKED = "The server 'lab' asks: Which size? (Size: S, M, L; Count?)"
SCHEMA = {
    "type": "object",
    "properties": {
        "size": {"title": "Size", "type": "string", "enum": ["S", "M", "L"]},
        "count": {"title": "Count", "type": "integer", "default": 1},
    },
    "required": ["size"],
    "additionalProperties": False,
}


class Person:
    """A channel: somebody who answers as the test says; what was asked is kept."""

    def __init__(self, *decisions):
        self.asked = []
        self.decisions = list(decisions)

    async def __call__(self, request):
        self.asked.append(request)
        if not self.decisions:
            await asyncio.Event().wait()
        return self.decisions.pop(0)


class Lab:
    """A chain with one server that asks, and one conversation."""

    def __init__(self, server="asking.py", *, policies=None, env=None, **options):
        settings = forked(server, env=env or {}, **options.pop("settings", {}))
        config = {
            "mcp_servers": {"lab": settings},
            "policies": {"risky": "allow", **(policies or {})},
        }
        self.tools = AdvancedToolProcessor(config=config, builtin_tools=False, **options)
        self.events = []
        self.tools.monitor.subscribe(self.events.append)
        self.session = ToolSession("lab")
        self.desk = self.session.get(Approvals)
        self.transcript = self.session.get(Transcript)

    async def __aenter__(self):
        await self.tools.__aenter__()
        assert await self.tools.ready(60), self.tools.mcp_servers.status()
        return self

    async def __aexit__(self, *error):
        await self.tools.__aexit__(*error)

    async def call(self, name, /, **arguments):
        async with asyncio.timeout(60):
            return await self.tools.execute(name, arguments, session=self.session)

    def start(self, name, /, **arguments):
        return asyncio.create_task(self.call(name, **arguments))

    async def until(self, count):
        """Waits until so many questions are open, and returns them."""
        changed = asyncio.Event()
        unsubscribe = self.desk.on_change(changed.set)
        async with asyncio.timeout(60):
            while len(self.desk.pending()) != count:
                changed.clear()
                await changed.wait()
        unsubscribe()
        return self.desk.pending()

    def hear(self, words):
        """The model puts the question, and the user answers it."""
        asked = self.desk.pending()
        self.transcript.model_spoke(asked[0].title if asked else "What can I do?")
        self.transcript.turn_ended()
        self.transcript.user_said(words)
        self.transcript.turn_ended()

    async def late_result(self, cause):
        """What has become of a call, told after `cause` was called."""
        told = asyncio.get_running_loop().create_future()
        unsubscribe = self.desk.on_result(lambda call, result: told.set_result((call, result)))
        cause()
        async with asyncio.timeout(60):
            call, result = await told
        unsubscribe()
        return call.name, result


def said(result):
    """What the server has made of the answer; as text, where it says nothing else."""
    value = result.result
    if isinstance(value, dict) and "tool" in value:
        value = value["result"]
    if isinstance(value, dict) and value.keys() == {"result"}:
        value = value["result"]
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else value
