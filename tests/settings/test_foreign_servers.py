"""MCP servers as other programs write them down."""

import json

import pytest

from leonidas_tools import MCPToolProcessor
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.settings.foreign_servers import foreign_servers, read_foreign
from leonidas_tools.settings.load import load

FILES = {
    "Claude Desktop": (
        "claude_desktop_config.json",
        """{"mcpServers": {
            "files": {"command": "npx", "args": ["-y", "server-filesystem", "/work"]},
            "brave": {"command": "npx", "env": {"BRAVE_API_KEY": "plain-s3cret", "N": 3}}}}""",
        {
            "files": {"command": "npx", "args": ["-y", "server-filesystem", "/work"]},
            "brave": {"command": "npx", "env": {"BRAVE_API_KEY": "plain-s3cret", "N": "3"}},
        },
        [
            (
                "brave: env.BRAVE_API_KEY has a secret in plain text; set an environment variable "
                "instead, and write ${BRAVE_API_KEY}"
            )
        ],
    ),
    "VS Code": (
        ".vscode/mcp.json",
        """{ // what VS Code allows
          "inputs": [{"type": "promptString", "id": "api-key", "description": "Your key"}],
          "servers": {
            "local": {"type": "stdio", "command": "${workspaceFolder}/run",
                      "env": {"KEY": "${input:api-key}", "A": "${env:B}"}, "envFile": ".env"},
            "remote": {"type": "http", "url": "https://api.example/mcp",
                       "headers": {"Authorization": "Bearer ${input:api-key}"}},
          },
        }""",
        {
            "local": {
                "command": "{folder}/run",
                "env": {"KEY": "${API_KEY}", "A": "${B}"},
            },
            "remote": {
                "url": "https://api.example/mcp",
                "transport": "http",
                "headers": {"Authorization": "Bearer ${API_KEY}"},
            },
        },
        [
            (
                "local: `envFile` is not imported: load it before Leonidas starts, or name each "
                "variable under `env`"
            ),
            "set the environment variable API_KEY (Your key)",
        ],
    ),
    "opencode": (
        "opencode.json",
        """{"mcp": {
            "clock": {"type": "local", "command": ["uvx", "mcp-server-time"], "enabled": true,
                      "environment": {"TZ": "UTC"}},
            "far": {"type": "remote", "url": "https://api.example/mcp"}}}""",
        {
            "clock": {"command": "uvx", "args": ["mcp-server-time"], "env": {"TZ": "UTC"}},
            "far": {"url": "https://api.example/mcp", "transport": "http"},
        },
        [],
    ),
    "Continue": (
        "config.json",
        """{"mcpServers": [{"name": "shell", "command": "sh -c 'run it'", "args": ["-v"]}]}""",
        {"shell": {"command": "sh", "args": ["-c", "run it", "-v"]}},
        [],
    ),
    "Gemini CLI": (
        ".gemini/settings.json",
        """{"theme": "Dracula", "mcpServers": {
            "stream": {"httpUrl": "https://api.example/x", "timeout": 5000, "trust": true,
                       "headers": {"X-Key": "$MY_KEY"},
                       "includeTools": ["a"], "excludeTools": ["b"]},
            "events": {"url": "https://api.example/sse",
                       "oauth": {"enabled": true, "clientId": "me", "scopes": ["use"]}}}}""",
        {
            "stream": {
                "url": "https://api.example/x",
                "transport": "http",
                "headers": {"X-Key": "${MY_KEY}"},
                "include": ["a"],
                "exclude": ["b"],
                "timeout": 5.0,
            },
            "events": {
                "url": "https://api.example/sse",
                "auth": {"client_id": "me", "scopes": ["use"]},
            },
        },
        [
            (
                "stream: `trust` is not imported: say under `policies.rules` which calls need no "
                "approval"
            )
        ],
    ),
    "Cursor": (
        ".cursor/mcp.json",
        """{"mcpServers": {
            "remote": {"url": "${env:URL:-https://api.example/mcp}",
                       "auth": {"CLIENT_ID": "me", "CLIENT_SECRET": "${env:S}"}},
            "off": {"command": "uvx", "disabled": true, "alwaysAllow": []}}}""",
        {
            "remote": {
                "url": "${URL:-https://api.example/mcp}",
                "auth": {"client_id": "me", "client_secret": "${S}"},
            },
            "off": {"command": "uvx", "enabled": False},
        },
        [
            (
                "off: `alwaysAllow` is not imported: say under `policies.rules` which calls need "
                "no approval"
            )
        ],
    ),
    "only the servers": (
        "servers.json",
        """{"one": {"command": "uvx"}, "two": {"url": "http://host/mcp", "type": "sse"}}""",
        {"one": {"command": "uvx"}, "two": {"url": "http://host/mcp", "transport": "sse"}},
        [],
    ),
}


