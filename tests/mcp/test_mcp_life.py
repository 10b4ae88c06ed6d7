"""How a server is found to hang or to live, comes back, and ends with whoever started it."""

import asyncio
import os
import signal
import sys

import pytest

from leonidas_tools import AdvancedToolProcessor
from leonidas_tools.errors import ToolError
from leonidas_tools.mcp.connection.health import HealthCheck
from leonidas_tools.mcp.connection.reconnect import delay_seconds
from leonidas_tools.mcp.transport.process import Watchdog
from tests.mcp.conftest import MARK, SCRIPTS, marked, script
from tests.mcp.forking import forked

QUICK = {"ping_every": 0.2, "timeout": 2.0}
"""So that a server that hangs is found soon; one that lives has two seconds to answer."""

PATIENT = {"ping_every": 0.05, "timeout": 20.0}


async def test_a_silent_server_is_asked_and_one_that_answers_stays(serve):
    server = await serve(forked("life.py", **PATIENT)).ready()
    first = await server.call("pid")
    await server.pinged()
    assert await server.call("pid") == first


async def test_a_silent_server_of_the_older_protocol_is_asked_too(serve):
    server = await serve(script("bad.py", "none", **PATIENT)).ready()
    await server.pinged()
    assert server.mcp.status()["state"] == "ready"


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_silent_server_over_http_is_asked_and_stays(serve, listen, transport):
    server = await serve({**listen("life.py", transport).settings, **PATIENT}).ready()
    first = await server.call("pid")
    await server.pinged()
    assert await server.call("pid") == first


@pytest.mark.slow
async def test_a_server_that_hangs_is_found_down_and_comes_back(serve):
    server = await serve(script("bad.py", "none", **QUICK)).back()
    pid = await server.call("pid")
    os.kill(int(pid.result), signal.SIGSTOP)
    assert await server.down() == "The MCP server 'lab' is down: no response to a ping within 2 s"
    await server.back()
    assert await server.call("pid") != pid


async def test_a_server_over_http_that_hangs_is_found_down_and_comes_back(serve, listen):
    listening = listen("bad.py", "json", "none")
    server = await serve({**listening.settings, **QUICK}).back()
    listening.signal(signal.SIGSTOP)
    assert "no response to a ping within 2 s" in await server.down()
    listening.signal(signal.SIGCONT)
    await server.back()
    assert (await server.call("good")).result == "fine"


async def test_a_server_that_hangs_during_a_call_is_found_down_when_the_call_had_its_time(serve):
    server = await serve(script("bad.py", "never", **QUICK)).back()
    with pytest.raises(ToolError) as lost:
        await server.call("bad", seconds=0.5)
    assert lost.value.message == (
        "The connection to the MCP server 'lab' was lost during the call: no response to a ping "
        "within 2 s. It is not known whether it took effect: do not call it again before you have "
        "checked."
    )


async def test_a_server_that_asks_without_end_and_reads_no_answer_is_found_down(serve):
    server = await serve(script("bad.py", "ask_without_end", **QUICK)).back()
    with pytest.raises(ToolError, match="no response to a ping within 2 s"):
        await server.call("bad", seconds=0.5)


async def test_a_server_that_computes_in_silence_is_left_alone_for_as_long_as_its_call_may_take(
    serve,
):
    server = await serve(script("bad.py", "slow", **QUICK)).back()
    assert (await server.call("bad", seconds=30)).result == "fine"
    assert (await server.call("pid")).result == (await server.call("pid")).result


async def test_a_server_that_lists_nothing_beside_a_call_keeps_the_call(serve):
    server = await serve(script("bad.py", "slow_changing", timeout=2.0)).back()
    assert (await server.call("bad", seconds=30)).result == "fine"


async def test_any_sound_of_a_server_says_that_it_lives():
    asked = asyncio.Event()

    async def ask():
        asked.set()
        await asyncio.Event().wait()

    health = HealthCheck(ask, every_seconds=0.01, limit_seconds=0.1)
    watching = asyncio.create_task(health.wait_until_lost())
    for _ in range(3):
        asked.clear()
        await asked.wait()
        health.heard()
    assert not watching.done()
    watching.cancel()


