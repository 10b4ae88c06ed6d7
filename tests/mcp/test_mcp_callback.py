"""The port that a browser comes back to, while others hold connections to it open."""

import asyncio
import contextlib

import httpx2
import pytest

from leonidas_tools.mcp.auth.callback import Callback

SECONDS = 30


@pytest.mark.parametrize("said", [b"", b"GET", b"GET /callback HTTP/1.1\r\nX: " + b"a" * 20_000])
async def test_idle_connections_do_not_keep_the_browser_out(said):
    async with Callback(0) as callback:
        callback.expect("https://login.example/?state=s")
        port, idle = httpx2.URL(callback.url).port, []
        for _ in range(200):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            idle.append(writer)
        async with httpx2.AsyncClient(timeout=SECONDS) as http:
            answer = await http.get(callback.url, params={"state": "s", "code": "c"})
        assert answer.status_code == 200
        assert (await callback.result(SECONDS)).code == "c"
        assert len(callback._open) <= 65
        for writer in idle:
            writer.transport.abort()


@pytest.mark.parametrize(
    "said", [b"\r\n\r\n", b"GET\r\n\r\n", b"GET \xff\r\n\r\n", b"\x00 \x00 \r\n\r\n"]
)
async def test_an_invalid_request_is_closed_and_harms_no_other(said):
    async with Callback(0) as callback:
        reader, writer = await asyncio.open_connection("127.0.0.1", httpx2.URL(callback.url).port)
        writer.write(said)
        async with asyncio.timeout(SECONDS):
            with contextlib.suppress(ConnectionError):
                await reader.read()
        writer.transport.abort()
