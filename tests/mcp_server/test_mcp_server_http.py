"""Who may speak to a server over HTTP, and how much."""

import asyncio
import json

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from leonidas_tools import AdvancedToolProcessor, tool
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp_server import HTTPAccess, MCPApp, mcp_app, serve_http
from leonidas_tools.mcp_server.server import ToolServer
from tests.mcp_server.conftest import MODES, SECONDS

TOKEN = "s3cret-token"
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


@tool(effect="read")
def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200),
        ("localhost:{port}", 200),
        ("LOCALHOST", 200),
        ("[::1]:{port}", 200),
        ("tools.example.com", 200),
        ("tools.example.com:8443", 200),
        ("exact.example.com:8443", 200),
        ("exact.example.com", 421),
        ("evil.example.com", 421),
        ("evil.example.com:{port}", 421),
        ("127.0.0.1.evil.example.com", 421),
        ("localhost.evil.example.com:{port}", 421),
        ("evil.example.com@127.0.0.1", 421),
        ("192.0.2.7", 421),
        ("[::1", 421),
        ("", 421),
    ],
)
async def test_a_server_answers_to_its_own_names_only(serve, host, status):
    hosts = ["tools.example.com", "Exact.example.com:8443"]
    serving = await serve(add, token=TOKEN, hosts=hosts)
    port = httpx2.URL(serving.url).port
    authorization = f"Bearer {TOKEN}"
    answer = await serving.post(HELLO, host=host.format(port=port), authorization=authorization)
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:{port}", 200),
        ("https://app.example.com", 200),
        ("https://APP.example.com", 200),
        ("http://app.example.com", 403),
        ("https://app.example.com.evil.com", 403),
        ("https://evil.example.com", 403),
        ("http://localhost:3000", 403),
        ("null", 403),
        ("", 403),
    ],
)
async def test_pages_of_other_origins_may_not_use_it(serve, origin, status):
    serving = await serve(add, origins=["https://app.example.com/"])
    origin = origin.format(port=httpx2.URL(serving.url).port)
    assert (await serving.post(HELLO, origin=origin)).status_code == status


async def test_a_page_that_may_use_it_is_told_so_before_it_shows_the_token(serve):
    serving = await serve(add, token=TOKEN, origins=["https://app.example.com"])
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "x-any"}
    async with httpx2.AsyncClient(timeout=SECONDS) as http:
        allowed, refused = [
            await http.options(serving.url, headers={"origin": origin, **asks})
            for origin in ("https://app.example.com", "https://evil.example.com")
        ]
    assert allowed.headers["access-control-allow-origin"] == "https://app.example.com"
    assert refused.status_code == 403


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x"],
)
async def test_without_the_token_nothing_is_answered(serve, authorization):
    serving = await serve(add, token=TOKEN)
    headers = {} if authorization is None else {"authorization": authorization}
    for body in (HELLO, "garbage"):
        answer = await serving.post(body, **headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert TOKEN not in answer.text


@MODES
async def test_with_the_token_all_is_as_ever(serve, mode):
    serving = await serve(add, token=TOKEN)
    client = await serving.client(mode, headers={"authorization": f"Bearer {TOKEN}"})
    assert (await client.call_tool("add", {"a": 1})).content[0].text == "2"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "tools.example.com"])
async def test_beyond_this_machine_it_is_not_served_without_a_token(host):
    tools = AdvancedToolProcessor(tools=[add])
    with pytest.raises(ConfigurationError, match="only with a token"):
        await serve_http(tools, host=host, port=0)
    with pytest.raises(ConfigurationError, match="only with a token"):
        mcp_app(tools, hosts=["tools.example.com"])
    with pytest.raises(ConfigurationError, match="token is empty"):
        await serve_http(tools, token=" ")


def test_a_server_that_is_reached_by_any_address_answers_to_those_but_to_no_foreign_name():
    access = HTTPAccess(token=TOKEN, any_address=True)
    from starlette.datastructures import Headers

    told = {
        host: access.refusal(Headers({"host": host}))
        for host in ("192.0.2.7:8000", "[2001:db8::1]:8000", "localhost", "evil.example.com")
    }
    assert [host for host, refusal in told.items() if refusal] == ["evil.example.com"]


