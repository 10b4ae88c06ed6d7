"""No command lets a text of others write to the terminal: names, arguments, results, settings."""

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
import time
import unicodedata

import pytest
import yaml

from leonidas_tools import AdvancedToolProcessor, ToolSession
from leonidas_tools.store import Store
from tests.cli.conftest import PROGRAM
from tests.hostile import HOSTILE
from tests.mcp.forking import SCRIPTS, fork_command
from tests.store.conftest import Told

pytestmark = pytest.mark.slow

PAY = f"pay {HOSTILE}"
TOOLBOX = f"""
from leonidas_tools import Tool, ToolContext, ToolError
from leonidas_tools import tool
HOSTILE = {HOSTILE!r}


def pay(**arguments):
    return {{HOSTILE: [HOSTILE, arguments]}}


@tool(effect="read")
async def look(ctx: ToolContext, what: str = "") -> str:
    ctx.progress(HOSTILE, fraction=0.5)
    return HOSTILE


@tool(effect="read")
def fail(what: str = "") -> str:
    raise ToolError(HOSTILE)


@tool(effect="read")
def crash(what: str = "") -> str:
    raise type("E" + HOSTILE, (ValueError,), {{}})(HOSTILE)


@tool(requires_approval=True)
def ask(what: str) -> str:
    return what


TOOLS = [
    Tool.from_json_schema(
        name={PAY!r},
        description=HOSTILE + HOSTILE,
        parameters={{
            "type": "object",
            "properties": {{HOSTILE: {{"type": "string", "description": HOSTILE}}}},
        }},
        function=pay,
        tags=[HOSTILE],
    ),
    look, fail, crash, ask,
]
"""
LISTED = [
    {
        "name": "steal",
        "title": HOSTILE,
        "description": HOSTILE,
        "inputSchema": {"type": "object", "properties": {HOSTILE: {"type": "string"}}},
    },
    {"name": HOSTILE, "description": "Steals.", "inputSchema": {"type": "object"}},
]
SERVER = "[red]server[/red][/b]"
STEPS = [
    {"input_transcription": HOSTILE},
    {"call": {"id": f"c1{HOSTILE}", "name": "look", "args": {"what": HOSTILE}}},
    {"wait_for_answers": [f"c1{HOSTILE}"]},
    {"call": {"id": "c2", "name": HOSTILE, "args": {HOSTILE: HOSTILE}}},
    {"wait_for_answers": ["c2"]},
    {"call": {"id": "c3", "name": "crash", "args": {}}},
    {"wait_for_answers": ["c3"]},
    {"say": HOSTILE},
    "turn_complete",
]
OWN = re.compile(
    r"\x1b\[[0-9;]*m"  # colours
    r"|\x1b\[\?25[lh]|\r?\x1b\[2?K|\x1b\[1A"  # the line that says what is waited for
    r"|\r(?=\r*\n)"  # the end of a line in a terminal
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with settings, a toolbox, an MCP server, a scenario and a store, all hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "hostile.py").write_text(TOOLBOX)
    (folder / "listed.json").write_text(json.dumps(LISTED))
    script = [str(SCRIPTS / "scripted.py"), str(folder / "listed.json")]
    noisy = f"import sys; sys.stderr.write({HOSTILE!r}); print({HOSTILE!r}); sys.exit(1)"
    settings = {
        "version": 1,
        "toolboxes": ["hostile"],
        "store": {"enabled": True, "url": str(folder / "kept.db")},
        "mcp_servers": {
            SERVER: {"command": sys.executable, "args": script},
            "broken": {"command": sys.executable, "args": ["-c", noisy], "env": {"A": HOSTILE}},
        },
        "policies": {
            "rules": [
                {"name": HOSTILE, "tools": [PAY], "decide": "ask", "message": HOSTILE},
                {"name": "other", "tools": ["look"], "decide": "allow", "when": {"what": HOSTILE}},
            ]
        },
    }
    (folder / "tools.yaml").write_text(yaml.safe_dump(settings))
    (folder / "faulty.yaml").write_text(
        yaml.safe_dump({**settings, HOSTILE: 1, "tools": {HOSTILE: {HOSTILE: HOSTILE}}})
    )
    servers = {HOSTILE: {"command": HOSTILE}, "ok": {"command": "x", HOSTILE: HOSTILE}}
    (folder / "theirs.json").write_text(json.dumps({"mcpServers": servers}))
    (folder / "scenario.yaml").write_text(yaml.safe_dump({"name": HOSTILE, "steps": STEPS}))
    asyncio.run(_live(folder))
    return folder


async def _live(folder):
    config = {"store": {"enabled": True, "url": str(folder / "kept.db")}}
    sys.path.insert(0, str(folder))
    try:
        import hostile
    finally:
        sys.path.remove(str(folder))
    async with AdvancedToolProcessor(hostile.TOOLS, config) as tools:
        session = ToolSession(f"s{HOSTILE}", user=HOSTILE)
        for name in (PAY, "look", "fail", "crash"):
            await tools.execute(name, {HOSTILE: HOSTILE} if name == PAY else {}, session=session)
        await tools.execute("ask", {"what": HOSTILE}, session=session)
        await tools.execute(HOSTILE, {}, session=session)
    async with Store(folder / "kept.db") as store:
        Told(store, "left", now=time.time()).start(PAY, what=HOSTILE)


