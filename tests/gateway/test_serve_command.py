"""`leonidas serve` as a program: a conversation, and a stop by SIGTERM."""

import asyncio
import os
import re
import sys

import pytest
from typer.testing import CliRunner
from websockets.asyncio.client import connect

from leonidas_tools.cli.serve import commands
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.gateway.tokens import user_of
from tests.gateway.served import SECRET, Client

SCENARIO = """
name: hello
steps:
  - wait_for_input: {kind: text, containing: hello, within_seconds: 60}
  - say: {text: "Hello.", audio_seconds: 0}
  - turn_complete:
  - wait_for_close: {within_seconds: 60}
"""


async def leonidas(*words):
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "leonidas_tools",
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "LEONIDAS_GATEWAY_SECRET": SECRET},
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
        said = ""
        while (found := re.search(r"ws://\S+", said)) is None:
            line = await server.stdout.readline()
            assert line, said
            said += line.decode()
        headers = {"Authorization": f"Bearer {token}"}
        async with connect(found[0], additional_headers=headers, proxy=None) as websocket:
            client = Client(websocket)
            await client.say("start")
            await client.until("ready")
            await client.say("text", text="hello")
            await client.until("turn_complete")
            server.terminate()
            assert await client.closed() == 1012
        assert await server.wait() == 0
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()


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


@pytest.mark.parametrize("package", ["numpy", "soxr", "jwt"])
def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigurationError, match=r"pip install 'leonidas-tools\[serve\]'"):
        CliRunner().invoke(commands(), ["token", "--user", "ana"], catch_exceptions=False)
