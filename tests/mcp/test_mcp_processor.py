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
    tool,
)
from leonidas_tools.mcp.servers import MCPServers
from leonidas_tools.settings.models import MCPServerSettings
from tests.mcp.conftest import script
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


async def told(tools, name):
    result = await tools.execute(name)
    return result.status, result.reason_code, result.retryable, result.message


UNKNOWN = ("not_found", "unknown_tool", False)
STARTING = (
    *("unavailable", "mcp_server_down", True),
    "The MCP server 'lab' is not available: it is starting.",
)


async def test_a_tool_that_a_starting_server_may_bring_is_unavailable_and_not_unknown(mark):
    lab = script("bad.py", "never_list", env=mark)
    async with AdvancedToolProcessor(config={"mcp_servers": {"lab": lab}}) as tools:
        assert await told(tools, "good") == STARTING
        answer = (await answers(tools, call_part("good")))["1"]
        assert (answer.response["status"], answer.response["retryable"]) == ("unavailable", True)
        tools.mcp_servers.configure({})
        assert (await told(tools, "good"))[:3] == UNKNOWN


async def test_the_reason_why_a_server_is_not_there_is_reworded(mark):
    settings = {
        "mcp_servers": {"lab": script("bad.py", "never_list", env=mark)},
        "texts": {"mcp_server_down": "{server}: {reason}", "mcp_starting": "one moment"},
    }
    async with AdvancedToolProcessor(config=settings) as tools:
        assert (await told(tools, "good"))[3] == "lab: one moment"


async def test_of_a_starting_server_with_a_prefix_no_other_name_is_expected(mark):
    lab = script("bad.py", "never_list", env=mark, prefix="my", tools={"a": {"name": "own"}})
    async with AdvancedToolProcessor(config={"mcp_servers": {"lab": lab}}) as tools:
        assert await told(tools, "my__good") == await told(tools, "own") == STARTING
        assert (await told(tools, "good"))[:3] == UNKNOWN


async def test_a_server_that_was_used_before_is_expected_to_bring_those_tools_only(mark):
    first = {"mcp_servers": {"lab": script("bad.py", "well", env=mark)}}
    async with AdvancedToolProcessor(config=first) as tools:
        assert await tools.ready(20)
        assert (await told(tools, "nothing"))[:3] == UNKNOWN
    silent = {"mcp_servers": {"lab": script("bad.py", "never_list", env=mark)}}
    tools = AdvancedToolProcessor(config=silent)
    status, *_, message = await told(tools, "fine")
    assert (status, "'lab' is not available: it has not been started" in message) == (
        "unavailable",
        True,
    )
    async with tools:
        assert await told(tools, "fine") == STARTING
        assert (await told(tools, "nothing"))[:3] == UNKNOWN


async def test_no_similar_tool_runs_in_place_of_one_that_a_server_may_bring(mark):
    @tool(effect="read")
    def goods() -> str:
        return "not these"

    lab = script("bad.py", "never_list", env=mark)
    config = {"mcp_servers": {"lab": lab}, "policies": {"similar_tool": "read"}}
    async with AdvancedToolProcessor([goods], config) as tools:
        assert await told(tools, "good") == STARTING
