"""`leonidas mcp add`, `remove`, `import`: servers into the settings file and out."""

import json

import pytest
import yaml

from leonidas_tools.cli import mcp
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp.data_files import data_file

OWN = """\
version: 1  # the format

# What Leonidas may use.
mcp_servers:
  time:          # the clock
    command: uvx
    args: [mcp-server-time]
"""


@pytest.fixture
def run(invoke, settings):
    settings.write_text(OWN)
    return lambda *arguments: invoke(mcp.commands(), *arguments, "--config", settings)


@pytest.mark.parametrize(
    ("arguments", "server"),
    [
        (
            ["--", "npx", "-y", "server-files", "--root", "/work"],
            {"command": "npx", "args": ["-y", "server-files", "--root", "/work"]},
        ),
        (
            ["--env", "A=b=c", "--cwd", "/work", "--", "run"],
            {"command": "run", "env": {"A": "b=c"}, "cwd": "/work"},
        ),
        (
            ["https://host/mcp", "-H", "X-A: b:c", "--transport", "sse", "--login"],
            {
                "url": "https://host/mcp",
                "headers": {"X-A": "b:c"},
                "transport": "sse",
                "auth": {"grant": "authorization_code"},
            },
        ),
    ],
)
def test_a_server_is_added_behind_the_others_and_every_comment_stays(
    invoke, settings, arguments, server
):
    settings.write_text(OWN)
    finished = invoke(mcp.commands(), "add", "new", "--config", settings, *arguments)
    assert finished.exit_code == 0
    assert settings.read_text().startswith(OWN)
    assert yaml.safe_load(settings.read_text())["mcp_servers"]["new"] == server
    assert "new was added" in finished.stdout


def test_a_new_file_is_said_to_be_new(run, settings):
    settings.unlink(missing_ok=True)
    said = f"{settings} is new: from now on its tools are used here, not those of the demo"
    assert said in run("add", "a", "http://127.0.0.1:9/mcp").stderr
    assert "is new" not in run("add", "b", "http://127.0.0.1:9/mcp").stderr


def test_a_secret_is_better_a_variable_and_one_that_is_not_set_breaks_nothing(run, settings):
    finished = run("add", "a", "http://host/mcp", "-H", "X-Api-Key: s3cret")
    assert finished.stderr == (
        "a: headers.X-Api-Key has a secret in plain text; set an environment variable instead, "
        "and write ${A_X_API_KEY}\n"
    )
    finished = run("add", "b", "http://host/mcp", "-H", "X-Api-Key: ${NO_SUCH_VARIABLE}")
    assert finished.stderr == (
        "set the environment variable NO_SUCH_VARIABLE, or write it to .env: it is empty\n"
    )
    assert "${NO_SUCH_VARIABLE:-}" in settings.read_text()


def test_the_python_that_runs_us_needs_no_variable(invoke, settings, monkeypatch):
    monkeypatch.delenv("LEONIDAS_PYTHON", raising=False)
    command = ["${LEONIDAS_PYTHON}", "-m", "mcp_server_time"]
    finished = invoke(mcp.commands(), "add", "clock", "--config", settings, "--", *command)
    assert (finished.exit_code, finished.stderr) == (0, "")
    written = yaml.safe_load(settings.read_text())["mcp_servers"]["clock"]
    assert written == {"command": "${LEONIDAS_PYTHON}", "args": ["-m", "mcp_server_time"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "time", "http://host/mcp"], "There is an MCP server 'time' already"),
        (["add", "new", "http://"], "url must name a host"),
        (["remove", "tiem"], "There is no MCP server 'tiem'"),
        (
            ["login", "tiem"],
            "There is no MCP server 'tiem': did you mean 'time'? the settings have 'time'",
        ),
        (["login", "time"], "The MCP server 'time' is a command, which needs no login"),
        (["test", "other"], "There is no MCP server 'other': the settings have 'time'"),
        (["trust", "other"], "There is no MCP server 'other': the settings have 'time'"),
    ],
)
def test_what_cannot_be_done_changes_nothing(run, settings, arguments, message):
    with pytest.raises(ConfigurationError) as error:
        run(*arguments)
    assert message in str(error.value)
    assert settings.read_text() == OWN


@pytest.mark.parametrize(
    "arguments", [["http://host/mcp", "more"], ["http://host/mcp", "-H", "no colon"], []]
)
def test_wrong_usage_is_reported(run, settings, arguments):
    assert run("add", "new", *arguments).exit_code == 2
    assert settings.read_text() == OWN


def test_a_server_is_removed_with_all_that_was_kept_of_it(run, settings):
    run("add", "new", "http://host/mcp")
    kept = {
        name: [data_file(name, kind) for kind in ("tokens", "pins", "listing", "tools")]
        for name in ("new", "new-2")
    }
    kept["new"][0].parent.mkdir(parents=True)
    kept["new"] += [file.with_name(f"{file.name}.lock") for file in kept["new"]]
    for file in [*kept["new"], *kept["new-2"]]:
        file.write_text("{}")
    assert run("remove", "new").exit_code == 0
    assert settings.read_text() == OWN
    assert sorted(kept["new"][0].parent.iterdir()) == sorted(kept["new-2"])


def test_a_file_that_cannot_be_made_is_reported(invoke, settings):
    inside = settings / "tools.yaml"
    with pytest.raises(ConfigurationError, match=r"tools\.yaml: cannot be written \("):
        invoke(mcp.commands(), "add", "new", "http://host/mcp", "--config", inside)


def test_without_a_file_one_is_made(invoke, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert invoke(mcp.commands(), "add", "new", "http://host/mcp").exit_code == 0
    made = yaml.safe_load((tmp_path / "config" / "tools.yaml").read_text())
    assert made == {"version": 1, "mcp_servers": {"new": {"url": "http://host/mcp"}}}


def test_the_servers_of_another_program_are_taken_over(run, settings, tmp_path):
    theirs = tmp_path / "mcp.json"
    servers = {
        "notes": {"httpUrl": "https://notes.example/x", "headers": {"X-Key": "${env:NO_SUCH_KEY}"}},
        "time": {"command": "python"},
        "odd": {"command": "${command:pick}"},
        "off": {"command": "uvx", "disabled": True, "trust": True},
    }
    theirs.write_text(json.dumps({"mcpServers": servers}))
    finished = run("import", theirs)
    assert finished.exit_code == 1
    assert finished.stderr.splitlines() == [
        "off: `trust` is not imported: say under `policies.rules` which calls need no approval",
        "set the environment variable NO_SUCH_KEY, or write it to .env: it is empty",
        "odd: skipped: ${command:pick} is not known here: write its value, or ${NAME}",
        f"time: skipped: {settings} has a server of that name; remove or rename one",
    ]
    assert finished.stdout == f"{settings}: notes, off copied from {theirs}\n"
    assert settings.read_text().startswith(OWN)
    written = yaml.safe_load(settings.read_text())["mcp_servers"]
    assert (written["notes"], written["off"]) == (
        {
            "url": "https://notes.example/x",
            "transport": "http",
            "headers": {"X-Key": "${NO_SUCH_KEY:-}"},
        },
        {"command": "uvx", "enabled": False},
    )
