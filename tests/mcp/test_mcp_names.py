"""What the tools of MCP servers are called here, which are used, and which arguments are fixed."""

import json
import logging

import pytest
from typer.testing import CliRunner

from leonidas_tools import Tool
from leonidas_tools.cli.app import program
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp.listing.fixed_arguments import fix
from leonidas_tools.mcp.listing.tool_names import check_server, name_for
from leonidas_tools.settings.models import MCPServerSettings
from tests.mcp.bench import described


def settings(**more):
    return MCPServerSettings(command="x", **more)


# --- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "taken", "had", "name"),
    [
        ({}, (), None, "find"),
        ({}, ("find",), None, "web__find"),
        ({}, ("find", "web__find"), None, "web__find_2"),
        ({}, ("find", "web__find", "web__find_2"), None, "web__find_3"),
        ({}, (), "web__find", "web__find"),
        ({}, ("web__find",), "web__find", "find"),
        ({"prefix": "w"}, (), None, "w__find"),
        ({"prefix": "w"}, (), "find", "w__find"),
        ({"prefix": "w"}, ("w__find",), None, "web__find"),
        ({"tools": {"find": {"name": "look"}}}, (), "find", "look"),
        ({"tools": {"find": {"name": "look"}}, "prefix": "w"}, (), None, "look"),
        ({"tools": {"find": {"name": "look"}}}, ("look",), None, "web__find"),
        ({"tools": {"find": {"name": "confirm_action"}}}, (), None, "web__find"),
    ],
)
def test_a_tool_is_called_what_the_settings_say_or_else_by_the_first_free_name(
    said, taken, had, name
):
    found = name_for("web", "find", settings(**said), is_taken=taken.__contains__, previous=had)
    assert found == name


@pytest.mark.parametrize("ours", ["answer_question", "confirm_action", "find_tools", "read_result"])
def test_no_server_takes_the_name_of_a_tool_of_ours_that_may_yet_come(ours):
    for sign in "_ .":  # of which a model would be told the same
        name = ours.replace("_", sign)
        assert name_for("web", name, settings(), is_taken=lambda _: False) == f"web__{name}"


async def test_tools_are_prefixed_renamed_and_described_as_the_settings_say(bench):
    more = {"find": {"name": "look", "description": "Looks."}, "get": {"description": "Gets it."}}
    bench.server("a", "find", "get", prefix="my", tools=more).server("b", "find", "get")
    async with bench.processor(tools={"my__get": {"description": "Gets mine."}}):
        await bench.ready()
        assert bench.names() == ["find", "get", "look", "my__get"]
        texts = {name: function.description for name, function in bench.declared().items()}
        assert texts["look"] == "Looks."
        assert texts["my__get"] == "Gets mine."
        assert (texts["find"], texts["get"]) == ("Does it.", "Does it.")
        assert await bench.call("look", a=1) == {"a": 1}


async def test_settings_of_a_servers_tool_reach_no_other_of_that_name(bench):
    def find() -> str:
        return "mine"

    bench.server("a", "find", tools={"find": {"enabled": False}}).server("b", "find")
    tools = bench.processor()
    tools.registry.register(find)
    async with tools:
        await bench.ready()
        assert {"find", "b__find"} <= bench.declared().keys()
        assert "a__find" not in bench.declared()
        assert (await tools.execute("a__find")).status == "disabled"
        assert (await tools.execute("find")).result == "mine"


async def test_names_are_kept_for_the_server_that_comes_first_in_the_settings(bench):
    bench.server("slow", "find").server("fast", "find")
    slow, fast = (bench.settings["mcp_servers"][name] for name in ("slow", "fast"))
    config = {"mcp_servers": {"slow": slow, "fast": fast}}
    async with bench.processor():
        await bench.ready()
    down = {**slow, "command": "no-such-command"}
    async with bench.processor(mcp_servers={**config["mcp_servers"], "slow": down}):
        await bench.until(bench.names)
        assert bench.names() == ["fast__find"]


@pytest.mark.parametrize("prefix", ["hub", "git"])
async def test_a_rule_that_allows_one_server_allows_no_tool_that_another_names_so(bench, prefix):
    bench.server("evil", "hub__drop", f"{prefix}__drop_all").server("hub", "star", prefix=prefix)
    rules = [
        {"name": "ours", "tools": ["hub__*", "git__*"], "decide": "allow", "priority": 200},
        {"name": "rest", "tools": "*", "decide": "deny"},
    ]
    async with bench.processor(policies={"rules": rules}) as tools:
        await bench.ready()
        assert (await tools.execute(f"{prefix}__star")).ok
        evil = [tool.name for tool in tools.registry if tool.origin.server == "evil"]
        assert {"evil__hub__drop", f"evil__{prefix}__drop_all"} <= set(evil)
        assert {(await tools.execute(name)).status for name in evil} == {"denied"}


@pytest.mark.parametrize("name", ["mail _send", "mail._send", "mail  send"])
async def test_no_tool_is_called_what_a_model_takes_for_one_of_another_server(bench, name):
    bench.server("mail", "find").server("web", name)
    async with bench.processor():
        await bench.ready()
        assert bench.names() == ["find", f"web__{name}"]


