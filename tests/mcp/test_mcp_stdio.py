import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from leonidas_tools.calls.call import ToolResult
from leonidas_tools.errors import RetryableError, ToolError
from leonidas_tools.mcp.server import ServerState
from leonidas_tools.tools.tool import ToolCategory, ToolEffect
from tests.mcp.conftest import script
from tests.mcp.forking import forked


def refusal(error):
    return {
        "message": error.message,
        "status": error.status,
        "retryable": error.retryable,
        "reason_code": error.reason_code,
    }


@pytest.mark.slow
async def test_the_tools_of_a_real_server_are_listed_and_called(serve):
    server = await serve(
        {"command": str(Path(sys.executable).with_name("mcp-server-time"))}
    ).ready()
    assert sorted(server.tools) == ["convert_time", "get_current_time"]
    metadata = server.tools["convert_time"].metadata
    assert (metadata.category, metadata.effect) == (ToolCategory.MCP, ToolEffect.READ)
    assert (metadata.lane, metadata.tags) == ("mcp:lab", ("mcp", "lab"))
    arguments = {
        "source_timezone": "Asia/Tokyo",
        "time": "12:00",
        "target_timezone": "Asia/Kolkata",
    }
    result = await server.call("convert_time", **arguments)
    assert result.ok
    assert result.result["time_difference"] == "-3.5h"


async def test_what_a_server_says_of_a_tool_decides_its_effect(serve):
    server = await serve(forked("life.py")).ready()
    effects = {name: server.tools[name].metadata.effect for name in ("add", "die")}
    assert effects == {"add": ToolEffect.READ, "die": ToolEffect.ONCE}


async def test_progress_of_the_server_is_progress_of_the_call(serve):
    server = await serve(forked("life.py")).ready()
    assert (await server.call("steps")).result == {"result": "done"}
    assert [await server.event() for _ in range(3)] == [
        {"message": "one", "fraction": 0.25, "progress": 1.0},
        {"message": "two", "fraction": 0.5, "progress": 2.0},
        {"progress": 3.0},
    ]


async def test_cancelling_a_call_cancels_it_at_the_server_and_nothing_else(serve):
    server = await serve(forked("life.py")).ready()
    waiting = await server.begun("wait")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await server.call("saw_cancellation")).result == {"result": "yes"}


async def test_calls_of_one_server_run_side_by_side(serve):
    server = await serve(forked("life.py")).ready()
    waiting = await server.begun("wait")
    results = await asyncio.gather(*(server.call("add", a=n, b=1) for n in range(20)))
    assert [result.result for result in results] == [{"result": n + 1} for n in range(20)]
    waiting.cancel()


@pytest.mark.slow
async def test_more_calls_than_a_server_reads_at_once_hold_up_none_of_its_answers(serve):
    server = await serve(forked("bad.py", "talkative")).ready()
    text = "as long as it likes " * 100
    results = await asyncio.gather(*(server.call("bad", text=text) for _ in range(500)))
    assert results == [ToolResult(result="fine")] * 500


async def test_a_death_ends_the_running_calls_and_the_server_comes_back(serve):
    server = await serve(script("life.py")).ready()
    first = await server.call("pid")
    waiting = await server.begun("wait")
    with pytest.raises(ToolError) as reading:
        await server.call("die_reading")
    with pytest.raises(ToolError) as writing:
        await waiting
    lost = "The connection to the MCP server 'lab' was lost during the call: exited with code 3."
    assert refusal(reading.value) == {
        "message": lost,
        "status": "unavailable",
        "retryable": True,
        "reason_code": "mcp_server_lost",
    }
    assert refusal(writing.value) == {
        "message": f"{lost} It is not known whether it took effect: do not call it again "
        f"before you have checked.",
        "status": "unknown_outcome",
        "retryable": False,
        "reason_code": "mcp_server_lost",
    }
    await server.down()
    await server.back()
    assert await server.call("pid") != first


async def test_a_server_killed_while_idle_is_found_down_before_the_next_call(serve):
    server = await serve(script("life.py")).ready()
    os.kill(int((await server.call("pid")).result["result"]), signal.SIGKILL)
    assert await server.down() == "The MCP server 'lab' is down: was ended by SIGKILL"
    with pytest.raises(RetryableError) as down:
        await server.call("pid")
    assert refusal(down.value) == {
        "message": "The MCP server 'lab' is not available: was ended by SIGKILL.",
        "status": "unavailable",
        "retryable": True,
        "reason_code": "mcp_server_down",
    }


async def test_stopping_ends_the_running_calls(serve):
    server = await serve(forked("life.py")).ready()
    waiting = await server.begun("wait")
    await server.mcp.stop()
    with pytest.raises(ToolError, match="was lost during the call") as lost:
        await waiting
    assert lost.value.status == "unknown_outcome"
    with pytest.raises(RetryableError, match="it was stopped"):
        await server.call("pid")


async def test_draining_lets_the_running_calls_end_and_refuses_others(serve):
    server = await serve(forked("life.py")).ready()
    waiting = await server.begun("wait")
    stopping = asyncio.create_task(server.mcp.stop(drain=True))
    await server.mcp.wait_for(ServerState.STOPPED)
    with pytest.raises(RetryableError, match="it was stopped"):
        await server.call("pid")
    assert not waiting.done()
    waiting.cancel()
    await stopping


async def test_a_stopped_server_can_be_started_again(serve):
    server = await serve(forked("life.py")).ready()
    await server.mcp.stop()
    server.mcp.start()
    await server.ready()
    assert (await server.call("add", a=1, b=2)).result == {"result": 3}


