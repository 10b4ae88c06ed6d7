"""Ctrl-C ends a command that waits with 130, soon and without a traceback."""

import asyncio
import contextlib
import functools
import json
import os
import pty
import signal
import socket
import subprocess
import sys

import pytest
import yaml

from leonidas_tools import AdvancedToolProcessor, ToolSession
from tests.mcp.logins import Guarded

pytestmark = pytest.mark.slow

BOUND_SECONDS = 30
"""What an end may take on a busy machine."""
REACH = """
import asyncio, socket, sys, time
def reach():
    connection = socket.create_connection(("127.0.0.1", {port}))
    connection.sendall(b"x")
    return connection
"""
TOOLBOX = (
    REACH
    + """
from leonidas_tools import tool
@tool
async def wait() -> None:
    kept = reach()
    await asyncio.Event().wait()

@tool
def block() -> None:
    kept = reach()
    time.sleep(600)

@tool(effect="once", requires_approval=True)
async def pay() -> None:
    pass

@tool(cpu_bound=True)
def compute() -> None:
    kept = reach()
    time.sleep(600)
"""
)
SILENT_SERVER = REACH + "kept = reach()\nsys.stdin.read()\ntime.sleep(600)\n"


class Silent:
    """A server of loopback that takes a connection and never answers."""

    def __init__(self, listening):
        self.port = listening.getsockname()[1]
        self._listening = listening
        self._opened = contextlib.ExitStack()

    def reached(self, _process):
        connection, _ = self._listening.accept()
        self._opened.enter_context(connection)

    def close(self):
        self._opened.close()


@pytest.fixture
def silent():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(BOUND_SECONDS)
        with contextlib.closing(Silent(listening)) as server:
            yield server


async def keep_a_call(file):
    def look() -> str:
        return "foggy"

    async with AdvancedToolProcessor(
        [look], {"store": {"enabled": True, "url": str(file)}}
    ) as tools:
        await tools.execute("look", session=ToolSession("kitchen"))


@pytest.fixture
def interrupt(command, environment, tmp_path):
    """Start the program, interrupt it when it waits, and return how it ended."""

    def run(*arguments, wait_until, **variables):
        options = command({**environment, "LEONIDAS_DATA_DIR": str(tmp_path / "data"), **variables})
        options["args"] += map(str, arguments)
        # A program that is started in the background ignores Ctrl-C, and hands that on.
        options["preexec_fn"] = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with subprocess.Popen(**options, **pipes) as process:
            try:
                wait_until(process)
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=BOUND_SECONDS)
            finally:
                process.kill()
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    return run


def assert_interrupted(finished):
    assert finished.returncode == 130, finished.stderr
    assert "Traceback" not in finished.stderr + finished.stdout
    assert "Error" not in finished.stderr


def line_of(stream, text):
    """Return what waits for a line of the program."""

    def wait(process):
        assert any(text in line for line in getattr(process, stream))

    return wait


@pytest.fixture
def slow_tools(tmp_path, silent):
    (tmp_path / "slow.py").write_text(TOOLBOX.format(port=silent.port))
    file = tmp_path / "tools.yaml"
    file.write_text("version: 1\ntoolboxes: [slow]\npolicies: {default_timeout: 300s}\n")
    return file


@pytest.fixture
def silent_server(tmp_path, silent):
    """Return the settings of a server that never answers, by its transport."""
    program = tmp_path / "silent_server.py"
    program.write_text(SILENT_SERVER.format(port=silent.port))
    address = f"http://127.0.0.1:{silent.port}/mcp"
    servers = {
        "stdio": {"command": sys.executable, "args": [str(program)]},
        "http": {"url": address},
        "login": {"url": address, "auth": {"grant": "authorization_code"}},
    }

    def settings(transport):
        file = tmp_path / "tools.yaml"
        file.write_text(yaml.safe_dump({"version": 1, "mcp_servers": {"it": servers[transport]}}))
        return file

    return settings


@pytest.mark.parametrize("name", ["wait", "block", "compute"])
def test_ctrl_c_ends_a_call_of_a_slow_tool(interrupt, slow_tools, silent, name):
    finished = interrupt("tools", "call", name, "--config", slow_tools, wait_until=silent.reached)
    assert_interrupted(finished)


