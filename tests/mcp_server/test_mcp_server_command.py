"""`leonidas mcp serve`, as a program."""

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path

import httpx2
import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

from leonidas_tools.cli.mcp.serve import serve
from leonidas_tools.errors import ConfigurationError
from tests.mcp_server.conftest import HEADERS, HELLO, MODES

SECONDS = 60
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text("version: 1\ntoolboxes: [tests.mcp_server.toolbox]\n")
    return file


def command(config, *options):
    return [
        sys.executable,
        "-m",
        "leonidas_tools",
        "mcp",
        "serve",
        "--config",
        str(config),
        *options,
    ]


@pytest.fixture
async def start(config):
    """Starts the program: `await start("--http", "0")`; kills it after the test."""
    started = []

    async def start(*options, **environment):
        process = await asyncio.create_subprocess_exec(
            *command(config, *options),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **environment},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_with(stream, text):
    """The next line of a stream that holds a text."""
    async with asyncio.timeout(SECONDS):
        while line := await stream.readline():
            if text in line.decode():
                return line.decode()
    raise AssertionError(f"ended without {text!r}")


async def exists(path):
    async with asyncio.timeout(SECONDS):
        while not path.exists():
            await asyncio.sleep(0.02)


@MODES
async def test_printed_text_does_not_go_to_the_client(config, mode):
    [program, *args] = command(config)
    strange = []

    async def heard(message):
        if isinstance(message, Exception):
            strange.append(message)

    with Path(os.devnull).open("w") as nowhere:  # noqa: ASYNC230 - never blocks
        server = StdioServerParameters(command=program, args=args, env=dict(os.environ))
        transport = stdio_client(server, errlog=nowhere)
        async with Client(transport, mode=mode, message_handler=heard) as client:
            listed = (await client.list_tools()).tools
            assert [tool.name for tool in listed] == ["look", "noisy", "pay"]
            answer = await client.call_tool("noisy", {"text": "x" * 100_000})
            assert answer.content[0].text == "read '' and b''"
    assert strange == []


async def ask(process, number, method, **params):
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    process.stdin.write(json.dumps(message).encode() + b"\n")
    await process.stdin.drain()


async def hello(process):
    process.stdin.write(HELLO.encode() + b"\n")
    process.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    answer = json.loads(await line_with(process.stdout, "serverInfo"))
    assert answer["result"]["capabilities"]["tools"] == {"listChanged": True}


async def test_garbage_and_messages_without_end_are_ignored(start):
    process = await start()
    process.stdin.write(b"garbage\n\n\xff\xfe\n{}\n[]\n")
    process.stdin.write(b"x" * 10_000_000 + b"\n")
    await hello(process)
    await ask(process, 2, "ping")
    assert json.loads(await line_with(process.stdout, '"id":2'))["result"] == {}
    process.stdin.close()
    out, err = await process.communicate()
    assert (process.returncode, out) == (0, b"")
    assert b"is not a valid message" in err
    assert b"more than 4194304 bytes" in err


UNREADABLE = {
    "a lone surrogate": '"\\ud800"',
    "a long number": "9" * 5000,
    "deep": "[" * 800 + "]" * 800,
}


async def test_a_request_that_cannot_be_read_is_answered_and_its_text_is_not_logged(start):
    process = await start()
    await hello(process)
    for number, arguments in enumerate(UNREADABLE.values(), 2):
        request = (
            '{"params": {"arguments": {"pin": "hunter2", "x": %s}, "name": "noisy"},'
            ' "jsonrpc": "2.0", "id": %d, "method": "tools/call"}\n'
        )
        process.stdin.write((request % (arguments, number)).encode())
        answer = json.loads(await line_with(process.stdout, "jsonrpc"))
        assert (answer["id"], answer["error"]["code"]) == (number, -32700)
    process.stdin.write(
        b'{"id": 9, "method": "x", "params": %s%s}\n' % (b"[" * 99999, b"]" * 99999)
    )
    assert json.loads(await line_with(process.stdout, "jsonrpc"))["id"] is None
    process.stdin.close()
    out, err = await process.communicate()
    assert (process.returncode, out) == (0, b"")
    assert b"hunter2" not in err


