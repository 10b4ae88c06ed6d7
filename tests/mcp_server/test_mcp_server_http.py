"""What a server over HTTP takes: garbage, endless bodies, clients that leave, its end."""

import asyncio
import json

import httpx2
import pytest

from leonidas_tools import AdvancedToolProcessor, tool
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp_server import serve_http
from tests.mcp_server.conftest import HEADERS, HELLO, MODES, SECONDS, add


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
        ("[" + "[]," * 200_000 + "0]", {}, 413),
        ("[" + "[]," * 200_000 + "0]", {"mcp_protocol_version": "2026-07-28"}, 413),
        ('"' + '\\"' * 50_000 + "," * 300_000, {}, 400),
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
async def test_garbage_is_refused_and_harms_no_other_client(serve, body, headers, status):
    serving = await serve(add)
    client = await serving.client("legacy")
    assert (await serving.post(body, **headers)).status_code == status
    assert (await client.call_tool("add", {"a": 1})).content[0].text == "2"


@pytest.mark.slow
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


async def test_of_bodies_that_do_not_end_the_longest_is_given_up_and_no_short_one_of_others(serve):
    serving = await serve(add)
    url = httpx2.URL(serving.url)
    length = 4 * 1024 * 1024
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: {url.host}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nContent-Length: {length}\r\n\r\n"
    )
    short = await asyncio.open_connection(url.host, url.port)
    short[1].write(head.replace(str(length), "1000").encode() + b" " * 999)
    opened = []
    for _ in range(18):
        opened.append(await asyncio.open_connection(url.host, url.port))
        opened[-1][1].write(head.encode() + b" " * (length - 1))
        await opened[-1][1].drain()
    async with asyncio.timeout(SECONDS / 2):  # less than a body may take
        assert b" 408 " in await opened[0][0].readline()
    client = await serving.client("legacy")
    assert (await client.call_tool("add", {"a": 1})).content[0].text == "2"
    for reader, writer in (opened[-1], short):  # the newest may end, and the short one
        writer.write(b" ")
        assert b" 400 " in await reader.readline()
    for _, writer in (*opened, short):
        writer.transport.abort()


async def test_a_body_that_ends_early_finds_no_fault(serve, caplog):
    serving = await serve(add)
    url = httpx2.URL(serving.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(
        f"POST /mcp HTTP/1.1\r\nHost: {url.host}\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\nContent-Length: 10\r\n\r\n{".encode()
    )
    writer.write_eof()
    async with asyncio.timeout(SECONDS):
        await reader.read()
    writer.close()
    client = await serving.client("legacy")
    assert (await client.call_tool("add", {"a": 1})).content[0].text == "2"
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


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

    @tool(effect="once", requires_approval=False)
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


@pytest.mark.parametrize("first_is", ["heard", "left"])
async def test_a_call_whose_request_id_is_in_use_is_refused_and_does_not_run(serve, first_is):
    paid, begun, may_end = [], asyncio.Event(), asyncio.Event()

    @tool(effect="once", requires_approval=False)
    async def pay(number: int) -> str:
        """Pays."""
        begun.set()
        await may_end.wait()
        paid.append(number)
        return f"paid {number}"

    serving = await serve(pay)
    opened = await serving.post(HELLO)
    session = {"mcp_session_id": opened.headers["mcp-session-id"]}
    await serving.post('{"jsonrpc": "2.0", "method": "notifications/initialized"}', **session)

    async def call(identifier, number):
        params = {"name": "pay", "arguments": {"number": number}}
        request = {"jsonrpc": "2.0", "id": identifier, "method": "tools/call", "params": params}
        return await serving.post(json.dumps(request), **session)

    async with asyncio.timeout(SECONDS):
        first = asyncio.create_task(call(7, 1))
        await begun.wait()
        if first_is == "left":
            first.cancel()
            await asyncio.wait({first})
        for again in (7, "7"):
            refused = await call(again, 2)
            assert (refused.status_code, refused.json()["id"]) == (409, again)
        may_end.set()
        if first_is == "heard":
            assert "paid 1" in (await first).text
        assert "paid 3" in (await call(8, 3)).text
    assert paid == [1, 3]
