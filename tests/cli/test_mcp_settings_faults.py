"""What `leonidas mcp add`, `remove` and `import` refuse: one clear error, and nothing written."""

import json

import pytest
import yaml

from leonidas_tools.cli import mcp
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.settings.load import load

NAME = "is not a valid server name: a name has 1 to 100 visible characters"
URL = "http://host/mcp"


def tree(folder):
    """All that is in a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def refused(invoke, tmp_path, monkeypatch):
    """Runs a command that must end with an error and change nothing; gives the error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        before = tree(tmp_path)
        try:
            finished = invoke(mcp.commands(), *arguments)
        except ConfigurationError as error:
            said = str(error)
        else:
            assert finished.exit_code in {1, 2}, finished.output
            said = finished.stderr
        assert tree(tmp_path) == before
        return said

    return run


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", "\t", " a", "a ", "a\nb", "a\x1b[2Jb", "a\x00", "a\u200bb", "a\u202eb"),
        *("\ud800", "x" * 101, "x" * 100_000),
    ],
)
def test_an_unreadable_or_untypable_name_is_refused(refused, tmp_path, name):
    assert NAME in refused("add", name, URL)
    file = tmp_path / "theirs.json"
    file.write_text(json.dumps({"mcpServers": {name: {"command": "x"}}}))
    assert NAME in refused("import", file)
    with pytest.raises(ConfigurationError, match=NAME):
        load({"mcp_servers": {name: {"command": "x"}}})


def test_a_name_that_would_be_an_option_is_refused(refused):
    assert NAME in refused("add", "--", "-x", "run")


@pytest.mark.parametrize(
    "name",
    ["a b", "a.b", "a: b", "#", "名前", "null", "1", "__", "x" * 100],
)
def test_any_other_name_is_kept_as_it_is_and_found_again(invoke, tmp_path, name):
    settings = tmp_path / "tools.yaml"
    added = invoke(mcp.commands(), "add", name, URL, "--config", settings)
    assert added.exit_code == 0
    written = yaml.safe_load(settings.read_text())
    assert written == {"version": 1, "mcp_servers": {name: {"url": URL}}}
    assert invoke(mcp.commands(), "remove", name, "--config", settings).exit_code == 0
    assert not yaml.safe_load(settings.read_text())["mcp_servers"]
    assert list(tmp_path.iterdir()) == [settings]


@pytest.mark.parametrize("name", ["bad/name", "../a", "@org/server", "/", "a\\b"])
def test_a_name_with_a_slash_is_refused_with_the_rule(refused, name):
    told = refused("add", name, URL)
    assert "cannot be the name of a server" in told
    assert told.endswith("use letters, digits, '_', '-' and '.'")


def test_the_suggested_command_can_be_typed(invoke, tmp_path):
    settings = tmp_path / "tools.yaml"
    added = invoke(mcp.commands(), "add", "my notes", URL, "--config", settings)
    assert added.stdout.endswith("to test it: leonidas mcp test 'my notes'\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "x", ""], "mcp_servers.x.command: must not be empty"),
        (["add", "x", "ftp://host"], "begin it with http:// or https://"),
        (["add", "x", "http://"], "mcp_servers.x: url must name a host"),
        (["add", "x", URL, "--transport", "odd"], "mcp_servers.x.transport: 'odd' is not one of"),
        (["add", "x", URL, "--env", "A=b"], "env has no effect with transport 'http'"),
        (["add", "x", "--login", "--", "run"], "auth has no effect with transport 'stdio'"),
        (["remove", "x"], "config/tools.yaml: There is no MCP server 'x'"),
        (["remove", ""], "There is no MCP server ''"),
        (
            ["import", "nowhere.json"],
            "nowhere.json: there is no such file: correct the path, or create it",
        ),
        (["import", "."], ".: is a directory: name the file in it"),
        (["import", "/dev/null"], "cannot be read: it is a device"),
        (
            ["add", "x", URL, "--config", "/proc/none/x.yaml"],
            "cannot be written (No such file or directory): name a file in a folder",
        ),
        (["add", "x", URL, "--config", "."], "is a directory: name the file in it"),
        (["remove", "x", "--config", "/proc/none/x.yaml"], "There is no MCP server 'x'"),
    ],
)
def test_what_fails_leaves_no_file_behind(refused, arguments, said):
    assert said in refused(*arguments)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 200_000, "is not JSON"),
        (b"[]", "has no MCP servers"),
        (b'{"mcpServers": {}}', "has no MCP servers"),
        (b'{"mcpServers": []}', "has no MCP servers"),
        (b'{"mcpServers": {"x": null}}', "x: skipped: it should be a mapping"),
        (b'{"mcpServers": {"x": {"command": 5}}}', "x: skipped: command: should be text"),
        (b'{"mcpServers": {"x": {"command": "a", "args": {"b": 1}}}}', "x: skipped: args: should"),
        (b'{"mcpServers": {"x": {"url": "http://"}}}', "x: skipped: url must name a host"),
        (b'{"mcpServers": {"a\\u001b[2J": {"command": "x"}}}', r"'a\x1b[2J': skipped: "),
    ],
)
def test_a_file_of_another_program_that_brings_nothing_is_reported(
    refused, tmp_path, content, said
):
    file = tmp_path / "theirs.json"
    file.write_bytes(content)
    assert said in refused("import", file)


