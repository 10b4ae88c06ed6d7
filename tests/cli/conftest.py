"""The program as a user starts it, and single commands in this process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import leonidas_tools
from tests.mcp.forking import fork_command

KEYS = (
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_GENAI_USE_ENTERPRISE",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "LEONIDAS_CONFIG",
    "LEONIDAS_AGENT_MODEL",
    "LEONIDAS_MODEL",
    "LEONIDAS_PROFILE",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
)
PROGRAM = Path(leonidas_tools.__file__).with_name("__main__.py")
SETTINGS = "version: 1\ntoolboxes: [leonidas_tools.toolboxes.demo]\n"


@pytest.fixture
def settings(tmp_path):
    """A settings file with the demo's tools and without MCP servers."""
    file = tmp_path / "tools.yaml"
    file.write_text(SETTINGS)
    return file


@pytest.fixture
def environment():
    """The environment without what would lead to a real session."""
    return {key: value for key, value in os.environ.items() if key not in KEYS}


@pytest.fixture
def command(tmp_path):
    """How to start the program, in a folder of its own."""

    def options(env):
        return {
            "args": [sys.executable, "-m", "leonidas_tools"],
            "cwd": tmp_path,
            "env": env,
            "encoding": "utf-8",
        }

    return options


@pytest.fixture
def leonidas(command, environment, forking):
    """Runs the program to its end: `leonidas("run", "demo", stdin=…, GEMINI_API_KEY=…)`."""

    def run(*arguments, stdin="", **variables):
        options = command({**environment, **variables})
        options["args"] = fork_command(PROGRAM, *arguments)
        return _run(options, stdin)

    return run


@pytest.fixture
def started(command, environment):
    """Runs the program to its end from the start of its Python: `started("run", "demo")`."""

    def run(*arguments):
        options = command(environment)
        options["args"] += map(str, arguments)
        return _run(options)

    return run


def _run(options, stdin=""):
    return subprocess.run(**options, input=stdin, capture_output=True, timeout=60, check=False)


@pytest.fixture
def invoke():
    """Runs one group of commands in this process, which takes a tenth of the time."""

    def run(app, *arguments):
        return CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)

    return run
