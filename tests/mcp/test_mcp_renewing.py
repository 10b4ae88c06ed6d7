"""Several processes that share one login renew its token once, and lose nobody's."""

import asyncio
import contextlib
import json
import subprocess
import sys
import threading

import httpx2
import pytest
from mcp.shared.auth import OAuthToken
from starlette.responses import JSONResponse, Response

from leonidas_tools import AdvancedToolProcessor
from leonidas_tools.files.private import PrivateFile
from leonidas_tools.mcp.auth import client_auth, renewing, token_file
from leonidas_tools.mcp.auth.renewing import RenewingProvider
from leonidas_tools.mcp.data_files import data_file
from leonidas_tools.mcp.login import log_in
from leonidas_tools.settings.models import MCPServerSettings
from tests.mcp.forking import fork_command
from tests.mcp.hostile_login import Hostile, opened
from tests.mcp.logins import Guarded, browse

pytestmark = pytest.mark.slow

SECONDS = 60
OTHERS_COME_WITHIN = 1.5
"""How long the first renewal is held for another that should not come."""
PROGRAM = """
import asyncio, json, sys
from leonidas_tools import AdvancedToolProcessor

async def main():
    servers = {"lab": json.loads(sys.argv[1])}
    tools = AdvancedToolProcessor(config={"mcp_servers": servers}, builtin_tools=False)
    print("loaded", flush=True)
    sys.stdin.readline()
    async with tools:
        await tools.ready(60)
        for line in ("ready", "called"):
            result = await tools.execute("add", {"a": 1, "b": 2})
            print(result.status, flush=True)
            sys.stdin.readline()

asyncio.run(main())
"""


