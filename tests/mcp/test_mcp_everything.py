"""Against the server that the makers of MCP test clients with."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from leonidas_tools.errors import ToolError
from tests.mcp.conftest import SCRIPTS

PACKAGE = "@modelcontextprotocol/server-everything"
VERSION = "2026.8.31"
CACHE = Path(__file__).parents[2] / ".cache" / "node"

pytestmark = [
    pytest.mark.skipif(
        shutil.which("npm") is None and "CI" not in os.environ,
        reason="Node and npm are not installed",
    ),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="session")
def everything():
    """The server's script, installed once into a folder that git ignores."""
    installed = CACHE / "node_modules" / PACKAGE
    if not (installed / "package.json").exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(CACHE)]
        subprocess.run([*command, f"{PACKAGE}@{VERSION}"], check=True, capture_output=True)
    return str(installed / "dist" / "index.js")


@pytest.fixture
async def listening(everything, mark):
    """Starts the server over HTTP: `await listening("sse")` gives its process and port."""
    started = []

    async def start(mode, port=0):
        process = await asyncio.create_subprocess_exec(
            "node",
            f"--require={SCRIPTS / 'loopback.cjs'}",
            everything,
            mode,
            env={**os.environ, **mark, "PORT": str(port)},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        started.append(process)
        async with asyncio.timeout(60):
            async for line in process.stderr:
                if line.startswith(b"LISTENING "):
                    return process, int(line.split()[1])
        raise AssertionError("the server has ended")

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.fixture(params=["stdio", "http", "sse"])
async def server(request, everything, listening, serve):
    if request.param == "stdio":
        return await serve({"command": "node", "args": [everything, "stdio"]}).ready()
    mode, path = {"http": ("streamableHttp", "mcp"), "sse": ("sse", "sse")}[request.param]
    _, port = await listening(mode)
    return await serve({"url": f"http://127.0.0.1:{port}/{path}"}).ready()


async def test_its_tools_answer(server):
    assert {"echo", "get-sum", "get-tiny-image", "get-annotated-message"} <= server.tools.keys()
    assert (await server.call("echo", message="hi")).result == "Echo: hi"
    assert (await server.call("get-sum", a=2, b=3)).result == "The sum of 2 and 3 is 5."
    weather = await server.call("get-structured-content", location="New York")
    assert weather.result.keys() == {"temperature", "conditions", "humidity"}
    picture = await server.call("get-tiny-image")
    assert [(one.mime_type, one.data[:4]) for one in picture.media] == [("image/png", b"\x89PNG")]
    links = await server.call("get-resource-links", count=2)
    assert [link["type"] for link in links.result["resources"]] == ["resource_link"] * 2
    embedded = await server.call("get-resource-reference", resourceType="Text", resourceId=1)
    assert embedded.result["resources"][0]["resource"]["mimeType"] == "text/plain"


async def test_its_refusal_is_a_failure_with_its_own_words(server):
    refused = await server.call("get-sum", a="two", b=3)
    assert refused.status == "failed"
    assert "Input validation error" in refused.message


async def test_a_long_call_reports_and_can_be_cancelled(server):
    operation = await server.begun("trigger-long-running-operation", duration=60, steps=600)
    operation.cancel()
    with pytest.raises(asyncio.CancelledError):
        await operation
    assert (await server.call("echo", message="still here")).result == "Echo: still here"


async def test_a_session_the_server_has_forgotten_is_opened_anew(listening, serve):
    process, port = await listening("streamableHttp")
    server = await serve({"url": f"http://127.0.0.1:{port}/mcp"}).ready()
    process.kill()
    await process.wait()
    await listening("streamableHttp", port)
    with pytest.raises(ToolError) as forgotten:
        await server.call("echo", message="hi")
    assert (forgotten.value.status, forgotten.value.retryable) == ("unavailable", True)
    assert "has forgotten the session" in forgotten.value.message
    await server.down()
    await server.back()
    assert (await server.call("echo", message="hi")).result == "Echo: hi"
