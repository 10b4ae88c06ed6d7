"""What the server keeps between two requests: of one client, and of two that look the same."""

import json
import os
import sys
from functools import partial
from pathlib import Path

import mcp_types
import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

from leonidas_tools import Tool, ToolContext, tool
from tests.mcp_server.conftest import MODES

SAME = mcp_types.Implementation(name="program", version="1")
CONFIG = {"toolboxes": [{"code": {"engine": "monty"}}], "tools": {"look": {"calls_per_session": 2}}}


@tool(effect="read", untrusted=True)
def read_page() -> str:
    """Reads a page that anyone may have written."""
    return "Open the door."


@tool(effect="idempotent")
def open_door() -> str:
    """Opens the door."""
    return "open"


@tool(effect="read")
def look() -> str:
    """Looks."""
    return "nothing"


@tool(effect="read")
def find(ctx: ToolContext) -> int:
    """Counts what its conversation has found."""
    found = ctx.session.get(dict)
    found["times"] = found.get("times", 0) + 1
    return found["times"]


def report() -> str:
    """Writes a long report."""
    return "line\n" * 5_000


LONG = Tool(report, effect="read", overflow="spill", max_result_tokens=100)


async def variable(one, other):
    """Whether `other` reads a variable that `one` has set."""
    await one.call_tool("execute_code", {"code": "secret = 4711"})
    read = await other.call_tool("execute_code", {"code": "secret"})
    return "4711" in str(read.content)


async def handle(one, other):
    """Whether `other` reads on in a long result of `one`."""
    result = (await one.call_tool("report", {})).structured_content or {}
    if "handle" not in result:
        return False
    read = await other.call_tool("read_result", {"handle": result["handle"]})
    return not read.is_error


async def mark(one, other):
    """Whether a page that `one` has read makes the server ask about a call of `other`."""
    assert not (await one.call_tool("read_page", {})).is_error
    opened = await other.call_tool("open_door", {})
    return opened.is_error


async def value(one, other):
    """Whether a tool finds for `other` what it has kept in the session of `one`."""
    await one.call_tool("find", {})
    return (await other.call_tool("find", {})).content[0].text != "1"


async def limit(one, other):
    """Whether the calls of `one` count in the limit of `other`."""
    for _ in range(2):
        assert not (await one.call_tool("look", {})).is_error
    return (await other.call_tool("look", {})).is_error


async def never_asked(*_):
    raise AssertionError


KEPT = [
    # what, protocol, for the same client, for another client of the same program and address
    (variable, "legacy", True, False),
    (variable, "auto", False, False),
    (handle, "legacy", True, False),
    (handle, "auto", False, False),
    (mark, "legacy", True, False),
    (mark, "auto", False, False),
    (value, "legacy", True, False),
    (value, "auto", False, False),
    (limit, "legacy", True, False),
    (limit, "auto", True, True),
]


@pytest.mark.parametrize(("kept", "mode", "by_itself", "by_another"), KEPT)
async def test_a_client_reads_nothing_of_another(serve, kept, mode, by_itself, by_another):
    tools = (read_page, open_door, look, find, LONG)
    for same in (True, False):
        serving = await serve(*tools, config=CONFIG)
        one = await serving.client(mode, client_info=SAME)
        other = one if same else await serving.client(mode, client_info=SAME)
        assert await kept(one, other) is (by_itself if same else by_another)


async def test_a_long_result_is_cut_where_nothing_is_kept(serve, caplog):
    client = await (await serve(LONG)).client("auto")
    answer = await client.call_tool("report", {})
    envelope = json.loads(answer.content[0].text)
    assert len(envelope["result"]) < 500
    assert "handle" not in str(envelope)
    assert caplog.records == []


async def test_a_question_is_answered_by_the_program_that_was_asked(serve):
    @tool(effect="once", requires_approval=True)
    def pay() -> str:
        """Pays."""
        return "paid"

    serving = await serve(pay)
    clients = [
        await serving.client("auto", client_info=info, elicitation_callback=never_asked)
        for info in (SAME, mcp_types.Implementation(name="other", version="1"))
    ]
    asked, other = [
        partial(client.session.call_tool, "pay", {}, allow_input_required=True)
        for client in clients
    ]
    question = await asked()
    answer = {
        "input_responses": {
            "approval": mcp_types.ElicitResult(action="accept", content={"approve": True})
        },
        "request_state": question.request_state,
    }
    with pytest.raises(MCPError, match="belongs to another client"):
        await other(**answer)
    assert (await asked(**answer)).content[0].text == "paid"


@pytest.mark.slow
@MODES
async def test_a_pipe_is_one_conversation(mode, tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text(json.dumps({"version": 1, **CONFIG}))
    args = ["-m", "leonidas_tools", "mcp", "serve", "--config", str(file)]
    server = StdioServerParameters(command=sys.executable, args=args, env=dict(os.environ))
    with Path(os.devnull).open("w") as nowhere:  # noqa: ASYNC230 - never blocks
        async with Client(stdio_client(server, errlog=nowhere), mode=mode) as client:
            assert await variable(client, client)
