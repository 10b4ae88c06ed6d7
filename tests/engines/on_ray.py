"""Tools on a real Ray cluster; `test_ray.py` runs this in a network of its own."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from leonidas_tools import Tool, ToolRuntime
from tests.engines import ray_tools

FREE = {"num_cpus": 0}


def listens(port):
    """Wait until a port of this machine is listened at."""
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise AssertionError("the cluster has not started")


@contextlib.contextmanager
def cluster():
    """Run a cluster, and yield its address."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}
    os.environ["RAY_AUTH_TOKEN"] = "made-up-token-of-this-cluster-0123456789"
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as directory:
        start = [
            *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"),
            *("--port=6379", "--num-cpus=2", "--include-dashboard=false"),
            *(f"--temp-dir={directory}", "--object-store-memory=100000000"),
        ]
        with subprocess.Popen(start, stdout=subprocess.DEVNULL) as running:
            listens(6379)
            yield "127.0.0.1:6379"
            running.terminate()


@pytest.fixture(scope="module")
def address():
    with cluster() as running:
        yield running


@pytest.fixture
async def tools(address):
    functions = [
        ray_tools.add, ray_tools.greet, ray_tools.count, ray_tools.report, ray_tools.busy,
        ray_tools.again, ray_tools.broken, ray_tools.needs_session, ray_tools.stay,
        ray_tools.rest, ray_tools.process_id,
    ]  # fmt: skip
    once = [ray_tools.die, ray_tools.log]
    settings = {
        "ray": {"address": address, "connect": "60s"},
        "defaults": {"runs_on": "ray", "retry_attempts": 0, "timeout": "60s", "resources": FREE},
        "tools": {
            "report": {"custom_parameters": {"word": "done"}},
            "process_id": {"resources": {"num_cpus": 0.5}},
        },
    }
    made = [Tool(each, effect="read") for each in functions[:-1]]
    made += [functions[-1], *(Tool(each, effect="once") for each in once)]
    async with ToolRuntime(made, settings, builtin_tools=False) as runtime:
        yield runtime


async def response(tools, called, **arguments):
    return (await tools.execute(called, arguments)).to_response()


async def test_functions_of_every_kind_run_in_the_cluster_unchanged(tools):
    assert await response(tools, "add", a=1, b="2") == {
        "status": "ok", "result": 3, "retryable": False,
    }  # fmt: skip
    greeting = (await response(tools, "greet", name="Ana"))["result"]
    assert greeting == {"greeting": "Hello, Ana", "sizes": [1], "path": "x"}
    assert (await response(tools, "process_id"))["result"] != os.getpid()


async def test_progress_comes_as_it_is_made(tools):
    async with contextlib.aclosing(tools.events.subscribe()) as events:
        told = asyncio.create_task(progress_until(events, "report"))
        await asyncio.sleep(0)  # it subscribes
        counted = await tools.execute("count", {"to": 3})
        reported = await tools.execute("report", {})
        assert (counted.result, reported.result) == ("3 of 3", "done")
        assert await told == ["1 of 3", "2 of 3", "halfway"]


async def progress_until(events, last):
    """Return the messages of progress until a tool has ended."""
    told = []
    async for event in events:
        if event["event"] == "tool_progress":
            told.append(event["message"])
        elif event["event"] == "tool_complete" and event["tool"] == last:
            break
    return told


async def test_errors_come_as_if_they_were_raised_here(tools):
    async with ToolRuntime(list(tools.registry), {"defaults": {"retry_attempts": 0}}) as here:
        for name in ("busy", "again", "broken"):
            assert await response(tools, name) == await response(here, name)
    broken = await tools.execute("broken", {})
    assert "4711" not in str(broken.to_response())
    assert isinstance(broken.error, KeyError)
    lacking = await response(tools, "needs_session")
    assert lacking["status"] == "failed"


async def test_a_worker_that_dies_is_unavailable_or_of_unknown_outcome(tools, tmp_path):
    ledger = tmp_path / "ledger"
    logged = await response(tools, "log", path=str(ledger))
    assert (logged["status"], logged["reason_code"]) == ("unknown_outcome", "ray_lost")
    assert ledger.read_text() == "once\n"  # Ray has not tried again


async def test_a_cancelled_call_ends_its_process(tools, tmp_path):
    begun = tmp_path / "begun"
    running = asyncio.create_task(tools.execute("stay", {"path": str(begun)}))
    process = await until_begun(begun)
    running.cancel()
    await asyncio.wait([running])
    async with asyncio.timeout(30):
        while is_alive(process):
            await asyncio.sleep(0.02)


async def until_begun(file):
    """Return the process that a call of `stay` has written down."""
    async with asyncio.timeout(60):
        while not (file.exists() and file.read_text()):
            await asyncio.sleep(0.02)
    return int(file.read_text())


def is_alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(") ")[-1][0] != "Z"
    except OSError:
        return False


async def test_a_call_that_takes_too_long_is_a_timeout_and_ends(tools, tmp_path, address):
    begun = tmp_path / "begun"
    settings = {
        "ray": {"address": address, "connect": "60s"},
        "defaults": {"runs_on": "ray", "resources": FREE},
        "tools": {"stay": {"timeout": "20s", "retry_attempts": 0}, "rest": {"timeout": "60s"}},
    }
    made = [Tool(ray_tools.stay, effect="read"), Tool(ray_tools.rest, effect="read")]
    async with ToolRuntime(made, settings) as runtime:
        assert (await response(runtime, "rest", seconds=0))["status"] == "ok"  # it is connected
        assert (await response(runtime, "stay", path=str(begun)))["status"] == "timeout"
        process = int(begun.read_text())
        async with asyncio.timeout(30):
            while is_alive(process):
                await asyncio.sleep(0.02)


async def test_what_no_machine_can_run_is_a_timeout_and_holds_no_other(address):
    settings = {
        "ray": {"address": address, "connect": "60s"},
        "defaults": {"runs_on": "ray", "retry_attempts": 0},
        "tools": {
            "add": {"resources": {"num_gpus": 4}, "timeout": "3s"},
            "greet": {"resources": FREE, "timeout": "60s"},
        },
    }
    made = [Tool(ray_tools.add, effect="read"), Tool(ray_tools.greet, effect="read")]
    async with ToolRuntime(made, settings) as runtime:
        infeasible, greeting = await asyncio.gather(
            response(runtime, "add", a=1, b=2), response(runtime, "greet", name="Ana")
        )
    assert (infeasible["status"], greeting["status"]) == ("timeout", "ok")


async def test_the_end_of_the_driver_ends_its_calls_and_the_next_starts_another(tools, tmp_path):
    begun = tmp_path / "begun"
    running = asyncio.create_task(tools.execute("stay", {"path": str(begun)}))
    await until_begun(begun)
    engine = await tools.executor._compiler.engines.get("ray")
    engine._driver._process.kill()
    lost = (await running).to_response()
    assert (lost["status"], lost["reason_code"]) == ("unavailable", "ray_lost")
    assert (await response(tools, "add", a=1, b=2))["result"] == 3