async def test_a_taken_port_is_named(serve):
    serving = await serve(add)
    port = httpx2.URL(serving.url).port
    with pytest.raises(ConfigurationError, match=f"Cannot listen at 127.0.0.1:{port}"):
        await serve_http(AdvancedToolProcessor(tools=[add]), port=port)


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ("", {}, 400),
        ("garbage", {}, 400),
        (b"\xff\xfe\x00", {}, 400),
        ("[]", {}, 400),
        ("[" * 100_000, {}, 400),
        ("null", {}, 400),
        ('{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}', {}, 400),
        ('{"jsonrpc": "1.0", "id": 1, "method": "initialize"}', {}, 400),
        (HELLO, {"content_type": "text/plain"}, 400),
        (HELLO, {"accept": "text/html"}, 406),
        (HELLO, {"mcp_session_id": "made-up"}, 404),
        (HELLO, {"mcp_protocol_version": "1999-01-01"}, 400),
        ("garbage", {"mcp_protocol_version": "2026-07-28"}, 400),
        ('{"jsonrpc": "2.0", "id": 1}', {"mcp_protocol_version": "2026-07-28"}, 400),
    ],
)
async def test_garbage_is_refused_and_harms_nobody(serve, body, headers, status):
    serving = await serve(add)
    client = await serving.client("legacy")
    assert (await serving.post(body, **headers)).status_code == status
    assert (await client.call_tool("add", {"a": 1})).content[0].text == "2"


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_a_body_of_100_megabytes_is_refused_before_it_is_read(serve, version):
    serving = await serve(add)
    sent = []

    async def body():
        chunk = b" " * 1_000_000
        for _ in range(100):
            sent.append(len(chunk))
            yield chunk

    async with httpx2.AsyncClient(timeout=SECONDS) as http:
        headers = {**HEADERS, "mcp-protocol-version": version}
        declared = {**headers, "content-length": "100000000"}
        refused = await http.post(serving.url, content=b" " * 100_000_000, headers=headers)
        assert refused.status_code == 413
        for chosen in (headers, declared):
            try:
                assert (
                    await http.post(serving.url, content=body(), headers=chosen)
                ).status_code == 413
            except httpx2.TransportError:  # closed while the client was still sending
                assert sum(sent) < 200_000_000
    client = await serving.client()
    assert (await client.call_tool("add", {"a": 1})).content[0].text == "2"


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


@MODES
async def test_a_client_that_leaves_has_its_calls_cancelled(serve, mode):
    begun, stopped = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def look() -> str:
        """Looks for ever."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    serving = await serve(look)
    client = await serving.client(mode)
    looking = asyncio.create_task(client.call_tool("look", {}))
    async with asyncio.timeout(SECONDS):
        await begun.wait()
        await serving.leave(client)
        await stopped.wait()
    await asyncio.wait({looking})


async def test_a_server_that_stops_finds_no_fault_with_a_request_that_is_half_sent(serve, caplog):
    serving = await serve(add)
    url = httpx2.URL(serving.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: {url.host}\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\nContent-Length: 10\r\n"
        "Expect: 100-continue\r\n\r\n"
    )
    writer.write(head.encode())
    async with asyncio.timeout(SECONDS):
        assert b"100" in await reader.readline()  # now it waits for the body
        await serving.stop()
    writer.close()
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


@MODES
async def test_a_server_that_stops_lets_a_call_finish_that_happens_once(serve, mode):
    begun, done = asyncio.Event(), []

    @tool(effect="once")
    async def pay() -> str:
        """Pays."""
        begun.set()
        await asyncio.sleep(0.3)
        done.append("paid")
        return "paid"

    serving = await serve(pay)
    client = await serving.client(mode)
    paying = asyncio.create_task(client.call_tool("pay", {}))
    async with asyncio.timeout(SECONDS):
        await begun.wait()
        await serving.stop()
        assert done == ["paid"]
        await asyncio.wait({paying})


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
