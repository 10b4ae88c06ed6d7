"""A secret of the environment, in any text of the settings, is in no view of them."""

import json
import logging

import pytest
from typer.testing import CliRunner

from leonidas_tools import ToolRuntime
from leonidas_tools.cli import config, mcp, tools
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.settings.check import check_against
from leonidas_tools.settings.json_schema import settings_schema
from leonidas_tools.settings.load import load
from leonidas_tools.settings.shown import differences, to_display
from leonidas_tools.settings.watch import WatchedSettings
from tests.console.served import Served

SECRET = "tok-7Jj5Nn1M3b"
SCHEMA = settings_schema()
REQUIRED = {
    "name": "n",
    "metric": "active",
    "above": 1,
    "decide": "deny",
    "question": "n",
    "grant": "client_credentials",
}
"""Values that make a section valid."""


@pytest.fixture(autouse=True)
def _secret(monkeypatch):
    monkeypatch.setenv("VAULT_TOKEN", SECRET)


def text_paths(schema, path=(), seen=()):
    """Yield the path of each value that may be text."""
    if "$ref" in schema:
        if schema["$ref"] in seen[-40:] and seen.count(schema["$ref"]) > 1:
            return
        seen = (*seen, schema["$ref"])
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    for option in schema.get("anyOf", ()):
        yield from text_paths(option, path, seen)
    if schema.get("type") == "string" and "enum" not in schema:
        yield path
    for name, inner in schema.get("properties", {}).items():
        yield from text_paths(inner, (*path, name), seen)
    more = schema.get("additionalProperties")
    if schema.get("type") == "object" and more:
        yield from text_paths({"type": "string"} if more is True else more, (*path, "k"), seen)
    if "items" in schema:
        yield from text_paths(schema["items"], (*path, 0), seen)


PATHS = sorted(
    {path for path in text_paths(SCHEMA) if path[0] not in ("texts", "mcpServers")}, key=str
)


def settings_with(path, value):
    """Return settings with a value at a path, and what its sections need."""
    for at in range(len(path) - 1, -1, -1):
        step = path[at]
        if step == 0:
            value = [value]
            continue
        value = {step: value}
        above = path[:at]
        if above[:1] == ("mcp_servers",) and len(above) == 2:
            of_url = ("url", "headers", "auth", "ca_file")
            other = {"url": "http://h/mcp"} if step in of_url else {"command": "c"}
            value = {**other, **value}
        if above in (("policies", "rules", 0), ("monitoring", "alerts", 0)):
            kind = ("name", "decide") if above[0] == "policies" else ("name", "metric", "above")
            value = {**{each: REQUIRED[each] for each in kind}, **value}
        if above == ("policies", "always", "k"):
            value = {"question": "n", **value}
    return value


def test_the_walk_finds_the_texts():
    assert len(PATHS) > 150
    assert {
        ("mcp_servers", "k", "command"),
        ("mcp_servers", "k", "cwd"),
        ("mcp_servers", "k", "tools", "k", "arguments", "k"),
        ("policies", "rules", 0, "message"),
        ("toolboxes", 0, "files", "roots", 0),
        ("store", "url"),
    } <= set(PATHS)


@pytest.mark.parametrize("written", ["${VAULT_TOKEN}", "/x/${VAULT_TOKEN}/y"])
def test_no_view_shows_a_secret(written):
    leaks, valid = [], 0
    for path in PATHS:
        try:
            settings = load(settings_with(path, written))
            views = [repr(settings), str(settings), json.dumps(to_display(settings))]
            views += [repr(each) for each in settings.mcp_servers.values()]
            views += [json.dumps(to_display(settings, "k")), *differences(load({}), settings)]
            views += [settings.masked(str(each)) for each in check_against(settings, {})]
            valid += 1
        except ConfigurationError as error:
            views = [str(error), repr(error)]
        leaks += [(path, view[:200]) for view in views if SECRET in view]
    assert leaks == []
    assert valid > len(PATHS) / 3


FILE = """\
version: 1
toolboxes:
  - demo
  - files: {roots: ["/nowhere/${VAULT_TOKEN}"]}
tools:
  roll_dice: {lane: "${VAULT_TOKEN}", description: "about ${VAULT_TOKEN}"}
  no_tool: {fallback_tools: ["x${VAULT_TOKEN}"]}
mcp_servers:
  one: {command: "/nowhere/${VAULT_TOKEN}/run", args: ["${VAULT_TOKEN}"]}
  two: {command: sh, cwd: "/nowhere/${VAULT_TOKEN}"}
  three: {url: "http://127.0.0.1:9/${VAULT_TOKEN}/mcp", ca_file: "/nowhere/${VAULT_TOKEN}"}
policies:
  rules: [{name: "r${VAULT_TOKEN}", decide: deny, tools: ["t${VAULT_TOKEN}"]}]
"""


@pytest.mark.parametrize(
    ("app", "words"),
    [
        (tools, ["list", "--json"]),
        (tools, ["list"]),
        (tools, ["show", "roll_dice"]),
        (mcp, ["list", "--json"]),
        (mcp, ["doctor"]),
        (config, ["check"]),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
@pytest.mark.parametrize("valid", [True, False])
def test_no_command_shows_a_secret(tmp_path, caplog, app, words, valid):
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "tools.yaml"
    file.write_text(FILE.replace("  - files: {", "  # ") if valid else FILE)
    finished = CliRunner().invoke(app.commands(), [*words, "--config", str(file)])
    assert SECRET not in finished.output + str(finished.exception) + caplog.text


async def test_the_console_shows_no_secret(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "tools.yaml"
    servers = "".join(FILE.partition("policies:")[0].partition("mcp_servers:")[1:])
    file.write_text(f"version: 1\n{servers}")
    async with Served(ToolRuntime(config=file)) as console:
        await console.tools.ready(timeout_seconds=30)
        for path in ("/api/servers", "/api/tools", "/api/health"):
            answer = await console.client.get(path)
            assert answer.status_code == 200
            assert SECRET not in answer.text
    assert "is down" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "servers",
    [
        {f"a-{SECRET}": {"command": "c", "args": ["${VAULT_TOKEN}"]}},
        {"a-0123456789": {"url": "http://h/mcp", "headers": {"Authorization": "B 0123456789"}}},
    ],
)
def test_a_server_named_by_a_secret_is_refused(servers):
    with pytest.raises(ConfigurationError, match="the name of a server contains one") as caught:
        load({"mcp_servers": servers})
    assert next(iter(servers)) not in str(caught.value)


def test_an_invalid_edit_logs_no_secret(tmp_path, caplog):
    file = tmp_path / "tools.yaml"
    file.write_text("version: 1\n")
    watched = WatchedSettings(file)
    watched.add_check(lambda settings: check_against(settings, {}))
    file.write_text('tools: {t: {fallback_tools: ["x${VAULT_TOKEN}"]}}\n')
    with pytest.raises(ConfigurationError) as caught:
        watched.reload()
    assert "there is no tool" in str(caught.value)
    assert SECRET not in str(caught.value) + caplog.text
