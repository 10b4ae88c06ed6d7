import json

import pytest
from mcp_types import LATEST_PROTOCOL_VERSION

from leonidas_tools.cli import mcp

SERVERS = """\
version: 1
mcp_servers:
  time:
    command: ${LEONIDAS_PYTHON}
    args: [-m, mcp_server_time]
  broken:
    command: no-such-command
  idle:
    enabled: false
    url: https://127.0.0.1:1/mcp
"""


@pytest.fixture
def run(invoke, settings):
    settings.write_text(SERVERS)
    return lambda *arguments: invoke(mcp.commands(), "list", "--config", settings, *arguments)


@pytest.mark.slow
def test_each_server_is_listed_with_its_state_and_tools(run):
    finished = run("--json")
    assert finished.exit_code == 1  # one server is down
    time, broken, idle = json.loads(finished.stdout)
    assert time.pop("connect_seconds") > 0
    assert time == {
        "name": "time",
        "transport": "stdio",
        "state": "ready",
        "protocol_version": LATEST_PROTOCOL_VERSION,
        "tools": ["get_current_time", "convert_time"],
        "quarantined": [],
        "last_error": None,
    }
    assert (broken["state"], broken["tools"]) == ("down", [])
    assert "no-such-command" in broken["last_error"]
    assert (idle["transport"], idle["state"], idle["last_error"]) == ("http", "disabled", None)


@pytest.mark.slow
def test_a_server_that_is_down_is_a_failure_and_one_that_is_off_is_none(invoke, settings, run):
    assert run().exit_code == 1
    off = "version: 1\nmcp_servers:\n  idle: {url: 'http://127.0.0.1:9/mcp', enabled: false}\n"
    settings.write_text(off)
    assert invoke(mcp.commands(), "list", "--config", settings).exit_code == 0


@pytest.mark.slow
def test_a_table_tells_people_the_same(run):
    lines = run().stdout.splitlines()
    assert [line.split()[:3] for line in lines[:2]] == [
        ["server", "transport", "state"],
        ["time", "stdio", "ready"],
    ]
