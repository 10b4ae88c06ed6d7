"""What a server lists, right and wrong, and how often that is said."""

import asyncio
import json

import pytest
from mcp_types import methods

from leonidas_tools.errors import ToolError
from leonidas_tools.mcp.listing import definitions
from leonidas_tools.mcp.server import MCPServer
from leonidas_tools.settings.models import MCPServerSettings
from tests.mcp.asked import call
from tests.mcp.bench import described
from tests.mcp.forking import forked


class Listed:
    """A server that lists what the test says."""

    def __init__(self, serve, path):
        self._serve = serve
        self._path = path

    def says(self, *tools):
        self._path.write_text(json.dumps(tools))

    def settings(self, *era, **settings):
        return forked("scripted.py", self._path, *era, **settings)

    async def __call__(self, *tools, era=(), **settings):
        self.says(*tools)
        server = self._serve(self.settings(*era, **settings))
        return await server.ready()


@pytest.fixture
def listed(serve, tmp_path):
    return Listed(serve, tmp_path / "listed.json")


def with_input(schema):
    return {"name": "bad", "inputSchema": schema}


GOOD = described("good")
WRONG = {
    "of a text": (with_input({"type": "string"}), "inputSchema.type: Input should be 'object'"),
    "an odd description": ({**GOOD, "name": "bad", "description": 7}, "description: Input should"),
    "odd hints": ({**GOOD, "name": "bad", "annotations": []}, "annotations: Input should"),
}