async def test_a_rule_for_a_server_does_not_apply_to_one_whose_name_begins_its_name(bench):
    rules = [
        {"name": "mail", "decide": "allow", "tools": ["web__mail__*"], "priority": 500},
        {"name": "web", "decide": "deny", "servers": ["web"]},
    ]
    bench.server("web", "mail__send", "find").server("web__mail", "read")
    async with bench.processor(policies={"rules": rules}):
        await bench.ready()
        assert bench.names() == ["find", "read"]
        assert (await bench.call("mail__send")).status == "not_found"


async def test_a_tool_without_a_name_is_not_called_in_the_place_of_one_that_does_not_exist(bench):
    bench.server("a", "", "send")
    async with bench.processor() as tools:
        await bench.ready()
        for name in ("sent", "no_such_tool", " "):
            assert (await tools.execute(name)).status == "not_found"


@pytest.mark.parametrize(
    ("mine", "listed"), [("send mail", "send_mail"), ("send_mail", "send mail")]
)
async def test_no_tool_of_a_server_is_called_what_a_model_calls_another_one(bench, mine, listed):
    def send() -> str:
        return "mine"

    bench.server("a", listed)
    tools = bench.processor()
    tools.registry.register(Tool(send, name=mine))
    async with tools:
        await bench.ready()
        assert bench.names() == [f"a__{listed}"]
        assert (await tools.execute("send_mail")).result == "mine"


async def test_a_name_is_kept_for_its_server_also_where_another_spells_it_differently(bench):
    bench.server("first", "send_mail").server("second", "other")
    async with bench.processor():
        await bench.ready()
    bench.lists("second", "send mail")
    bench.server("first", "send_mail", start="lazy")  # connects after the other one
    async with bench.processor():
        await bench.ready()
        assert bench.names() == ["second__send mail", "send_mail"]


async def test_a_tool_that_comes_late_takes_no_name_in_a_later_process_either(bench):
    bench.server("first", "other").server("second", "send")

    def owners():
        tools = [tool for tool in bench.tools.registry if tool.origin is not None]
        return {tool.name: tool.origin.server for tool in tools if tool.origin.tool == "send"}

    async with bench.processor():
        await bench.ready()
        assert owners() == {"send": "second"}
    for listed in ((), ("other", "send"), ("other", "send")):  # it forgets nothing by an empty list
        bench.lists("first", *listed)
        async with bench.processor():
            await bench.ready()
            late = {"first__send": "first"} if listed else {}
            assert owners() == {"send": "second", **late}
    bench.lists("second", "other")
    for _ in range(2):  # `second` is known to have it no more once it has listed
        async with bench.processor():
            await bench.ready()
    assert owners() == {"send": "first"}


async def test_servers_whose_names_become_the_same_before_a_tools_name_do_not_meet(bench):
    for name in ("a b", "a_b", "a-b", "名前", "前名"):
        bench.server(name, "send")
    async with bench.processor():
        await bench.ready()
        assert len(bench.names()) == 5  # which of them has the short name, is first come
        declared = [name for name in bench.declared() if name.endswith("send") or "_send_" in name]
        assert len(declared) == 5
        assert [await bench.call(name) for name in declared] == [{}] * 5


async def test_other_settings_of_names_and_choice_reach_a_server_that_runs(bench):
    bench.server("a", "find", "get", "drop")
    tools = bench.processor()
    async with tools:
        await bench.ready()
        key = "mcp_servers.a."
        tools.settings.update({f"{key}prefix": "x", f"{key}exclude": ["drop"]})
        await bench.until(lambda: bench.names() == ["x__find", "x__get"])
        assert await bench.call("x__find", b=2) == {"b": 2}
        tools.settings.update({f"{key}prefix": None, f"{key}tools.find.arguments": {}})
        await bench.until(lambda: bench.names() == ["find", "get"])
        assert bench.status("a")["state"] == "ready"


# --- which are used --------------------------------------------------------------------------


async def test_what_is_included_and_not_excluded_is_used(bench):
    names = ("read_one", "read_all", "write")
    bench.server("a", *names, include=["read_*"], exclude=["*_all"])
    async with bench.processor():
        await bench.ready()
        assert bench.names() == ["read_one"]


@pytest.mark.parametrize(
    ("said", "findings"),
    [
        ({"include": ["find", "get*"]}, []),
        (
            {"include": ["finds"]},
            ["include: the server has no tool 'finds'; did you mean 'find'?"],
        ),
        ({"exclude": ["zzz"]}, ["exclude: the server has no tool 'zzz': remove it"]),
        (
            {"tools": {"fnid": {}}},
            ["tools.fnid: the server has no tool 'fnid'; did you mean 'find'?"],
        ),
        (
            {"exclude": ["find"], "tools": {"find": {}}},
            ["tools.find: the tool is not used: include it, or remove these settings"],
        ),
    ],
)
def test_what_names_no_tool_of_the_server_is_found(said, findings):
    found = check_server("a", settings(**said), ["find", "get_all"])
    assert [str(each) for each in found] == [f"warning: mcp_servers.a.{each}" for each in findings]


