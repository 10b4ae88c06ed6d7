"""The MCP servers of the documentation start as a user pastes them, with a bare `PATH`."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ADD = ROOT / "leonidas_tools" / "cli" / "mcp" / "add.py"
CALL = ["tools", "call", "get_current_time", "timezone=UTC"]
ASK = """

import asyncio as asyncio_of_the_test


async def ask():
    async with agent_tools:
        await agent_tools.ready(timeout_seconds=30)
        return await agent_tools.execute("get_current_time", {"timezone": "UTC"})


answer = asyncio_of_the_test.run(ask())
assert answer.ok, answer
"""


def fences(language):
    for page in PAGES:
        yield from re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S)


def settings_with_servers():
    texts = [*fences("yaml"), (ROOT / "config" / "tools.yaml").read_text()]
    return [text for text in texts if "mcp_servers" in (yaml.safe_load(text) or {})]


def programs_with_servers():
    return [text for text in fences("python") if '"mcp_servers"' in text]


def added_commands():
    lines = [*"\n".join(fences("sh")).splitlines(), *ADD.read_text().splitlines()]
    named = [line.strip().removeprefix("Example: ") for line in lines]
    return [line for line in named if line.startswith("leonidas mcp add time")]


@pytest.fixture
def run(tmp_path):
    """Run a command of the environment by the full path of its Python, as a user would."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    assert not any(key.startswith("LEONIDAS_") for key in environment)

    def run(*arguments):
        ran = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    return run


@pytest.mark.parametrize("text", settings_with_servers())
def test_a_server_in_yaml_answers(text, run, tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text(text)
    assert '"status": "ok"' in run("-m", "leonidas_tools", *CALL, "--config", str(file))


@pytest.mark.parametrize("text", programs_with_servers())
def test_a_server_in_python_answers(text, run):
    run("-c", text + ASK)


@pytest.mark.parametrize("line", added_commands())
def test_a_server_that_is_added_answers(line, run):
    _, *arguments = shlex.split(line, comments=True)
    run("-m", "leonidas_tools", *arguments)
    assert '"status": "ok"' in run("-m", "leonidas_tools", *CALL)


def test_there_is_a_snippet_of_each_kind():
    assert settings_with_servers()
    assert programs_with_servers()
    assert len(added_commands()) >= 2


def test_no_snippet_names_a_python_that_is_whichever_comes_first_on_the_path():
    files = [*PAGES, ADD, *ROOT.glob("config/*.yaml"), *ROOT.glob("notebooks/*.ipynb")]
    named = r"command\W+python|mcp add \S+ -- python"
    assert [file.name for file in files if re.search(named, file.read_text())] == []
