"""What a server does over HTTP besides answering: it reports, is stopped, and forgets."""

import asyncio

import pytest

from leonidas_tools.errors import ToolError
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
    with pytest.raises(ToolError) as forgotten:
        await server.call("echo", message="hi")
    assert (forgotten.value.status, forgotten.value.retryable) == ("unavailable", True)
    assert "no longer knows the session" in forgotten.value.message
    await server.down()
    await server.back()
    assert (await server.call("echo", message="hi")).result == "Echo: hi"


async def test_a_task_that_the_server_has_forgotten_is_not_started_again(listening, serve):
    process, port = await listening("streamableHttp")
    server = await serve({"url": f"http://127.0.0.1:{port}/mcp"}).ready()
    research = await server.begun("simulate-research-query", topic="Roses")
    process.kill()
    await process.wait()
    await listening("streamableHttp", port)
    with pytest.raises(ToolError) as forgotten:
        await research
    assert (forgotten.value.status, forgotten.value.retryable) == ("unknown_outcome", False)
    assert forgotten.value.reason_code == "mcp_task_lost"
    await server.back()
    assert (await server.call("echo", message="hi")).result == "Echo: hi"
