"""`leonidas mcp test`: exactly why a server does not work, and what to do about it."""

import asyncio
import contextlib
import json
import shutil
import socket
import sys
import textwrap

import pytest
import yaml
from mcp.server.mcpserver import MCPServer
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from leonidas_tools.cli import mcp
from leonidas_tools.mcp.doctor.address import find_server
from leonidas_tools.settings.models import MCPServerSettings
from tests.mcp.certificates import Authority
from tests.mcp.forking import forked
from tests.mcp.logins import Guarded, Listener, browse

pytestmark = pytest.mark.slow

SH = shutil.which("sh")


@pytest.fixture
def examine(invoke, settings):
    """Examines a server: its exit code, and the steps by outcome, message and hint."""

    def run(server, *options):
        settings.write_text(yaml.safe_dump({"version": 1, "mcp_servers": {"it": server}}))
        finished = invoke(mcp.commands(), "test", "it", "--json", "--config", settings, *options)
        told = json.loads(finished.stdout)
        assert told["server"] == "it"
        assert told["ok"] == (finished.exit_code == 0)
        return finished.exit_code, told["steps"]

    return run


@pytest.fixture
def speaking(tmp_path, forking):
    """A server over stdio that is a text of Python: `speaking("import mcp…")`."""

    def made(text):
        script = tmp_path / "server.py"
        script.write_text(textwrap.dedent(text))
        return forked(script, timeout=30)

    return made


WORKING = """
    import mcp_types
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("working")

    @server.tool(annotations=mcp_types.ToolAnnotations(read_only_hint=True))
    async def look() -> str:
        return "seen"

    @server.tool()
    async def change(what: str) -> str:
        raise SystemExit

    server.run()
"""


def test_a_server_that_works_is_followed_to_a_call(examine, speaking):
    code, steps = examine(speaking(WORKING))
    assert (code, [(step["step"], step["outcome"]) for step in steps]) == (
        0,
        [(name, "ok") for name in ("command", "start", "tools", "ping", "call")],
    )
    assert steps[2]["message"] == "2 can be used: look, change"
    assert steps[4]["message"] == "look responds"
    assert all(steps[index]["seconds"] > 0 for index in (1, 3, 4))


def test_no_tool_is_called_where_that_is_not_wanted(examine, speaking):
    code, steps = examine(speaking(WORKING), "--no-call")
    assert (code, steps[-1]["step"]) == (0, "ping")


OF_SECRETS = """
    import mcp_types
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("secrets")
    reads = server.tool(annotations=mcp_types.ToolAnnotations(read_only_hint=True))

    async def get_env() -> str:
        raise SystemExit

    async def shown() -> str:
        "Return the API key."
        raise SystemExit

    async def count(words: str = "") -> str:
        return "3"

    async def look() -> str:
        return "seen"

    for function in (get_env, shown, OTHERS):
        reads(function)
    server.run()
"""


def test_the_tool_that_is_called_is_named_before_and_is_one_without_arguments_and_secrets(
    invoke, settings, speaking
):
    server = speaking(OF_SECRETS.replace("OTHERS", "count, look"))
    settings.write_text(yaml.safe_dump({"version": 1, "mcp_servers": {"it": server}}))
    finished = invoke(mcp.commands(), "test", "it", "--config", settings)
    assert "call: look responds" in finished.stdout
    assert finished.stderr == (
        "Calling 'look', which says that it only reads; --no-call calls nothing\n"
    )


def test_no_tool_is_called_that_may_show_a_secret(examine, speaking):
    code, steps = examine(speaking(OF_SECRETS.replace("OTHERS", "shown")))
    assert (code, steps[-1]["outcome"]) == (0, "ok")
    assert "no call: no read-only tool without required arguments" in steps[-1]["message"]


def test_a_tool_that_cannot_be_used_is_reported(examine, mark_of_listing):
    code, steps = examine(mark_of_listing)
    notes = [step["message"] for step in steps if step["outcome"] == "note"]
    assert code == 0
    assert any("the tool 'broken' is left out" in note for note in notes)


@pytest.fixture
def mark_of_listing(tmp_path, forking):
    tools = tmp_path / "tools"
    tools.write_text('good\nbroken {"type": "object", "properties": {"a": {"minLength": -1}}}')
    return forked("listing.py", tools)


PINNED = """
    import mcp_types
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("pinned")

    @server.tool(annotations=mcp_types.ToolAnnotations(read_only_hint=True), description=WORDS)
    async def look() -> str:
        raise SystemExit

    if MORE:
        server.tool(name="other")(lambda: "seen")
    server.run()
"""