@pytest.mark.parametrize("program", FILES)
def test_a_file_of_another_program_is_taken_over(tmp_path, monkeypatch, program):
    name, text, servers, notes = FILES[program]
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    found = read_foreign(file)
    expected = json.loads(json.dumps(servers).replace("{folder}", str(tmp_path)))
    assert (found.servers, found.notes, found.refused) == (expected, notes, {})
    for variable in ("API_KEY", "B", "MY_KEY", "S"):
        monkeypatch.setenv(variable, "set")
    assert list(load({"mcp_servers": found.servers}).mcp_servers) == list(servers)


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("text", "it should be a mapping"),
        ({"args": ["x"]}, "it has neither a command nor a url"),
        (
            {"url": "http://host/", "type": "websocket"},
            "its transport 'websocket' is not supported: choose stdio, http or sse",
        ),
        (
            {"command": "${command:extension.pick}"},
            "${command:extension.pick} is not known here: write its value, or ${NAME}",
        ),
    ],
)
def test_a_server_that_cannot_be_taken_over_says_why_and_the_others_are(server, why):
    found = foreign_servers({"mcpServers": {"bad": server, "good": {"command": "uvx"}}})
    assert (found.servers, found.refused) == ({"good": {"command": "uvx"}}, {"bad": why})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON: correct it, or name the file that lists the MCP servers"),
        ("[]", "has no MCP servers: list them under 'mcpServers' or 'servers'"),
        ('{"theme": "dark"}', "has no MCP servers: list them under 'mcpServers' or 'servers'"),
    ],
)
def test_a_file_without_servers_is_an_error(tmp_path, text, message):
    file = tmp_path / "mcp.json"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as error:
        read_foreign(file)
    assert error.value.message == message


def test_settings_take_the_servers_of_other_programs_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKEN_OF_TEST", "abc")
    file = tmp_path / "mcp.json"
    headers = {"X-Key": "${env:TOKEN_OF_TEST}"}
    file.write_text(json.dumps({"mcpServers": {"a": {"url": "http://h/mcp", "headers": headers}}}))
    server = load(file).mcp_servers["a"]
    assert (server.url, server.headers) == ("http://h/mcp", {"X-Key": "abc"})


def test_settings_name_the_line_of_a_server_that_cannot_be_taken_over(tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text(
        "mcp_servers:\n  twice: {command: a}\n"
        "mcpServers:\n  twice: {command: b}\n  none: {args: [x]}\n"
    )
    with pytest.raises(ConfigurationError) as error:
        load(file)
    assert [(p.line, p.key, p.message) for p in error.value.problems] == [
        (4, "mcpServers.twice", "is also under 'mcp_servers': remove one"),
        (5, "mcpServers.none", "it has neither a command nor a url"),
    ]


def test_the_mcp_category_reads_such_a_file(tmp_path):
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"time": {"command": "mcp-server-time"}}}')
    assert [s["name"] for s in MCPToolProcessor.from_json(file).servers.status()] == ["time"]
    file.write_text('{"mcpServers": {"time": {}}}')
    with pytest.raises(ConfigurationError, match="neither a command nor a url"):
        MCPToolProcessor.from_json(file)