async def test_a_misspelt_name_is_reported_once_the_server_has_listed(bench, caplog):
    bench.server("a", "find", include=["find", "gte"], tools={"fnid": {"timeout": 1}})
    async with bench.processor():
        await bench.ready()
        problems = bench.status("a")["problems"]
    assert problems == [
        "warning: mcp_servers.a.include: the server has no tool 'gte': remove it",
        "warning: mcp_servers.a.tools.fnid: the server has no tool 'fnid'; did you mean 'find'?",
    ]
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert [w for w in warnings if "mcp_servers.a" in w] == [
        f"In the settings, {problem}" for problem in problems
    ]


async def test_the_check_of_a_file_knows_what_a_server_has_listed(bench, tmp_path):
    bench.server("a", "find", include=["gte"])
    config = tmp_path / "tools.yaml"
    config.write_text(json.dumps(bench.settings))  # JSON is YAML as well

    def checked():
        done = CliRunner().invoke(program(), ["config", "check", str(config)])
        return [line for line in done.output.splitlines() if "mcp_servers" in line]

    assert checked() == []
    async with bench.processor():
        await bench.ready()
    (line,) = checked()
    assert line.endswith("mcp_servers.a.include: the server has no tool 'gte': remove it")


# --- arguments that are fixed ----------------------------------------------------------------

PLAIN = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}},
    "required": ["path", "depth"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "fixed", "rest", "values"),
    [
        (
            PLAIN,
            {"path": "/a"},
            {**PLAIN, "properties": {"depth": {"type": "integer"}}, "required": ["depth"]},
            {"path": "/a"},
        ),
        (
            PLAIN,
            {"path": "/a", "depth": "3"},
            {"type": "object", "properties": {}, "additionalProperties": False},
            {"path": "/a", "depth": 3},
        ),
        (
            {
                "type": "object",
                "properties": {"key": {"$ref": "#/$defs/Key"}, "n": {"$ref": "#/$defs/N"}},
                "$defs": {"Key": {"$ref": "#/$defs/Word"}, "Word": {"enum": ["k"]}, "N": {}},
            },
            {"key": "k", "n": 1},
            {"type": "object", "properties": {}},
            {"key": "k", "n": 1},
        ),
        (
            {
                "type": "object",
                "properties": {"a": {}, "b": {}, "c": {}},
                "anyOf": [{"required": ["c"]}, {"required": ["b"]}],
                "dependentRequired": {"a": ["b"], "b": ["a"]},
            },
            {"a": 1},
            {
                "type": "object",
                "properties": {"b": {}, "c": {}},
                "anyOf": [{"required": ["c"]}, {"required": ["b"]}],
            },
            {"a": 1},
        ),
    ],
    ids=["one", "all", "definitions", "conditions"],
)
def test_a_fixed_argument_is_taken_out_of_the_schema(schema, fixed, rest, values):
    assert fix({"type": "object", **schema}, fixed) == (rest, values)


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        (
            {"pth": "/a"},
            "the tool has no argument 'pth', and is left out: it has ['depth', 'path']",
        ),
        (
            {"depth": "deep"},
            "the tool does not accept the fixed values of ['depth'], and is left out",
        ),
        ({"path": None}, "the tool does not accept the fixed values of ['path'], and is left out"),
    ],
)
def test_what_the_schema_does_not_know_or_take_is_refused(fixed, message):
    with pytest.raises(ConfigurationError) as refused:
        fix(PLAIN, fixed)
    assert refused.value.message == message


async def test_the_model_neither_sees_nor_sets_a_fixed_argument(bench):
    open_schema = {**PLAIN, "additionalProperties": True}
    tools = {name: {"arguments": {"path": "/safe"}} for name in ("strict", "open")}
    bench.server(
        "a",
        described("strict", inputSchema=PLAIN),
        described("open", inputSchema=open_schema),
        tools=tools,
    )
    async with bench.processor():
        await bench.ready()
        assert "path" not in str(bench.declared())
        assert await bench.call("strict", depth=1) == {"depth": 1, "path": "/safe"}
        refused = await bench.call("strict", depth=1, path="/etc")
        assert refused.status == "invalid_argument"
        assert await bench.call("open", depth=1, path="/etc") == {"depth": 1, "path": "/safe"}


async def test_a_tool_with_an_unknown_fixed_argument_is_left_out_and_reported(bench, caplog):
    bench.server("a", described("find", inputSchema=PLAIN), tools={"find": {"arguments": {"q": 1}}})
    async with bench.processor():
        await bench.ready()
        assert bench.names() == []
        (problem,) = bench.status("a")["problems"]
    assert problem == (
        "error: mcp_servers.a.tools.find.arguments: the tool has no argument 'q', and is left "
        "out: it has ['depth', 'path']"
    )
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert errors == [f"In the settings, {problem}"]
