"""`leonidas serve` as a program: a conversation, and a stop by SIGTERM."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner
from websockets.asyncio.client import connect

from leonidas_tools.cli.serve import commands
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.gateway import GatewayLimits
from leonidas_tools.gateway.tokens import make_token, user_of
from tests.gateway.served import SECRET, Client

SCENARIO = """
name: hello
steps:
  - wait_for_input: {kind: text, containing: hello, within_seconds: 60}
  - say: {text: "Hello.", audio_seconds: 0}
  - turn_complete:
  - wait_for_close: {within_seconds: 60}
"""


async def leonidas(*words, **options):
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "leonidas_tools"),
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "LEONIDAS_GATEWAY_SECRET": SECRET},
        **options,
    )


@pytest.mark.slow
async def test_a_token_opens_a_conversation_which_sigterm_lets_end(tmp_path):
    (tmp_path / "tools.yaml").write_text("{}")
    (tmp_path / "hello.yaml").write_text(SCENARIO)
    made = await leonidas("serve", "token", "--user", "ana")
    token = (await made.communicate())[0].decode().strip()
    assert user_of(token.encode(), SECRET) == "ana"
    files = ("--config", str(tmp_path / "tools.yaml"), "--scenario", str(tmp_path / "hello.yaml"))
    server = await leonidas("serve", "--http", "0", *files)
    try:
        async with conversation(await address_of(server), token) as client:
            server.terminate()
            assert await client.closed() == 1012
        assert await server.wait() == 0
    finally:
        await ended(server)


@pytest.mark.slow
async def test_a_scenario_that_ships_is_served_with_its_own_settings_once_its_tools_are_there(
    tmp_path,
):
    (tmp_path / "tools.yaml").write_text("toolboxes: []")
    server = await leonidas("serve", "--http", "0", "--scenario", "demo", cwd=tmp_path)
    try:
        headers = {"Authorization": f"Bearer {make_token(SECRET, 'ana')}"}
        address = await address_of(server)
        async with connect(address, additional_headers=headers, proxy=None) as websocket:
            client = Client(websocket)
            await client.say("start")
            while (told := await client.until("tool"))["event"] != "tool_complete" or (
                told["tool"] != "get_current_time"  # of an MCP server
            ):
                pass
            assert told["status"] == "ok"
    finally:
        await ended(server)


@pytest.mark.slow
async def test_a_scenario_that_calls_what_is_not_there_says_so_in_the_log_and_how_to_mend_it(
    tmp_path,
):
    (tmp_path / "tools.yaml").write_text("{}")
    (tmp_path / "wrong.yaml").write_text("steps: [{call: {name: no_such_tool, args: {}}}]")
    files = ("--config", "tools.yaml", "--scenario", "wrong.yaml")
    server = await leonidas("serve", "--http", "0", *files, cwd=tmp_path)
    try:
        headers = {"Authorization": f"Bearer {make_token(SECRET, 'ana')}"}
        address = await address_of(server)
        async with connect(address, additional_headers=headers, proxy=None) as websocket:
            client = Client(websocket)
            await client.say("start")
            assert await client.closed() == 1011
    finally:
        server.terminate()
        log = (await server.communicate())[0].decode()
    assert "the client declared no function 'no_such_tool'" in log
    assert "Add the tool to the session; if it is of an MCP server, wait until that has" in log
    assert re.search(r"The conversation \w+ of 'ana' has failed: \d+ \S", log)
    assert " None. " not in log
    assert "Traceback" not in log


async def address_of(server):
    said = ""
    while (found := re.search(r"ws://\S+", said)) is None:
        line = await server.stdout.readline()
        assert line, said
        said += line.decode()
    return found[0]


@contextlib.asynccontextmanager
async def conversation(address, token):
    """Yield a client that was answered."""
    headers = {"Authorization": f"Bearer {token}"}
    async with connect(
        address, additional_headers=headers, proxy=None, open_timeout=None
    ) as websocket:
        client = Client(websocket)
        await client.say("start")
        await client.until("ready")
        await client.say("text", text="hello")
        await client.until("turn_complete")
        yield client


async def ended(server):
    if server.returncode is None:
        server.kill()
        await server.wait()


def workers_of(server):
    """Return the processes that a server has started and that are no zombies."""
    found = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    return {int(pid) for pid in found if lives(int(pid))}


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def until(holds):
    async with asyncio.timeout(100):
        while not holds():
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def two_workers(folder, *, settings="{}", scenario=SCENARIO):
    (folder / "tools.yaml").write_text(settings)
    (folder / "hello.yaml").write_text(scenario)
    for name in ("snappy", "typer", "pydantic", "leonidas_tools"):  # as a model may write there
        (folder / f"{name}.py").write_text("raise SystemExit('imported from here')\n")
    files = ("--config", str(folder / "tools.yaml"), "--scenario", str(folder / "hello.yaml"))
    options = {"cwd": folder}
    server = await leonidas("serve", "--http", "0", "--workers", "2", *files, **options)
    try:
        yield server
    finally:
        await ended(server)


@pytest.mark.slow
async def test_a_worker_that_dies_is_replaced_and_sigterm_lets_all_end(tmp_path):
    async with two_workers(tmp_path) as server:
        address, token = await address_of(server), make_token(SECRET, "ana")
        async with conversation(address, token):
            pass
        assert await address_of(server) == address  # each worker says it once it listens
        killed = min(workers_of(server))
        os.kill(killed, signal.SIGKILL)
        assert await address_of(server) == address
        workers = workers_of(server)
        assert len(workers - {killed}) == 2
        async with conversation(address, token) as client:
            server.terminate()
            assert await client.closed() == 1012
        assert await server.wait() == 0
        assert not any(map(lives, workers))


@pytest.mark.slow
async def test_a_second_sigterm_ends_the_workers_at_once(tmp_path):
    endless = SCENARIO.replace("  - turn_complete:\n", "")  # the turn does not end
    headers = {"Authorization": f"Bearer {make_token(SECRET, 'ana')}"}
    async with two_workers(tmp_path, scenario=endless) as server:
        address = await address_of(server)
        async with connect(
            address, additional_headers=headers, proxy=None, open_timeout=None
        ) as websocket:
            client = Client(websocket)
            await client.say("start")
            await client.until("ready")
            await client.say("text", text="hello")
            await client.until("transcript", who="agent")
            server.terminate()
            await client.until("draining")
            server.terminate()
            assert await client.closed() == 1012
        assert await server.wait() == 0


@pytest.mark.slow
async def test_workers_do_not_outlive_the_process_that_started_them(tmp_path):
    async with two_workers(tmp_path) as server:
        token = make_token(SECRET, "ana")
        async with conversation(await address_of(server), token) as client:
            await until(lambda: len(workers_of(server)) == 2)
            workers = workers_of(server)
            server.kill()
            assert await client.closed() == 1012
        await until(lambda: not any(map(lives, workers)))


@pytest.mark.slow
async def test_conversations_are_spread_over_the_workers(tmp_path):
    async with two_workers(tmp_path) as server, contextlib.AsyncExitStack() as stack:
        address = await address_of(server)
        assert await address_of(server) == address  # the second worker listens there as well
        clients = [
            await stack.enter_async_context(conversation(address, make_token(SECRET, f"user {n}")))
            for n in range(24)
        ]
        os.kill(min(workers_of(server)), signal.SIGKILL)
        gone, _ = await asyncio.wait(
            [asyncio.ensure_future(client.websocket.wait_closed()) for client in clients],
            return_when=asyncio.FIRST_COMPLETED,
        )
        server.terminate()
        codes = [await client.closed() for client in clients]
        assert gone
        assert {1006, 1012} == set(codes)


@pytest.mark.slow
async def test_a_port_that_is_served_by_workers_is_not_given_to_a_second_server(tmp_path):
    async with two_workers(tmp_path) as server:
        port = re.search(r":(\d+)/", await address_of(server))[1]
        for more in ((), ("--workers", "2")):
            second = await leonidas("serve", "--http", port, "--scenario", "demo", *more)
            said, _ = await second.communicate()
            assert second.returncode == 2
            assert b"Cannot listen at" in said


@pytest.mark.slow
async def test_settings_that_become_wrong_do_not_end_a_server_whose_workers_die(tmp_path):
    async with two_workers(tmp_path) as server:
        token = make_token(SECRET, "ana")
        await until(lambda: len(workers_of(server)) == 2)
        first = kill_all(server)
        await until(lambda: len(workers_of(server) - first) == 2)
        (tmp_path / "tools.yaml").write_text("tools: [1]")
        kill_all(server)
        said = b""
        while b"exited with 2" not in said:  # one that was started again has read the settings
            said = await server.stdout.readline()
            assert said, "the server has ended"
        (tmp_path / "tools.yaml").write_text("{}")
        async with conversation(await address_of(server), token):
            pass


def kill_all(server):
    workers = workers_of(server)
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    return workers


@pytest.mark.slow
async def test_wrong_settings_end_all_workers_and_are_named(tmp_path):
    async with two_workers(tmp_path, settings="tools: [1]") as server:
        said, _ = await server.communicate()
        assert server.returncode == 2
        assert b"tools.yaml:1" in said


@pytest.mark.slow
async def test_no_gateway_starts_with_a_short_secret_or_without_one():
    for given in ({"LEONIDAS_GATEWAY_SECRET": ""}, {"LEONIDAS_GATEWAY_SECRET": "short"}):
        ended = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "leonidas_tools", "serve", "token", "--user", "ana"),
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **given},
        )
        _, said = await ended.communicate()
        assert ended.returncode == 2
        assert b"openssl rand -hex 32" in said


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ([], GatewayLimits()),
        (
            [
                *("--conversations", "7", "--conversations-per-user", "6"),
                *("--starts-per-user-minute", "5", "--grace", "4"),
            ],
            GatewayLimits(
                conversations=7,
                conversations_per_user=6,
                starts_per_user_minute=5,
                grace_seconds=4,
            ),
        ),
    ],
)
def test_the_options_are_the_limits_of_the_gateway(tmp_path, monkeypatch, options, limits):
    (tmp_path / "tools.yaml").write_text("{}")
    (tmp_path / "hello.yaml").write_text(SCENARIO)
    given = []

    async def serve_gateway(*_, **served):
        given.append(served["limits"])

    monkeypatch.setattr("leonidas_tools.gateway.serve_gateway", serve_gateway)
    monkeypatch.setenv("LEONIDAS_GATEWAY_SECRET", SECRET)
    files = ("--config", str(tmp_path / "tools.yaml"), "--scenario", str(tmp_path / "hello.yaml"))
    finished = CliRunner().invoke(commands(), ["--http", "0", *files, *options])
    assert (finished.exit_code, given) == (0, [limits])


@pytest.mark.parametrize(
    ("package", "words"),
    [("numpy", []), ("soxr", []), ("jwt", []), ("jwt", ["token", "--user", "ana"])],
)
def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch, package, words):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigurationError, match=r"pip install 'leonidas-tools\[serve\]'"):
        CliRunner().invoke(commands(), words, catch_exceptions=False)


def test_a_token_needs_none_of_the_packages_for_sound(monkeypatch):
    monkeypatch.setitem(sys.modules, "soxr", None)
    monkeypatch.setenv("LEONIDAS_GATEWAY_SECRET", SECRET)
    finished = CliRunner().invoke(commands(), ["token", "--user", "ana"])
    assert user_of(finished.stdout.strip().encode(), SECRET) == "ana"
    code = "import sys, leonidas_tools.gateway.tokens; print('soxr' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