@pytest.mark.parametrize(
    ("arguments", "transport"),
    [
        (["mcp", "test", "it"], "stdio"),
        (["mcp", "test", "it"], "http"),
        (["mcp", "login", "it"], "login"),
        (["mcp", "list"], "stdio"),
        (["run", "demo"], "stdio"),
        (["run", "demo"], "http"),
    ],
)
def test_ctrl_c_ends_a_command_that_waits_for_a_server(
    interrupt, silent_server, silent, arguments, transport
):
    config = silent_server(transport)
    finished = interrupt(*arguments, "--config", config, wait_until=silent.reached)
    assert_interrupted(finished)


def test_ctrl_c_ends_a_server_over_stdio(interrupt, settings):
    def initialized(process):
        setup = {"protocolVersion": "2025-06-18", "capabilities": {}}
        params = {**setup, "clientInfo": {"name": "test", "version": "1"}}
        request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        assert "serverInfo" in process.stdout.readline()

    finished = interrupt("mcp", "serve", "--config", settings, wait_until=initialized)
    assert_interrupted(finished)


def test_ctrl_c_ends_a_server_over_http(interrupt, settings):
    listening = line_of("stderr", "Serving MCP at")
    finished = interrupt("mcp", "serve", "--http", "0", "--config", settings, wait_until=listening)
    assert_interrupted(finished)


def test_ctrl_c_ends_a_login_that_waits_for_the_browser(interrupt, tmp_path):
    with contextlib.closing(Guarded()) as guarded:
        file = tmp_path / "tools.yaml"
        file.write_text(yaml.safe_dump({"version": 1, "mcp_servers": {"it": guarded.settings()}}))
        page = line_of("stderr", "Log in with the browser: ")
        finished = interrupt(
            "mcp", "login", "it", "--config", file, wait_until=page, BROWSER="true"
        )
    assert_interrupted(finished)


def test_ctrl_c_ends_a_replay(interrupt, settings, tmp_path):
    file = tmp_path / "kept.db"
    asyncio.run(keep_a_call(file))
    finished = interrupt(
        "history", "replay", "kitchen", "--store", file, "--speed", 1e-9, "--longest-pause", 600,
        wait_until=line_of("stdout", "start"),
    )  # fmt: skip
    assert_interrupted(finished)


def test_ctrl_c_ends_a_run_whose_server_never_answers(interrupt, settings, silent):
    address = f"http://127.0.0.1:{silent.port}"
    variables = {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": address}
    finished = interrupt("run", "--config", settings, wait_until=silent.reached, **variables)
    assert_interrupted(finished)


def test_ctrl_c_ends_an_agent_in_a_call(interrupt, slow_tools, silent, tmp_path):
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"calls": [["wait", {}]]}]))
    finished = interrupt(
        "agent", "Wait.", "--model", f"scripted:{script}", "--config", slow_tools,
        wait_until=silent.reached,
    )  # fmt: skip
    assert_interrupted(finished)


def test_ctrl_c_at_a_question_of_an_agent_ends_it(slow_tools, tmp_path):
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"calls": [["pay", {}]]}]))
    command = [sys.executable, "-m", "leonidas_tools", "agent", "--config", str(slow_tools)]
    options = {
        "args": [*command, "--model", f"scripted:{script}"],
        "preexec_fn": functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    }
    ours, theirs = pty.openpty()
    with subprocess.Popen(**options, stdin=theirs, stdout=theirs, stderr=theirs) as program:
        os.close(theirs)
        shown_until(ours, b"> ")
        os.write(ours, b"Pay.\n")
        shown_until(ours, b"in this session: ")
        program.send_signal(signal.SIGINT)
        said = shown_until(ours, b"\0")
    os.close(ours)
    assert program.returncode == 130
    assert b"Traceback" not in said


def shown_until(terminal, text):
    said = b""
    with contextlib.suppress(OSError):  # the program has ended
        while not said.endswith(text):
            said += os.read(terminal, 1)
    return said


def test_ctrl_c_ends_an_agent_whose_model_never_answers(interrupt, settings, silent):
    address = f"http://127.0.0.1:{silent.port}/v1"
    finished = interrupt(
        "agent", "Wait.", "--base-url", address, "--config", settings, wait_until=silent.reached
    )
    assert_interrupted(finished)