async def test_a_call_of_a_server_that_hangs_can_be_cancelled_at_once(serve):
    server = await serve(script("life.py")).ready()
    pid = int((await server.call("pid")).result["result"])
    os.kill(pid, signal.SIGSTOP)
    hanging = [asyncio.create_task(server.call("add", a="7" * 200_000, b=1)) for _ in range(9)]
    done, _ = await asyncio.wait(hanging, timeout=0.1)
    assert not done
    for call in hanging:
        call.cancel()
    _, pending = await asyncio.wait(hanging, timeout=1)
    assert not pending
    os.kill(pid, signal.SIGCONT)
    assert (await server.call("add", a=1, b=2)).result == {"result": 3}


async def test_a_server_is_given_its_own_environment_and_not_ours(serve, monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "s3cret")
    server = await serve(script("life.py", env={"CITY": "Lisbon"})).ready()
    given = (await server.call("environment")).result
    assert given["CITY"] == "Lisbon"
    assert "GEMINI_API_KEY" not in given


@pytest.mark.slow
async def test_a_program_that_ends_without_stopping_its_servers_leaves_none(mark):
    program = f"""
import asyncio
from leonidas_tools.mcp.server import MCPServer, ServerState
from leonidas_tools.settings.models import MCPServerSettings

async def main():
    settings = MCPServerSettings(**{forked("life.py", env=mark)!r})
    server = MCPServer("life", settings, print)
    server.start()
    await server.wait_for(ServerState.READY)
    raise SystemExit(7)

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        "-c",
        program,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, errors = await process.communicate()
    assert (process.returncode, errors) == (7, b"")
    assert b"<Tool 'pid'>" in printed


async def test_what_a_server_prints_on_standard_output_harms_nothing(serve, caplog):
    server = await serve(forked("noisy.py")).ready()
    assert await server.call("chat") == ToolResult(result={"result": "hello"})
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == ["The MCP server 'lab' printed invalid output: 'Welcome!'; ignored"]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"command": "no-such-command"}, "the command 'no-such-command' was not found"),
        ({"command": "true", "cwd": "/nowhere"}, "the directory '/nowhere' was not found"),
        (
            {"command": "/etc/passwd"},
            "the command '/etc/passwd' cannot be started: Permission denied",
        ),
        ({"command": "false"}, "exited with code 1"),
        (
            {
                "command": sys.executable,
                "args": ["-c", "import os, sys; sys.exit('no ' + os.environ['KEY'])"],
                "env": {"KEY": "s3cret"},
            },
            "exited with code 1; it last wrote: no ***",
        ),
        (
            {"command": "sh", "args": ["-c", "exec cat >/dev/null"], "timeout": 0.3},
            "no response in time",
        ),
        (
            {"command": "sh", "args": ["-c", "echo Hi; exec cat >/dev/null"], "timeout": 0.3},
            "no response in time; it printed 'Hi', which is not an MCP message",
        ),
    ],
    ids=["command", "directory", "permission", "exit", "stderr", "silence", "garbage"],
)
async def test_a_server_that_does_not_start_says_why(serve, settings, reason):
    error = await serve(settings).down()
    assert error == f"The MCP server 'lab' is down: {reason}"


async def test_the_last_error_is_that_of_the_last_attempt(serve, tmp_path):
    (tmp_path / "start").write_text("exit 3")
    server = serve({"command": "sh", "args": [str(tmp_path / "start")]})
    assert await server.down() == "The MCP server 'lab' is down: exited with code 3"
    (tmp_path / "start").write_text("exit 4")
    async with asyncio.timeout(20):
        while server.mcp.last_error != "The MCP server 'lab' is down: exited with code 4":
            await server.mcp._changed.wait()


@pytest.mark.slow
async def test_a_server_and_its_children_end_even_if_they_refuse_to(serve):
    server = await serve(script("stubborn.py")).ready()
    await server.mcp.stop()


async def test_all_pages_are_listed(serve, tmp_path):
    names = [f"tool_{number:03}" for number in range(500)]
    (tmp_path / "tools").write_text("\n".join(names))
    server = await serve(forked("listing.py", tmp_path / "tools", 64)).ready()
    assert list(server.tools) == names
    assert (await server.call("tool_499")).result == "tool_499"


async def test_a_tool_with_a_broken_schema_is_left_out_with_a_warning(serve, tmp_path, caplog):
    lines = ["good", 'broken {"type": "object", "properties": {"a": {"minLength": -1}}}', "good"]
    (tmp_path / "tools").write_text("\n".join(lines))
    server = await serve(forked("listing.py", tmp_path / "tools")).ready()
    assert list(server.tools) == ["good"]
    assert (await server.call("good")).result == "good"
    warnings = [record.getMessage() for record in caplog.records]
    assert any("the tool 'broken' is left out" in warning for warning in warnings)
    assert "MCP server 'lab' lists 'good' twice; the first is used" in warnings


async def test_a_change_of_the_tools_is_followed_as_the_server_announces_it(serve, tmp_path):
    tools = tmp_path / "tools"
    tools.write_text("announce\nold")
    server = serve(forked("listing.py", tools))
    assert await server.listing() == ["announce", "old"]
    kept = server.tools["announce"]
    tools.write_text("announce\nnew")
    await server.call("announce")
    assert await server.listing() == ["announce", "new"]
    assert server.tools["announce"] is kept


async def test_after_a_reconnection_the_tools_are_listed_again(serve, tmp_path):
    tools = tmp_path / "tools"
    tools.write_text("exit\nold")
    server = serve(forked("listing.py", tools))
    assert await server.listing() == ["exit", "old"]
    tools.write_text("exit\nnew")
    with pytest.raises(ToolError):
        await server.call("exit")
    assert await server.listing() == ["exit", "new"]