async def test_a_call_excuses_silence_until_it_ends():
    asked = asyncio.Event()

    async def ask():
        asked.set()

    health = HealthCheck(ask, every_seconds=0.01, limit_seconds=0.01)
    with health.call(30):
        watching = asyncio.create_task(health.wait_until_lost())
        await asked.wait()
        await asyncio.wait({watching}, timeout=0.2)
        assert not watching.done()
    async with asyncio.timeout(20):
        await watching


async def test_a_call_excuses_silence_no_longer_than_it_may_take():
    async def ask():
        pass

    health = HealthCheck(ask, every_seconds=0.01, limit_seconds=0.01)
    with health.call(0.05):
        async with asyncio.timeout(20):
            await health.wait_until_lost()


async def test_a_call_that_is_given_up_makes_us_ask_at_once():
    asked = asyncio.Event()

    async def ask():
        asked.set()

    health = HealthCheck(ask, every_seconds=None, limit_seconds=20)
    watching = asyncio.create_task(health.wait_until_lost())
    call = asyncio.create_task(_for_ever(health))
    await asyncio.sleep(0)
    call.cancel()
    async with asyncio.timeout(20):
        await asked.wait()
    watching.cancel()


async def _for_ever(health):
    with health.call(30):
        await asyncio.Event().wait()


def test_the_wait_before_another_attempt_doubles_is_bounded_and_differs():
    longest = [0.5, 1, 2, 4, 8, 16, 30, 30]
    for attempt, most in enumerate(longest):
        waits = {delay_seconds(attempt) for _ in range(100)}
        assert len(waits) > 90
        assert most / 2 <= min(waits) <= max(waits) <= most
    assert delay_seconds(10**6) <= 30


@pytest.mark.parametrize(
    ("effect", "status", "runs"), [("once", "unknown_outcome", 1), ("read", "unavailable", 3)]
)
async def test_a_call_is_made_again_after_a_death_only_where_its_effect_allows(
    mark, tmp_path, effect, status, runs
):
    deaths = tmp_path / "deaths"
    settings = script("bad.py", "dies", env={**mark, "DEATHS": str(deaths)})
    settings["tools"] = {"bad": {"retry_attempts": 2, "effect": effect}}
    tools = AdvancedToolProcessor(config={"mcp_servers": {"lab": settings}}, builtin_tools=False)
    async with tools:
        assert await tools.ready(30)
        assert (await tools.execute("bad")).status == status
    assert len(deaths.read_bytes()) <= runs


TREE = """
import os, subprocess, sys, time
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
wait = [sys.executable, "-c", code]
subprocess.Popen(wait)
subprocess.Popen(wait, start_new_session=True)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""

OWNER = """
import asyncio, sys
from leonidas_tools.mcp.server import MCPServer, ServerState
from leonidas_tools.settings.models import MCPServerSettings

async def main():
    server = MCPServer("tree", MCPServerSettings(**{settings!r}), print)
    server.start()
    await server.wait_for(ServerState.READY)
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.slow
async def test_when_we_are_killed_a_server_ends_with_all_it_has_started(mark, tmp_path):
    bad = str(SCRIPTS / "bad.py")
    settings = {
        "command": sys.executable,
        "args": ["-c", TREE, bad, "ignores_sigterm"],
        "env": mark,
    }
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER.format(settings=settings), stdout=asyncio.subprocess.PIPE
    )
    while b"ready" not in await owner.stdout.readline():
        pass
    assert len(marked(mark[MARK])) == 3
    owner.kill()
    await owner.wait()
    async with asyncio.timeout(30):
        while marked(mark[MARK]):
            await asyncio.sleep(0.05)


async def test_a_server_that_is_stopped_ends_with_all_it_has_started(serve, mark):
    bad = str(SCRIPTS / "bad.py")
    args = ["-c", TREE, bad, "none"]
    server = await serve({"command": sys.executable, "args": args}).ready()
    await server.mcp.stop()
    assert marked(mark[MARK]) == []


async def test_without_a_shell_servers_run_all_the_same(serve, monkeypatch, caplog):
    monkeypatch.setattr("leonidas_tools.mcp.transport.process._SHELL", "/no/shell")
    server = await serve(script("bad.py", "none")).ready()
    assert (await server.call("good")).result == "fine"
    assert "MCP servers survive a SIGKILL of this process" in caplog.text


async def test_a_watchdog_that_has_nothing_to_end_ends():
    async with Watchdog() as watchdog:
        pass
    assert watchdog._process.returncode == 0
