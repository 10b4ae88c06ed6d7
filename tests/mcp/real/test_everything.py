"""What a server does over HTTP besides answering: it reports, is stopped, and forgets."""

import asyncio

import pytest

from tests.mcp.real.conftest import LISTENING
from tests.mcp.real.everything import everything

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(params=["everything", *LISTENING])
async def server(request, place, over_http, serve):
    stdio = request.param == "everything"
    settings = everything(place).settings if stdio else await over_http(request.param)
    return await serve(settings).ready()


async def test_a_long_call_reports_and_can_be_cancelled(server):
    operation = await server.begun("trigger-long-running-operation", duration=60, steps=600)
    operation.cancel()
    with pytest.raises(asyncio.CancelledError):
        await operation
    assert (await server.call("echo", message="still here")).result == "Echo: still here"


async def test_a_session_the_server_has_forgotten_is_opened_again(listening, serve):
    process, port = await listening("streamableHttp")
    server = await serve({"url": f"http://127.0.0.1:{port}/mcp"}).ready()
    process.kill()
    await process.wait()
    await listening("streamableHttp", port)
    assert (await server.call("echo", message="hi")).result == "Echo: hi"
