"""Clients that hold connections open without a token keep nobody else out."""

import asyncio
import contextlib

import httpx2
import pytest

from leonidas_tools.mcp_server import connections
from tests.mcp_server.conftest import HEADERS, HELLO, SECONDS, add

pytestmark = pytest.mark.slow

TOKEN = {"authorization": "Bearer s3cret"}
CONNECTIONS = 1100
LINES = "a:\r\n" * 10_000


class Idle:
    """Raw connections to a server, closed at the end."""

    def __init__(self, url):
        self.host, self.port = httpx2.URL(url).host, httpx2.URL(url).port
        self.open = []

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        for _, writer in self.open:
            writer.transport.abort()

    async def connect(self, said=b""):
        reader, writer = await asyncio.open_connection(self.host, self.port)
        self.open.append((reader, writer))
        writer.write(said)
        return reader, writer


BEGINNINGS = {
    "nothing": b"",
    "a byte": b"P",
    "half a head": b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ",
    "no token": b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999999\r\n\r\nx",
    "wrong token": b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer x\r\n"
    b"Content-Length: 999999\r\n\r\nx",
    "chunked": b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n",
    "expect": b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\n"
    b"Content-Length: 9\r\n\r\n",
    "other path": b"GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n",
    "pipelined": b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 3 + b"GET",
}


async def is_served(url):
    async with httpx2.AsyncClient(timeout=SECONDS) as http:
        return (await http.post(url, headers=TOKEN, content="garbage")).status_code != 503


@pytest.mark.parametrize("name", BEGINNINGS)
async def test_connections_without_a_request_keep_no_client_out(serve, name):
    serving = await serve(add, token="s3cret")
    async with Idle(serving.url) as idle:
        for _ in range(CONNECTIONS):
            await idle.connect(BEGINNINGS[name])
        assert await is_served(serving.url)
        client = await serving.client("legacy", TOKEN)
        assert (await client.call_tool("add", {"a": 1})).content[0].text == "2"


@pytest.mark.parametrize("name", BEGINNINGS)
async def test_a_head_that_does_not_come_ends_the_connection(serve, name, monkeypatch):
    monkeypatch.setattr(connections, "_CLIENT_SECONDS", 0.05)
    serving = await serve(add, token="s3cret")
    async with Idle(serving.url) as idle:
        reader, _ = await idle.connect(BEGINNINGS[name])
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(SECONDS):
                await reader.read()


async def test_a_head_that_comes_byte_by_byte_ends_all_the_same(serve, monkeypatch):
    monkeypatch.setattr(connections, "_CLIENT_SECONDS", 0.2)
    serving = await serve(add, token="s3cret")
    async with Idle(serving.url) as idle, asyncio.timeout(SECONDS):
        reader, writer = await idle.connect(b"GET /mcp HTTP/1.1\r\nX: ")
        ended = asyncio.ensure_future(reader.read())
        while not ended.done():
            writer.write(b"a")
            await asyncio.wait({ended}, timeout=0.02)


async def test_long_chunks_are_read_however_they_are_cut(serve):
    serving = await serve(add, token="s3cret")
    head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
    head += b"Authorization: Bearer s3cret\r\nConnection: close\r\n\r\n"
    chunk = b"258\r\n" + b" " * 600 + b"\r\n"
    async with Idle(serving.url) as idle, asyncio.timeout(SECONDS):
        reader, _ = await idle.connect(head + chunk * 6500 + b"0\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 4")


async def test_a_connection_takes_any_number_of_short_requests(serve):
    serving = await serve(add, token="s3cret")
    request = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n"
    last = request + b"Connection: close\r\n\r\n{}"
    async with Idle(serving.url) as idle, asyncio.timeout(SECONDS):
        reader, _ = await idle.connect((request + b"\r\n{}") * 1500 + last)
        assert (await reader.read()).count(b"HTTP/1.1 401 ") == 1501


async def test_a_huge_head_is_refused(serve):
    serving = await serve(add, token="s3cret")
    async with Idle(serving.url) as idle, asyncio.timeout(SECONDS):
        reader, _ = await idle.connect(b"GET /mcp HTTP/1.1\r\nX: " + b"a" * 200_000)
        try:
            answer = await reader.read()
        except ConnectionError:
            return
        assert answer.split(b"\r\n")[0] in {b"", b"HTTP/1.1 400 Bad Request"}


async def test_a_head_of_very_many_lines_that_comes_at_once_is_refused(serve):
    serving = await serve(add, token="s3cret")
    async with Idle(serving.url) as idle, asyncio.timeout(SECONDS):
        reader, _ = await idle.connect(f"GET /mcp HTTP/1.1\r\nHost: x\r\n{LINES}\r\n".encode())
        assert (await reader.readline()).rstrip() == b"HTTP/1.1 400 Bad Request"


async def test_a_call_outlives_a_crowd_that_waits(serve):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def look() -> str:
        """Looks for long."""
        begun.set()
        await go_on.wait()
        return "seen"

    serving = await serve(look, token="s3cret")
    client = await serving.client("legacy", TOKEN)
    call = asyncio.ensure_future(client.call_tool("look", {}))
    async with asyncio.timeout(SECONDS):
        await begun.wait()
    async with Idle(serving.url) as idle:
        for _ in range(CONNECTIONS):
            await idle.connect()
        go_on.set()
        assert (await call).content[0].text == "seen"


async def test_silent_sessions_keep_no_client_out(serve):
    serving = await serve(add, token="s3cret")
    kept = await serving.client("legacy", TOKEN)
    async with httpx2.AsyncClient(timeout=SECONDS, headers=HEADERS | TOKEN) as http:
        for _ in range(300):
            assert (await http.post(serving.url, content=HELLO)).status_code == 200
    client = await serving.client("legacy", TOKEN)
    for each in (client, kept):  # the older one holds its stream open
        assert (await each.call_tool("add", {"a": 1})).content[0].text == "2"