@pytest.mark.parametrize(
    ("more", "code", "last"), [(False, 1, ("tools", "failed")), (True, 0, ("call", "ok"))]
)
def test_a_tool_in_quarantine_is_reported_and_not_called(
    examine, speaking, invoke, settings, tmp_path, more, code, last
):
    words = tmp_path / "words"
    words.write_text("Looks.")
    text = PINNED.replace("WORDS", f"open({str(words)!r}).read()").replace("MORE", str(more))
    assert examine(speaking(text), "--no-call")[0] == 0
    invoke(mcp.commands(), "list", "--config", settings)  # they are used for the first time
    words.write_text("Looks, and tells somebody.")
    ended, steps = examine(speaking(text))
    assert (ended, (steps[-1]["step"], steps[-1]["outcome"])) == (code, last)
    (told,) = [step for step in steps if "'look'" in step["message"]]
    assert told["message"] == (
        "'look' has changed since it was first used (description), and is not run"
    )
    assert told["hint"] == "see the change: `leonidas mcp trust it`"
    table = invoke(mcp.commands(), "list", "--config", settings)
    last = table.stderr.splitlines()[-1]
    assert last == "quarantined tools have changed: leonidas mcp trust it"
    assert [step["message"] for step in steps if "can be used" in step["message"]] == [
        "1 can be used: other" if more else "none can be used"
    ]


def sh(text, **more):
    return {"command": SH, "args": ["-c", text], "timeout": 20, **more}


FAILING = {
    "the command is missing": (
        {"command": "no-such-command"},
        "command",
        "'no-such-command' was not found on PATH: ",
        "install it, or write its full path",
    ),
    "Node is missing": (
        {"command": "npx", "args": ["-y", "x"], "env": {"PATH": "/nowhere"}},
        "command",
        "'npx' was not found on PATH: /nowhere",
        "install Node.js, which includes it: https://nodejs.org",
    ),
    "uv is missing": (
        {"command": "uvx", "args": ["x"], "env": {"PATH": "/nowhere"}},
        "command",
        "'uvx' was not found on PATH: /nowhere",
        "install uv, which includes it: https://docs.astral.sh/uv",
    ),
    "a quotation mark has no pair": (
        {"command": "no-such-python -m 'mcp_server_time"},
        "command",
        '"no-such-python -m \'mcp_server_time" was not found on PATH: ',
        (
            "a command line is split, but no shell runs it: "
            "check its quotes, and set variables under `env`"
        ),
    ),
    "the directory is missing": (
        {"command": SH, "cwd": "/no/such"},
        "directory",
        "'/no/such' does not exist",
        "correct `cwd`; a relative path starts where Leonidas is started",
    ),
    "the script is missing": (
        {"command": "python3", "args": ["server.py"]},
        "arguments",
        "there is no file 'server.py' in ",
        "write its full path, or set `cwd` to its directory",
    ),
    "a module is missing": (
        {"command": sys.executable, "args": ["-m", "no_such_module"]},
        "start",
        "exited with code 1; it last wrote: ",
        (
            "the Python that runs it lacks 'no_such_module': install it there, write "
            "${LEONIDAS_PYTHON} for the Python that runs Leonidas, or let `uvx PACKAGE` run it"
        ),
    ),
    "it is for another version of mcp": (
        {"command": sys.executable, "args": ["-c", "from mcp.types import NoSuchThing"]},
        "start",
        "exited with code 1; it last wrote: ",
        (
            "it was written for another version of the package `mcp`: install it in an "
            "environment of its own, as `uvx PACKAGE` does"
        ),
    ),
    "a variable is missing": (
        sh("echo 'Error: BRAVE_API_KEY environment variable is required' >&2; exit 1"),
        "start",
        "exited with code 1; it last wrote: ",
        "set BRAVE_API_KEY under `env`: `BRAVE_API_KEY: ${BRAVE_API_KEY}`",
    ),
    "the package is missing": (
        sh("echo 'npm error code E404' >&2; exit 1"),
        "start",
        "exited with code 1; it last wrote: npm error code E404",
        "there is no such package: correct its name",
    ),
    "it prints on standard output": (
        sh("echo 'Server is running'"),
        "start",
        "exited with code 0; it printed 'Server is running', which is not an MCP message",
        (
            "it must print only MCP messages on standard output, and all else on standard error; "
            "or it is not an MCP server"
        ),
    ),
    "it ends": (
        sh("exit 0"),
        "start",
        "exited with code 0",
        "it exited by itself: it may need an argument, such as `stdio`",
    ),
    "it says nothing": (
        sh("while read line; do :; done", timeout=2),
        "start",
        "no response in time",
        "is it a server that uses MCP over stdio? If it is slow, raise `timeout`",
    ),
}


