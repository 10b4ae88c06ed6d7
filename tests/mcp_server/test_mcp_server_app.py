"""The tools as an ASGI app: alone or in another, with so many sessions and no more."""

import asyncio
import json

import httpx2
from starlette.applications import Starlette
from starlette.routing import Route

from leonidas_tools import AdvancedToolProcessor
from leonidas_tools.mcp_server import HTTPAccess, MCPApp, mcp_app
from leonidas_tools.mcp_server.server import ToolServer
from tests.mcp_server.conftest import HEADERS, HELLO, SECONDS, add


async def mounted(app, requests):
    """What an app answers, without a network."""
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://localhost", verify=False
    ) as http:
        return [await http.request(**request) for request in requests]


async def test_of_200_sessions_the_newest_stay_and_the_silent_make_room():
    server = ToolServer(AdvancedToolProcessor(tools=[add]))
    hello = {"method": "POST", "url": "/mcp", "content": HELLO, "headers": HEADERS}
    async with MCPApp(server, HTTPAccess(), most_sessions=20) as app:
        answers = await mounted(app, [hello] * 200)
        assert {answer.status_code for answer in answers} == {200}
        leave = {"method": "DELETE", "url": "/mcp"}
        sessions = [{"mcp-session-id": each.headers["mcp-session-id"]} for each in answers]
        left = await mounted(app, [{**leave, "headers": {**HEADERS, **s}} for s in sessions])
        assert [answer.status_code for answer in left] == [404] * 180 + [200] * 20


async def test_a_session_that_is_used_is_not_ended_for_others():
    server = ToolServer(AdvancedToolProcessor(tools=[add]))
    hello = {"method": "POST", "url": "/mcp", "content": HELLO, "headers": HEADERS}
    async with MCPApp(server, HTTPAccess(), most_sessions=3) as app:
        [first] = await mounted(app, [hello])
        used = {**HEADERS, "mcp-session-id": first.headers["mcp-session-id"]}
        ping = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"})
        for _ in range(5):
            requests = [hello, {**hello, "content": ping, "headers": used}, hello]
            assert [each.status_code for each in await mounted(app, requests)] == [200] * 3


async def test_a_session_that_is_silent_too_long_is_forgotten():
    server = ToolServer(AdvancedToolProcessor(tools=[add]))
    hello = {"method": "POST", "url": "/mcp", "content": HELLO, "headers": HEADERS}
    async with MCPApp(server, HTTPAccess(), idle_seconds=0.1) as app:
        [opened] = await mounted(app, [hello])
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        ping = {**hello, "headers": {**HEADERS, **session}}
        status = None
        async with asyncio.timeout(SECONDS):
            while status != 404:
                await asyncio.sleep(0.15)
                status = (await mounted(app, [ping]))[0].status_code


async def test_it_can_be_a_part_of_an_application():
    tools = mcp_app(AdvancedToolProcessor(tools=[add]))
    app = Starlette(routes=[Route("/mcp", tools)], lifespan=lambda _: tools)
    hello = {"method": "POST", "url": "/mcp", "content": HELLO, "headers": HEADERS}
    [before] = await mounted(app, [hello])
    assert before.status_code == 503
    async with app.router.lifespan_context(app):
        [answer] = await mounted(app, [hello])
        assert answer.status_code == 200
    async with app.router.lifespan_context(app):  # and once more
        assert (await mounted(app, [hello]))[0].status_code == 200


async def test_it_can_stand_alone():
    tools = mcp_app(AdvancedToolProcessor(tools=[add]))
    received, sent = asyncio.Queue(), asyncio.Queue()
    living = asyncio.create_task(tools({"type": "lifespan"}, received.get, sent.put))
    async with asyncio.timeout(SECONDS):
        received.put_nowait({"type": "lifespan.startup"})
        assert await sent.get() == {"type": "lifespan.startup.complete"}
        hello = {"method": "POST", "url": "/", "content": HELLO, "headers": HEADERS}
        assert (await mounted(tools, [hello]))[0].status_code == 200
        received.put_nowait({"type": "lifespan.shutdown"})
        assert await sent.get() == {"type": "lifespan.shutdown.complete"}
        await living