class Users:
    """Processes that use one login, step by step at the same time."""

    def __init__(self, stack, program, settings, count):
        self._processes = [
            stack.enter_context(
                subprocess.Popen(
                    fork_command(program, json.dumps(settings)),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(count)
        ]
        for process in self._processes:
            stack.callback(process.kill)

    def go_on(self):
        for process in self._processes:
            process.stdin.write("\n")
            process.stdin.flush()

    def said(self):
        return [process.stdout.readline().strip() for process in self._processes]


@pytest.fixture
def guarded():
    """An authorization server that treats a reused refresh token as stolen, as many do."""
    servers = Guarded()
    logins, known = servers.logins, servers.logins.load_refresh_token
    arrived = []

    async def load(client, token):
        arrived.append(token)
        if len(arrived) == 1:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(OTHERS_COME_WITHIN):
                    while len(arrived) == 1:
                        await asyncio.sleep(0.01)
        found = await known(client, token)
        if found is None:
            logins.access.clear()
            logins.refresh.clear()
        return found

    logins.load_refresh_token = load
    logins.hold_again = arrived.clear
    yield servers
    servers.close()


async def test_processes_that_renew_at_once_ask_once_and_all_go_on(guarded, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    settings = guarded.settings()
    assert await log_in("lab", MCPServerSettings(**settings), browse) == "logged in"
    file = data_file("lab", "tokens")
    file.write_text(json.dumps({**json.loads(file.read_text()), "expires_at": 1}))
    with contextlib.ExitStack() as stack:
        users = Users(stack, program, settings, 3)
        assert await asyncio.to_thread(users.said) == ["loaded"] * 3
        users.go_on()  # all find the token expired
        assert await asyncio.to_thread(users.said) == ["ok"] * 3
        assert guarded.logins.asked == ["code", "refresh"]
        guarded.logins.access.clear()
        guarded.logins.hold_again()
        users.go_on()  # all are refused with the token that they have
        assert await asyncio.to_thread(users.said) == ["ok"] * 3
        assert guarded.logins.asked == ["code", "refresh", "refresh"]
        users.go_on()


@pytest.mark.parametrize("end", ["timeout", "cancellation", "close"])
async def test_a_call_that_ends_while_its_token_is_renewed_loses_no_login(end, monkeypatch):
    renewed, may_answer = threading.Event(), threading.Event()
    settle = RenewingProvider.settle

    async def settled(auth):
        may_answer.set()
        await settle(auth)

    monkeypatch.setattr(RenewingProvider, "settle", settled)
    with contextlib.closing(Guarded()) as guarded:
        settings, logins = guarded.settings(), guarded.logins
        renew = logins.exchange_refresh_token

        async def held(*args):
            tokens = await renew(*args)
            renewed.set()
            await asyncio.to_thread(may_answer.wait, SECONDS)
            return tokens

        assert await log_in("lab", MCPServerSettings(**settings), browse) == "logged in"
        tools = {"add": {"timeout": 1 if end == "timeout" else SECONDS}}
        config = {"mcp_servers": {"lab": settings}, "tools": tools}
        async with AdvancedToolProcessor(config=config, builtin_tools=False) as first:
            assert await first.ready(SECONDS)
            logins.exchange_refresh_token = held
            logins.access.clear()
            call = asyncio.create_task(first.execute("add", {"a": 1, "b": 2}))
            assert await asyncio.to_thread(renewed.wait, SECONDS)
            if end == "timeout":
                await call  # may be tried once more, over a new connection
            elif end == "cancellation":
                call.cancel()
                await asyncio.wait({call})
        await asyncio.wait({call})
        logins.exchange_refresh_token = renew
        config = {"mcp_servers": {"lab": settings}}
        async with AdvancedToolProcessor(config=config, builtin_tools=False) as second:
            assert await second.ready(SECONDS)
            assert (await second.execute("add", {"a": 1, "b": 2})).ok
        assert logins.asked == ["code", "refresh"]


@pytest.fixture
async def expired():
    """A client whose token has expired, its settings, and how often it was renewed."""
    renewed = []

    def token(request):
        renewed.append(request)
        return JSONResponse({"access_token": "new", "token_type": "Bearer"})

    with contextlib.closing(Hostile()) as server:
        server.body = {"mcp": lambda _: Response(), "token": token}
        settings = MCPServerSettings(**server.settings(client_id="ours"))
        file, auth = token_file("lab", settings), client_auth("lab", settings, opened)
        await file.set_tokens(OAuthToken(access_token="old", refresh_token="1", expires_in=-10))
        async with httpx2.AsyncClient(auth=auth) as client:
            yield lambda: client.post(settings.url), settings, renewed


async def test_a_process_that_hangs_while_it_renews_is_waited_for_no_more(expired, monkeypatch):
    call, _, renewed = expired
    monkeypatch.setattr(renewing, "_PATIENCE_SECONDS", 0.1)
    async with PrivateFile(data_file("lab", "tokens")).turn(SECONDS), asyncio.timeout(SECONDS):
        assert (await call()).status_code == 200
    assert len(renewed) == 1


async def test_while_another_process_renews_the_loop_goes_on_and_what_it_got_is_used(expired):
    call, settings, renewed = expired
    async with asyncio.timeout(SECONDS), contextlib.AsyncExitStack() as another:
        await another.enter_async_context(PrivateFile(data_file("lab", "tokens")).turn(SECONDS))
        calls = [asyncio.create_task(call()) for _ in range(3)]
        assert not (await asyncio.wait(calls, timeout=0.3))[0]
        newer = OAuthToken(access_token="newer", refresh_token="2", expires_in=3600)
        await token_file("lab", settings).set_tokens(newer)
        await another.aclose()
        answers = await asyncio.gather(*calls)
    assert {each.request.headers["authorization"] for each in answers} == {"Bearer newer"}
    assert renewed == []


async def test_a_process_killed_during_renewal_blocks_no_other():
    file = data_file("lab", "tokens")
    program = """
import asyncio, pathlib, sys
from leonidas_tools.files.private import PrivateFile

async def main():
    async with PrivateFile(pathlib.Path(sys.argv[1])).turn(60):
        print("mine", flush=True)
        sys.stdin.readline()

asyncio.run(main())
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(file), **pipes
    )
    assert await process.stdout.readline() == b"mine\n"
    process.kill()
    await process.communicate()
    async with asyncio.timeout(SECONDS), PrivateFile(file).turn(10 * SECONDS):
        pass


async def test_a_process_forked_during_renewal_blocks_no_other():
    program = """
import os, pathlib, sys
from leonidas_tools.files.private import PrivateFile

file = PrivateFile(pathlib.Path(sys.argv[1]))
read, write = os.pipe()
with file.hold_lock():
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)  # lives as long as its parent
        os._exit(0)
with file.hold_lock():
    print("again", flush=True)
os.close(write)
os.waitpid(child, 0)
"""
    command = [sys.executable, "-c", program, str(data_file("lab", "tokens"))]
    run = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, timeout=SECONDS, check=True
    )
    assert run.stdout == b"again\n"