@pytest.mark.parametrize("era", [(), ("modern",)])
@pytest.mark.parametrize("wrong", WRONG)
async def test_a_tool_that_is_described_wrongly_keeps_no_other_away(listed, caplog, wrong, era):
    bad, why = WRONG[wrong]
    server = await listed(bad, GOOD, era=era)
    assert list(server.tools) == ["good"]
    assert (await server.call("good")).result == "good"
    (left_out,) = server.mcp.status()["left_out"]
    assert left_out["tool"] == "bad"
    assert left_out["why"].startswith(f"its definition is invalid: {why}")
    (warning,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert warning == f"MCP server 'lab': the tool 'bad' is left out: {left_out['why']}"


@pytest.mark.parametrize("era", [(), ("modern",)])
@pytest.mark.parametrize("odd", [{}, {"inputSchema": None}, {"inputSchema": []}])
async def test_no_schema_is_one_of_any_object(listed, odd, era):
    server = await listed({"name": "bad", **odd}, GOOD, era=era)
    assert (await server.call("bad", a=1)).result == "bad"


OLDER = {
    "a tuple": (
        {"type": "array", "items": [{"type": "number"}], "additionalItems": False},
        {"type": "array", "prefixItems": [{"type": "number"}], "items": False},
    ),
    "an exclusive limit": (
        {"type": "number", "maximum": 3, "exclusiveMaximum": True},
        {"type": "number", "exclusiveMaximum": 3},
    ),
    "a limit that is not": (
        {"type": "number", "minimum": 0, "exclusiveMinimum": False},
        {"type": "number", "minimum": 0},
    ),
    "of Python": ({"type": ["int", "null"]}, {"type": ["integer", "null"]}),
    "unknown": ({"type": "any", "default": None}, {"default": None}),
    "null": ({"type": "object", "properties": None}, {"type": "object"}),
    "inside": ({"anyOf": [{"items": [{}]}]}, {"anyOf": [{"prefixItems": [{}]}]}),
}


@pytest.mark.parametrize(("written", "read"), OLDER.values(), ids=OLDER)
async def test_a_schema_of_an_older_draft_is_read(listed, written, read):
    properties = {"v": written, "name": {"type": "string", "required": True}}
    server = await listed(with_input({"type": "object", "properties": properties}), GOOD)
    schema = server.tools["bad"].metadata.parameters
    assert schema["properties"]["v"] == read
    assert schema["required"] == ["name"]


async def test_a_listing_that_takes_long_to_read_leaves_out_the_rest(listed, monkeypatch):
    monkeypatch.setattr(definitions, "_MAX_SECONDS", 0.0)
    monkeypatch.setattr(definitions, "_SECONDS_EACH", 0.0)
    server = await listed(GOOD, {**GOOD, "name": "late"})
    assert list(server.tools) == ["good"]
    (left_out,) = server.mcp.status()["left_out"]
    assert left_out["tool"] == "late"
    assert left_out["why"].startswith("reading the tools before it took ")


async def test_a_listing_of_many_tools_may_take_longer_to_read(listed, monkeypatch):
    monkeypatch.setattr(definitions, "_MAX_SECONDS", 0.0)
    monkeypatch.setattr(definitions, "_SECONDS_EACH", 60.0)
    server = await listed(GOOD, {**GOOD, "name": "late"})
    assert list(server.tools) == ["good", "late"]
    assert "left_out" not in server.mcp.status()


@pytest.mark.parametrize("nameless", [7, {"inputSchema": {"type": "object"}}, {**GOOD, "name": 7}])
async def test_what_has_no_name_is_named_by_its_place(listed, nameless):
    server = await listed(GOOD, nameless)
    assert list(server.tools) == ["good"]
    (left_out,) = server.mcp.status()["left_out"]
    assert left_out["tool"] == "number 2 of its listing"


@pytest.mark.parametrize("era", [(), ("modern",)])
async def test_a_schema_that_does_not_say_of_what_it_is_is_one_of_an_object(listed, caplog, era):
    untyped = with_input({"properties": {"a": {"type": "integer"}}, "required": ["a"]})
    server = await listed(untyped, {**GOOD, "inputSchema": {}}, era=era)
    assert (await server.call("bad", a=1)).result == "bad"
    assert (await server.call("good")).result == "good"
    assert server.tools["bad"].metadata.parameters["required"] == ["a"]
    assert "left_out" not in server.mcp.status()
    assert not [r for r in caplog.records if r.levelname == "WARNING"]


async def test_what_is_excluded_may_be_wrong_and_what_is_not_there_is_not_missed(listed, caplog):
    excluded = {"exclude": ["bad"], "tools": {"good": {}}}
    server = await listed(with_input(7), GOOD, **excluded)
    assert list(server.tools) == ["good"]
    assert not [r for r in caplog.records if r.levelname == "WARNING"]


CUT = "Cut in an emoji: \ud83d"


async def test_half_an_emoji_keeps_no_tool_away(listed):
    cut = {**described("cut"), "description": CUT}
    server = await listed(cut, GOOD, {**GOOD, "name": CUT})
    name = CUT.replace("\ud83d", "\ufffd")
    assert list(server.tools) == ["cut", "good", name]
    assert server.tools["cut"].metadata.description == name
    assert (await server.call(name)).result == name


async def test_a_listing_that_is_none_at_all_is_refused(serve, tmp_path):
    (tmp_path / "listed.json").write_text('"tools"')
    server = serve(forked("scripted.py", tmp_path / "listed.json"))
    assert "is down" in await server.down()


async def test_a_lazy_server_remembers_what_was_wrong(mark, listed, tmp_path):
    listed.says(with_input({"type": "string"}), GOOD)
    settings = MCPServerSettings(**listed.settings(start="lazy", env=mark))
    statuses = []
    for _ in range(2):
        server = MCPServer("lab", settings, lambda _: None)
        server.start()
        async with asyncio.timeout(60):
            await server.wait_for("standby")
        statuses.append(server.status()["left_out"])
        await server.stop()
    assert statuses[0] == statuses[1] != []


# --- said once -----------------------------------------------------------------------------------


async def relisted(server):
    while not server._listings.empty():
        server._listings.get_nowait()
    await server.mcp.reread()
    return await server.listing()


def warnings(caplog):
    found = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    caplog.clear()
    return [text.removeprefix("MCP server 'lab' ") for text in found]


async def test_what_is_odd_in_a_listing_is_said_once_and_again_when_it_has_changed(listed, caplog):
    twice = "lists 'good' twice; the first is used"
    server = await listed(GOOD, GOOD, described("more"), max_tools=1)
    said = [twice, "has 2 tools, of which the first 1 are used: see its max_tools"]
    assert warnings(caplog) == said
    await relisted(server)
    assert warnings(caplog) == []
    listed.says(GOOD, described("more"), described("most"))
    await relisted(server)
    assert warnings(caplog) == ["has 3 tools, of which the first 1 are used: see its max_tools"]
    listed.says(GOOD, GOOD)
    await relisted(server)
    assert warnings(caplog) == [twice]


async def test_of_many_odd_tools_a_few_are_told(listed, caplog):
    text = {"type": "string"}
    wrong = [{"name": f"wrong_{n}", "inputSchema": text} for n in range(50)]
    nowhere = {"properties": {"a": {"$ref": "#/nowhere"}}}
    broken = [
        described(f"broken_{n}", inputSchema={"type": "object", **nowhere}) for n in range(50)
    ]
    unseen = [described(f"unseen_{n}", description="a\u200bb") for n in range(50)]
    server = await listed(*wrong, *broken, *unseen, *unseen, GOOD)
    assert len(server.tools) == 51
    said = warnings(caplog)
    assert sum("is left out" in each for each in said) == 20
    assert sum("invisible characters" in each for each in said) == 20
    assert sum("twice" in each for each in said) == 20
    assert [each for each in said if "more like" in each] == [
        "MCP server 'lab': 30 more like the last one",
        "MCP server 'lab': 80 more like the last one",
        "MCP server 'lab': 30 more like the last one",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("era", [(), ("modern",)])
async def test_a_long_page_of_tools_is_not_checked_at_once(listed, monkeypatch, era):
    lengths = []
    validate = methods.validate_server_result

    def noted(method, version, result):
        lengths.append(len(result.get("tools", ())))
        return validate(method, version, result)

    monkeypatch.setattr(methods, "validate_server_result", noted)
    output = {"type": "object", "properties": {"a": {"type": "integer"}}}
    last = described("last", outputSchema=output)
    bad = with_input({"type": "string"})
    server = await listed(bad, *(described(f"tool_{n}") for n in range(2_500)), last, era=era)
    assert len(server.tools) == 2_501
    assert max(lengths) == 1_000


# --- questions without end -----------------------------------------------------------------------


@pytest.mark.parametrize(("reads", "status"), [(False, "unknown_outcome"), (True, "failed")])
async def test_a_server_that_never_stops_asking_is_reported(listed, reads, status):
    curious = described("curious", annotations={"readOnlyHint": reads})
    server = await listed(curious, era=("modern",))
    with pytest.raises(ToolError) as endless:
        await server.call("curious")
    assert (endless.value.status, endless.value.reason_code) == (status, "mcp_asks_without_end")
    assert "the server kept requesting input (10 rounds)" in endless.value.message


# --- what else it offers -------------------------------------------------------------------------


async def test_another_prefix_stands_before_all_tools_at_once(chain, listed):
    listed.says(GOOD)
    tools = await chain(listed.settings(prompts=True))

    def names():
        return sorted(tool.name for tool in tools.registry if tool.origin is not None)

    assert names() == ["good", "lab__get_prompt", "lab__list_prompts"]
    before = tools.settings.current.mcp_servers["lab"]
    changed = asyncio.Event()
    tools.registry.on_change(changed.set)
    tools.mcp_servers.configure({"lab": before.model_copy(update={"prefix": "my"})})
    async with asyncio.timeout(60):
        while names() != ["my__get_prompt", "my__good", "my__list_prompts"]:
            changed.clear()
            await changed.wait()
    assert (await call(tools, "my__list_prompts")).result == {"prompts": []}