@pytest.mark.parametrize("end", ["the input ends", "it is told to end"])
async def test_at_the_end_what_reads_is_stopped_and_what_happens_once_is_finished(
    start, tmp_path, end
):
    process = await start()
    await hello(process)
    files = {name: str(tmp_path / name) for name in ("looking", "begun", "done")}
    look = {"begun": files["looking"]}
    pay = {"begun": files["begun"], "done": files["done"]}
    await ask(process, 2, "tools/call", name="look", arguments=look)
    await exists(tmp_path / "looking")
    await ask(process, 3, "tools/call", name="pay", arguments=pay)
    await exists(tmp_path / "begun")
    if end == "the input ends":
        process.stdin.close()
    else:
        process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(SECONDS):
        assert await process.wait() == 0
    assert (tmp_path / "done").exists()


async def test_over_http_it_prints_its_address_and_ends_on_request(start):
    process = await start("--http", "0")
    line = await line_with(process.stderr, "Serving MCP at ")
    [url] = re.findall(r"http://127\.0\.0\.1:\d+/mcp", line)
    async with httpx2.AsyncClient(timeout=SECONDS) as http:
        opened = await http.post(url, content=HELLO, headers=HEADERS)
        session = {**HEADERS, "mcp-session-id": opened.headers["mcp-session-id"]}
        async with http.stream("GET", url, headers=session) as stream:  # which has no end
            assert stream.status_code == 200
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(SECONDS):
                assert await process.wait() == 0


async def test_beyond_this_machine_a_token_is_made_and_shown_once(start):
    process = await start("--http", "127.0.0.1:0", "--allow-host", "tools.example.com")
    line = await line_with(process.stderr, "Authorization: Bearer ")
    token = line.split()[-1]
    line = await line_with(process.stderr, "Serving MCP at ")
    assert token not in line
    url = line.split()[-1]
    async with httpx2.AsyncClient(timeout=SECONDS) as http:
        headers = {**HEADERS, "host": "tools.example.com"}
        assert (await http.post(url, content=HELLO, headers=headers)).status_code == 401
        headers["authorization"] = f"Bearer {token}"
        assert (await http.post(url, content=HELLO, headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"http": "port"}, "is not [HOST:]PORT"),
        ({"http": "127.0.0.1:99999"}, "is not [HOST:]PORT"),
        ({"http": "0", "token_env": "NOT_SET"}, "'NOT_SET' is empty: put a token in it"),
        ({"token_env": "HOME"}, "'--token-env' needs HTTP"),
        ({"http": "203.0.113.7:0", "token_env": "HOME"}, "Cannot listen at 203.0.113.7:0"),
    ],
)
def test_wrong_options_are_named(config, options, said):
    with pytest.raises(ConfigurationError) as wrong:
        serve(config, **options)
    assert said in wrong.value.message


async def test_a_lone_surrogate_in_a_result_does_not_end_the_program(config, start):
    module = config.with_name("odd_files.py")
    module.write_text(
        "from leonidas_tools import tool\n\n\n"
        "@tool(effect='read')\n"
        "def odd_files() -> list:\n"
        "    return ['caf\\udce9', {'\\ud800': 1}]\n"
    )
    config.write_text("version: 1\ntoolboxes: [odd_files]\n")
    process = await start()
    await hello(process)
    for number in (2, 3):
        await ask(process, number, "tools/call", name="odd_files", arguments={})
        answer = json.loads(await line_with(process.stdout, f'"id":{number}'))
        result = answer["result"]["structuredContent"]
        assert result == {"result": ["caf\ufffd", {"\ufffd": 1}]}


async def test_a_call_whose_request_id_is_in_use_is_refused_and_does_not_run(start, tmp_path):
    process, begun = await start(), tmp_path / "first"
    await hello(process)
    await ask(process, 5, "tools/call", name="look", arguments={"begun": str(begun)})
    await exists(begun)
    for again in (5, "5"):
        second = {"begun": str(tmp_path / "second")}
        await ask(process, again, "tools/call", name="look", arguments=second)
        answer = json.loads(await line_with(process.stdout, '"id"'))
        assert (answer["id"], answer["error"]["code"]) == (again, -32600)
    assert not (tmp_path / "second").exists()
    cancel = '{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}\n'
    process.stdin.write(cancel.encode())
    for _ in range(2):  # of a request that is cancelled or answered, the id is free
        await ask(process, 5, "ping")
        assert json.loads(await line_with(process.stdout, '"id":5'))["result"] == {}
    process.stdin.close()
    await process.communicate()