def test_a_server_that_is_wrong_keeps_no_other_from_being_taken_over(invoke, tmp_path):
    theirs, settings = tmp_path / "theirs.json", tmp_path / "tools.yaml"
    servers = {"bad": {"url": "http://"}, "": {"command": "x"}, "good": {"command": "x"}}
    theirs.write_text(json.dumps({"mcpServers": servers}))
    finished = invoke(mcp.commands(), "import", theirs, "--config", settings)
    assert (finished.exit_code, len(finished.stderr.splitlines())) == (1, 2)
    assert yaml.safe_load(settings.read_text())["mcp_servers"] == {"good": {"command": "x"}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty: write at least 'version: 1'"),
        ("[", "is not YAML"),
        ("a: [", "is not YAML"),
        ("- x", "should be a mapping"),
        ("mcp_servers: 5", "mcp_servers: 5 should be a mapping"),
        ("mcp_servers: [x]", "mcp_servers: should be a mapping"),
        ("mcp_servers: x", "mcp_servers: 'x' should be a mapping"),
        ("mcpServers: x", "mcpServers"),
    ],
)
def test_settings_that_are_broken_stay_as_they_are(refused, tmp_path, content, said):
    settings, theirs = tmp_path / "tools.yaml", tmp_path / "theirs.json"
    settings.write_text(content)
    theirs.write_text('{"mcpServers": {"x": {"command": "a"}}}')
    for arguments in (["add", "x", URL], ["remove", "x"], ["import", theirs]):
        assert said in refused(*arguments, "--config", settings)


def test_a_server_that_is_wrong_can_be_removed(invoke, tmp_path):
    settings = tmp_path / "tools.yaml"
    settings.write_text("version: 1\nmcp_servers:\n  '': {url: 'http://'}\n  x: {command: a}\n")
    assert invoke(mcp.commands(), "remove", "", "--config", settings).exit_code == 0
    assert yaml.safe_load(settings.read_text()) == {
        "version": 1,
        "mcp_servers": {"x": {"command": "a"}},
    }


@pytest.mark.parametrize(
    ("server", "message"),
    [
        (
            {"url": URL, "auth": {"client_metadata_url": "http://host/client.json"}},
            "client_metadata_url must be an https:// address with a path",
        ),
        (
            {"url": URL, "auth": {"client_metadata_url": "https://host"}},
            "client_metadata_url must be an https:// address with a path",
        ),
        (
            {"url": URL, "auth": {"client_id": "a", "client_metadata_url": "https://host/c"}},
            "client_metadata_url has no effect beside client_id: remove one",
        ),
    ],
)
def test_a_server_is_refused_with_a_sentence(server, message):
    with pytest.raises(ConfigurationError) as error:
        load({"mcp_servers": {"s": server}})
    assert message in str(error.value)


@pytest.mark.parametrize(
    "option",
    [{"sampling": {}}, {"roots": ["/"]}, {"log_level": "off"}],
    ids=lambda x: next(iter(x)),
)
def test_a_deprecated_option_has_no_effect(option, caplog):
    loaded = load({"mcp_servers": {"s": {"command": "x", **option}}})
    assert loaded == load({"mcp_servers": {"s": {"command": "x"}}})
    assert f"{next(iter(option))!r} has no effect, because MCP has deprecated it" in caplog.text


def test_a_command_line_is_a_command_and_its_arguments(tmp_path):
    spaced = tmp_path / "my server"
    spaced.touch(mode=0o755)
    servers = {
        "text": {"command": "sh -c 'run it'", "args": ["-v"]},
        "list": {"command": ["sh", "-c", "run it"]},
        "path": {"command": str(spaced)},
        "unknown": {"command": "no-such-program --x"},
    }
    read = load({"mcp_servers": servers}).mcp_servers
    assert {name: (each.command, each.args) for name, each in read.items()} == {
        "text": ("sh", ("-c", "run it", "-v")),
        "list": ("sh", ("-c", "run it")),
        "path": (str(spaced), ()),
        "unknown": ("no-such-program", ("--x",)),
    }
