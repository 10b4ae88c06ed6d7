import asyncio
import subprocess
import sys

import pytest
from genai_processors import content_api, streams

from leonidas_tools import (
    AdvancedToolProcessor,
    ConfigurationProcessor,
    MCPToolProcessor,
    PythonFunctionProcessor,
    ToolRegistry,
    ToolRegistryProcessor,
)
from leonidas_tools.mcp.servers import MCPServers
from leonidas_tools.settings.models import MCPServerSettings
from tests.mcp.forking import forked


def call_part(name, call_id="1", **arguments):
    return content_api.ProcessorPart.from_function_call(
        name=name, args=arguments, metadata={"id": call_id}
    )


async def answers(stage, *parts):
    """The answers a stage gives, by call id."""
    found = {}
    async with asyncio.timeout(30):
        async for part in stage(streams.stream_content(parts)):
            response = part.part.function_response
            if response is not None:
                assert response.id not in found
                found[response.id] = response
    return found


@pytest.fixture
def life(mark):
    return forked("life.py", env=mark)


async def test_it_works_alone(life):
    async with MCPToolProcessor({"life": life}) as mcp:
        assert await mcp.ready(20)
        assert "add" in [tool.name for tool in mcp.tools]
        part = call_part("add", a=1, b=2)
        assert mcp.match(part)
        assert not mcp.match(call_part("unknown"))
        found = await answers(mcp.to_processor(), part)
    assert {call_id: answer.response for call_id, answer in found.items()} == {
        "1": {"status": "ok", "result": {"result": 3}, "retryable": False}
    }


async def test_it_shares_a_registry_in_a_chain(life):
    def double(n: int) -> int:
        return 2 * n

    registry = ToolRegistry([double])
    servers = MCPServers(registry, {"life": MCPServerSettings(**life)})
    chain = (
        ToolRegistryProcessor(registry)
        + ConfigurationProcessor()
        + (PythonFunctionProcessor() // MCPToolProcessor(servers))
    )
    async with servers:
        assert await servers.ready(20)
        found = await answers(chain, call_part("add", "1", a=1, b=2), call_part("double", "2", n=4))
    assert {call_id: answer.response["result"] for call_id, answer in found.items()} == {
        "1": {"result": 3},
        "2": 8,
    }


async def test_the_settings_bring_servers_and_a_death_is_answered_once(life):
    tools = AdvancedToolProcessor(config={"mcp_servers": {"life": life}}, builtin_tools=False)
    async with tools:
        assert await tools.ready(20)
        declared = tools.declarations()[0].function_declarations
        assert "add" in [declaration.name for declaration in declared]
        found = await answers(tools, call_part("die", "1"), call_part("wait", "2"))
        assert {call_id: answer.response["status"] for call_id, answer in found.items()} == {
            "1": "unknown_outcome",
            "2": "unavailable",
        }


async def test_settings_of_a_tool_reach_it(life):
    life = {**life, "tools": {"wait": {"timeout": 0.2, "effect": "read", "retry_attempts": 0}}}
    tools = AdvancedToolProcessor(config={"mcp_servers": {"life": life}}, builtin_tools=False)
    async with tools:
        assert await tools.ready(20)
        assert (await tools.execute("wait")).status == "timeout"
        assert (await tools.execute("saw_cancellation")).result == {"result": "yes"}


async def test_pictures_go_beside_the_json(mark):
    servers = {"content": forked("content.py", env=mark)}
    async with MCPToolProcessor(servers) as mcp:
        assert await mcp.ready(20)
        found = await answers(mcp.to_processor(), call_part("media"))
    blobs = [item.inline_data for item in found["1"].parts]
    assert [(blob.mime_type, blob.data) for blob in blobs] == [
        ("image/png", b"pixels"),
        ("audio/wav", b"samples"),
    ]


def test_importing_the_library_imports_no_mcp():
    code = (
        "import sys, leonidas_tools; "
        "print([name for name in ('mcp', 'mcp_types') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"
