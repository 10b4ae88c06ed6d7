"""Many servers at once, and a server of many tools."""

import asyncio
import os
from pathlib import Path

import pytest

from leonidas_tools import AdvancedToolProcessor
from leonidas_tools.mcp.server import ServerState
from tests.mcp.conftest import script
from tests.tasks import other_tasks

pytestmark = pytest.mark.slow


def children():
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


async def test_fifty_servers_start_answer_and_leave_nothing(mark):
    tasks, running = other_tasks(), children()
    servers = {f"s{number}": script("bad.py", "none", env=mark) for number in range(50)}
    for settings in servers.values():
        settings["timeout"] = 60
    tools = AdvancedToolProcessor(config={"mcp_servers": servers}, builtin_tools=False)
    async with tools:
        assert await tools.ready(90), tools.mcp_servers.status()
        pids = [tool.name for tool in tools.registry if tool.name.endswith("pid")]
        answers = await asyncio.gather(*(tools.execute(name) for name in pids))
        assert len({answer.result for answer in answers}) == 50
        said = {str(server["pid"]) for server in tools.mcp_servers.status()}
        assert said == {answer.result for answer in answers}
    assert other_tasks() == tasks
    assert children() <= running


async def test_ten_thousand_tools_are_listed_and_can_be_called(serve):
    server = serve(script("bad.py", "many", max_tools="off", timeout=90))
    async with asyncio.timeout(90):
        await server.mcp.wait_for(ServerState.READY)
    assert len(server.tools) == 10_003
    assert (await server.call("tool_9999")).result == "fine"


@pytest.mark.parametrize(("asked", "most"), [({"max_tools": 100}, 100), ({}, 10_000)])
async def test_no_more_tools_are_taken_than_asked_for(serve, caplog, asked, most):
    server = serve(script("bad.py", "many", timeout=90, **asked))
    async with asyncio.timeout(90):
        await server.mcp.wait_for(ServerState.READY)
    assert len(server.tools) == most
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [
        f"MCP server 'lab' has 10003 tools, of which the first {most} are used: see its max_tools"
    ]
