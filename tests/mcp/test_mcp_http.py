import asyncio
import socket

import pytest

from leonidas_tools.errors import RetryableError, ToolError
from tests.tasks import other_tasks
from tests.turns import answering, parsed_in_a_turn

TRANSPORTS = pytest.mark.parametrize("transport", ["http", "sse"])


@TRANSPORTS
async def test_tools_are_listed_called_and_report(serve, listen, transport):
    server = await serve(listen("life.py", transport).settings).ready()
    assert (await server.call("add", a=1, b=2)).result == {"result": 3}
    assert (await server.call("steps")).result == {"result": "done"}
    assert (await server.event())["message"] == "one"


@TRANSPORTS
async def test_cancelling_a_call_cancels_it_at_the_server(serve, listen, transport):
    server = await serve(listen("life.py", transport).settings).ready()
    waiting = await server.begun("wait")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await server.call("saw_cancellation")).result == {"result": "yes"}


@TRANSPORTS
async def test_a_death_ends_the_running_calls_and_the_server_is_found_again(
    serve, listen, transport
):
    listening = listen("life.py", transport)
    server = await serve(listening.settings).ready()
    waiting = await server.begun("wait")
    listening.kill()
    with pytest.raises(ToolError) as lost:
        await waiting
    assert (lost.value.status, lost.value.retryable) == ("unknown_outcome", False)
    assert "The MCP server 'lab' is down: " in await server.down()
    with pytest.raises(RetryableError, match="is not available") as down:
        await server.call("add", a=1, b=2)
    assert down.value.status == "unavailable"
    listening.start(listening.port)
    await server.back()
    assert (await server.call("add", a=1, b=2)).result == {"result": 3}


@TRANSPORTS
async def test_a_death_during_a_read_can_be_tried_again(serve, listen, transport):
    server = await serve(listen("life.py", transport).settings).ready()
    with pytest.raises(ToolError) as lost:
        await server.call("die_reading")
    assert (lost.value.status, lost.value.retryable) == ("unavailable", True)


@pytest.mark.parametrize("turns", range(6))
async def test_a_server_that_is_lost_while_it_is_stopped_leaves_no_task(serve, listen, turns):
    before = other_tasks()
    server = await serve(listen("life.py", "http").settings).ready()
    with pytest.raises(ToolError):
        await server.call("die_reading")
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await server.mcp.stop()
    assert other_tasks() == before


async def test_a_server_restarted_between_calls_loses_none(serve, listen):
    listening = listen("life.py", "http")
    server = await serve(listening.settings).ready()
    first = await server.call("pid")
    listening.restart()
    assert await server.call("pid") != first


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        ("401 Unauthorized", "; it rejected the token"),
        (
            "404 Not Found",
            "; is the path of the url right, such as /mcp, or /sse for transport 'sse'?",
        ),
        ("502 Bad Gateway", ""),
    ],
)
@pytest.mark.parametrize("path", ["mcp", "sse"])
async def test_a_server_that_refuses_says_why_and_shows_no_secret(serve, status, hint, path):
    requests = []

    async def refuse(reader, writer):
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 6\r\n\r\ns3cret".encode())
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as front:
        port = front.sockets[0].getsockname()[1]
        settings = {
            "url": f"http://127.0.0.1:{port}/{path}?key=s3cret",
            "headers": {"Authorization": "Bearer s3cret"},
        }
        server = serve(settings)
        assert await server.down() == (
            f"The MCP server 'lab' is down: HTTP {status} at http://127.0.0.1:{port}/{path}{hint}"
        )
        await server.mcp.stop()
    assert all(b"authorization: bearer s3cret" in request.lower() for request in requests)


@TRANSPORTS
async def test_a_closed_port_is_a_refused_connection(serve, transport):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = serve({"url": f"http://127.0.0.1:{port}/", "transport": transport})
    assert await server.down() == (
        f"The MCP server 'lab' is down: connection refused at http://127.0.0.1:{port}/"
    )


@TRANSPORTS
async def test_a_server_that_accepts_and_never_answers_is_given_up(serve, transport):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        server = serve({"url": f"http://127.0.0.1:{port}/", "transport": transport, "timeout": 0.3})
        assert await server.down() == (
            f"The MCP server 'lab' is down: no response in time at http://127.0.0.1:{port}/"
        )


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"1\r\n:\r\n" * 10_000 + b"0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 3_000 + HEAD + b"0\r\n\r\n",
    ],
    ids=["chunks", "informational responses"],
)
@TRANSPORTS
async def test_a_response_of_tiny_parts_leaves_the_event_loop_its_turns(
    serve, monkeypatch, data, transport
):
    async with answering(data) as port, parsed_in_a_turn(monkeypatch) as counts:
        server = serve({"url": f"http://127.0.0.1:{port}/", "transport": transport, "timeout": 2})
        await server.down()
        await server.mcp.stop()
    assert counts.total() > 1_000
    assert max(counts.values()) < 1_000