@pytest.mark.parametrize("case", FAILING)
def test_a_command_that_is_no_server_is_reported_with_the_reason(examine, case):
    server, step, message, hint = FAILING[case]
    code, steps = examine(server)
    assert code == 1
    assert (steps[-1]["step"], steps[-1]["outcome"], steps[-1]["hint"]) == (step, "failed", hint)
    assert steps[-1]["message"].startswith(message)


def test_possible_problems_are_reported_first(examine, tmp_path):
    npx = tmp_path / "npx"
    npx.write_text("#!/bin/sh\nexit 0\n")
    npx.chmod(0o755)
    _, steps = examine({"command": str(npx), "args": ["x"], "env": {"KEY": ""}, "enabled": False})
    assert [(step["step"], step["outcome"]) for step in steps] == [
        ("settings", "note"),
        ("command", "ok"),
        ("arguments", "note"),
        ("environment", "note"),
        ("start", "failed"),
    ]
    assert steps[2]["hint"] == "put -y before the package"


@pytest.fixture
def listening():
    running = []

    def start(*routes, **options):
        listener, server = Listener("https" if options else "http"), MCPServer("web")
        app = server.streamable_http_app()
        app.router.routes[:0] = routes
        listener.serve(app, **options)
        running.append(listener)
        return listener.url

    yield start
    for listener in running:
        listener.close()


def test_an_address_is_followed_from_its_name_to_the_protocol(examine, listening, tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    url = listening(ssl_certfile=str(certificate), ssl_keyfile=str(key))
    code, steps = examine({"url": f"{url}/mcp", "ca_file": str(authority.file)})
    assert (code, [step["step"] for step in steps]) == (
        0,
        ["name", "connection", "TLS", "protocol", "tools", "ping", "call"],
    )
    code, steps = examine({"url": f"{url}/mcp"})
    assert (code, steps[-1]["step"], steps[-1]["hint"]) == (
        1,
        "TLS",
        "name its certificate in `ca_file`",
    )


def test_a_wrong_path_is_reported_with_the_right_one(examine, listening):
    url = listening()
    code, steps = examine({"url": f"{url}/api"})
    assert (code, steps[-1]["step"], steps[-1]["hint"]) == (
        1,
        "protocol",
        f"an MCP server responds at {url}/mcp: set that url",
    )


def test_a_fault_of_the_server_is_no_sign_of_a_wrong_path(examine, listening):
    def fails(_):
        return PlainTextResponse("HTTP 404 from the database", 500)

    url = listening(Route("/api", fails, methods=["GET", "POST"]))
    code, steps = examine({"url": f"{url}/api"})
    assert (code, steps[-1]["step"]) == (1, "protocol")
    assert "HTTP 500" in steps[-1]["message"]
    assert "set that url" not in (steps[-1]["hint"] or "")


def test_an_address_that_leads_nowhere_is_reported(examine):
    _, steps = examine({"url": "http://no-such-host.invalid/mcp"})
    assert (steps[-1]["step"], steps[-1]["message"]) == (
        "name",
        "'no-such-host.invalid' cannot be resolved",
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    _, steps = examine({"url": f"http://127.0.0.1:{port}/mcp"})
    assert steps[-1]["message"] == f"port {port}: connection refused"


def test_a_login_is_announced_and_made_from_the_command_line(
    examine, invoke, settings, monkeypatch
):
    guarded = Guarded()
    try:
        server = guarded.settings()
        _, steps = examine(server)
        assert (steps[-1]["message"], steps[-1]["hint"]) == (
            "needs a login",
            "run `leonidas mcp login it`",
        )
        monkeypatch.setattr("webbrowser.open", lambda url: asyncio.run(browse(url)))
        finished = invoke(mcp.commands(), "login", "it", "--config", settings)
        assert finished.stdout == "it: logged in\n"
        assert finished.stderr.startswith("Log in with the browser: http://127.0.0.1:")
        code, steps = examine(server, "--no-call")
        assert (code, steps[-1]["step"]) == (0, "ping")
        finished = invoke(mcp.commands(), "logout", "it", "--config", settings)
        assert finished.stdout == "it: logged out\n"
    finally:
        guarded.close()


def test_people_read_the_same_in_words(invoke, settings):
    settings.write_text(
        yaml.safe_dump({"version": 1, "mcp_servers": {"it": {"command": "no-such-command"}}})
    )
    finished = invoke(mcp.commands(), "test", "it", "--config", settings)
    assert finished.exit_code == 1
    assert finished.stdout.startswith("failed command: 'no-such-command' was not found on PATH")
    assert "what to do: install it, or write its full path" in finished.stdout


async def test_a_server_that_answers_without_end_is_not_taken_for_one_at_another_path():
    async def answer(reader, writer):
        with contextlib.suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
            while True:
                writer.write(b" " * 65_536)
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with asyncio.timeout(5):
            assert await find_server(MCPServerSettings(url=f"http://127.0.0.1:{port}/x")) is None
