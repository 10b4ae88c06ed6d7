"""The tools as an ASGI app: alone or in another, with so many sessions and no more."""

import asyncio

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
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        return [await http.request(**request) for request in requests]


async def test_of_1000_sessions_only_so_many_are_opened_and_room_is_made_again():
    server = ToolServer(AdvancedToolProcessor(tools=[add]))
    hello = {"method": "POST", "url": "/mcp", "content": HELLO, "headers": HEADERS}
    async with MCPApp(server, HTTPAccess(), most_sessions=20) as app:
        answers = await mounted(app, [hello] * 1000)
        statuses = [answer.status_code for answer in answers]
        assert (statuses.count(200), statuses.count(503)) == (20, 980)
        session = {"mcp-session-id": answers[0].headers["mcp-session-id"]}
        leave = {"method": "DELETE", "url": "/mcp", "headers": {**HEADERS, **session}}
        left, again = await mounted(app, [leave, hello])
        assert (left.status_code, again.status_code) == (200, 200)


async def test_a_session_that_is_silent_too_long_is_forgotten():
    server = ToolServer(AdvancedToolProcessor(tools=[add]))
    hello = {"method": "POST", "url": "/mcp", "content": HELLO, "headers": HEADERS}
    async with MCPApp(server, HTTPAccess(), most_sessions=1, idle_seconds=0.1) as app:
        async with asyncio.timeout(SECONDS):
            await mounted(app, [hello])
            while (await mounted(app, [hello]))[0].status_code != 200:
                await asyncio.sleep(0.05)


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