@pytest.fixture(scope="module")
def seen(prepared, forking):
    """Runs a command in a terminal with colours, and gives all that it shows."""

    def show(*arguments, stdin=""):
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLUMNS": "4000",
            "LEONIDAS_CONFIG": str(prepared / "tools.yaml"),
        }
        for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "NO_COLOR"):
            environment.pop(name, None)
        ours, theirs = pty.openpty()
        words = [each.replace("{folder}", str(prepared)) for each in arguments]
        process = subprocess.Popen(
            fork_command(PROGRAM, *words),
            cwd=prepared,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        process.stdin.write(stdin.encode())
        process.stdin.close()
        shown = b""
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # the program has ended
                break
            if not piece:
                break
            shown += piece
        os.close(ours)
        process.wait(60)
        return shown.decode(errors="surrogateescape")

    return show


COMMANDS = [
    ["run", "{folder}/scenario.yaml", "--speed", "inf"],
    ["run", "{folder}/scenario.yaml", "--speed", "inf", "--json"],
    ["tools", "list"],
    ["tools", "list", "--json"],
    ["tools", "show", PAY],
    ["tools", "show", PAY, "--json"],
    ["tools", "show", HOSTILE],
    ["tools", "call", PAY, json.dumps({HOSTILE: HOSTILE})],
    ["tools", "call", PAY, f"{HOSTILE}={HOSTILE}"],
    ["tools", "call", "look", "--json"],
    ["tools", "call", "fail"],
    ["--debug", "tools", "call", "crash"],
    ["--verbose", "tools", "call", "crash"],
    ["tools", "call", "ask", f"what={HOSTILE}"],
    ["tools", "call", HOSTILE],
    ["tools", "call", "look", HOSTILE],
    ["tools", HOSTILE],
    ["tools", "list", f"--{HOSTILE}"],
    ["tools", "list", HOSTILE],
    [HOSTILE],
    [f"--{HOSTILE}"],
    ["history"],
    ["history", "--json"],
    ["history", "--status", HOSTILE],
    ["history", "sessions"],
    ["history", "sessions", "--json"],
    ["history", "show", f"s{HOSTILE}"],
    ["history", "show", f"s{HOSTILE}", "--json"],
    ["history", "show", HOSTILE],
    ["history", "replay", f"s{HOSTILE}", "--speed", "0"],
    ["history", "replay", f"s{HOSTILE}", "--speed", "0", "--json"],
    ["history", "replay", HOSTILE],
    ["history", "approvals"],
    ["history", "approvals", "--json"],
    ["history", "interrupted"],
    ["history", "interrupted", "--json"],
    ["policy", "list"],
    ["policy", "list", "--json"],
    ["policy", "explain", PAY],
    ["policy", "explain", "look", f"what={HOSTILE}", "--json"],
    ["policy", "explain", HOSTILE],
    ["policy", "reference", HOSTILE],
    ["mcp", "list"],
    ["mcp", "list", "--json"],
    ["mcp", "tools"],
    ["mcp", "tools", SERVER, "--json"],
    ["mcp", "tools", HOSTILE],
    ["mcp", "test", SERVER],
    ["mcp", "test", "broken"],
    ["mcp", "test", "broken", "--json"],
    ["mcp", "test", HOSTILE],
    ["mcp", "trust", SERVER],
    ["mcp", "trust", SERVER, "--json"],
    ["mcp", "trust", SERVER, HOSTILE],
    ["mcp", "add", HOSTILE, "--config", "{folder}/new.yaml", "--", HOSTILE],
    ["mcp", "add", "ok", "--config", "{folder}/new.yaml", "--env", f"A={HOSTILE}", "--", HOSTILE],
    ["mcp", "add", "ok", HOSTILE, HOSTILE, "--header", HOSTILE],
    ["mcp", "remove", HOSTILE],
    ["mcp", "import", "{folder}/theirs.json", "--config", "{folder}/new.yaml"],
    ["mcp", "import", HOSTILE],
    ["mcp", "login", HOSTILE],
    ["mcp", "serve", "--http", HOSTILE],
    ["config", "check", "{folder}/faulty.yaml"],
    ["config", "check", "{folder}/faulty.yaml", "--json"],
    ["config", "check", HOSTILE],
    ["--verbose", "tools", "list", "--config", "{folder}/faulty.yaml"],
    ["events", "schema"],
]


def _name(command):
    words = (word.replace(HOSTILE, "HOSTILE").rpartition("/")[2] for word in command)
    return " ".join(words).replace("\x00", "")


@pytest.mark.parametrize("command", COMMANDS, ids=_name)
def test_no_command_lets_a_text_of_others_write_to_the_terminal(seen, command):
    shown = seen(*command, stdin="n\n")
    left = OWN.sub("", shown)
    assert left.strip()
    signs = {c for c in left if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp", "Cs"}}
    assert signs <= {"\n"}, ascii(signs)
    assert [line for line in left.splitlines() if line.startswith("FORGED")] == []
    assert "Traceback" not in left or "--debug" in command
    if "x<U+001B>" in left:  # markup is shown as it was written
        assert "[red]a[/red][/b][link=file:/" in left
