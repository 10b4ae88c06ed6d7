"""An edit with a mistake changes nothing, whatever the mistake would have opened or taken away."""

import asyncio
import logging
from pathlib import Path

import pytest

from leonidas_tools import AdvancedToolProcessor, ToolRuntime, tool
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.json_schema import ArgumentValidator

BEFORE = """\
toolboxes: [demo]
tools:
  wipe: {requires_approval: true}
policies:
  rules:
    - {name: no money, tools: send_money, decide: deny}
"""


@tool(effect="read")
def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing {where}"


@tool(effect="once", requires_approval=False)
def wipe(disk: str) -> str:
    """Wipe a disk."""
    return f"{disk} is empty"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "broken_box.py").write_text("1 / 0\n")
    (tmp_path / "same_names.py").write_text(
        "from leonidas_tools import tool\n\n@tool\ndef look() -> str:\n    '''Look.'''\n"
    )
    file = tmp_path / "tools.yaml"
    file.write_text(BEFORE)
    return file


async def what_holds(tools: ToolRuntime) -> dict[str, str | None]:
    """Return what becomes of a denied call, of one that asks, and of a tool of the toolbox."""
    money = await tools.execute("send_money", {"to": "Mallory", "amount": 900})
    wiped = await tools.execute("wipe", {"disk": "sda"})
    rolled = await tools.execute("roll_dice")
    return {"money": money.reason_code, "wipe": wiped.status.value, "dice": rolled.status.value}


PROTECTED = {"money": "denied_by_rule", "wipe": "pending_approval", "dice": "ok"}


@pytest.mark.parametrize(
    ("written", "edited", "line", "says"),
    [
        ("tools: send_money", "tools: send_mony", 6, "'send_mony'; did you mean 'send_money'?"),
        ("tools: send_money", "tools: [send_money, lok]", 6, "'lok'; did you mean 'look'?"),
        ("tools: send_money", "tags: mony", 6, "no tool with the tag 'mony'"),
        ("tools: send_money", "servers: bank", 6, "no MCP server 'bank'"),
        (
            "tools: send_money",
            "tools: send_money, when: {amont: {above: 9}}",
            6,
            "a parameter 'amont'; did you mean 'amount'?",
        ),
        ("wipe: {", "wip: {", 3, "there is no such tool; did you mean 'wipe'?"),
        ("[demo]", "[dmo]", 1, "There is no toolbox 'dmo'"),
        ("[demo]", "[demo, broken_box]", 1, "ZeroDivisionError"),
        ("[demo]", "[demo, same_names]", 1, "A tool 'look' already exists"),
        ("[demo]", "[]", 6, "there is no tool 'send_money'"),
        ("true}", "true, on_cancel: undo}", 3, "the tool has no undo"),
    ],
)
async def test_an_edit_with_a_mistake_changes_nothing_and_names_its_line(
    file, written, edited, line, says
):
    tools = ToolRuntime([look, wipe], config=file)
    async with tools:
        assert await what_holds(tools) == PROTECTED
        file.write_text(BEFORE.replace(written, edited))
        with pytest.raises(ConfigurationError) as caught:
            tools.settings.reload()
        assert f"{file}:{line}: " in str(caught.value)
        assert says in str(caught.value)
        assert await what_holds(tools) == PROTECTED
        assert str(caught.value) == tools.monitor.health()["settings_error"]
        file.write_text(BEFORE + "    - {name: eyes, tools: look, decide: deny}\n")
        tools.settings.reload()
        assert (await tools.execute("look", {"where": "up"})).reason_code == "denied_by_rule"
        assert await what_holds(tools) == PROTECTED


async def test_a_running_session_logs_the_mistake_and_stays_protected(file):
    refused: asyncio.Queue[str] = asyncio.Queue()
    handler = logging.Handler()
    loop = asyncio.get_running_loop()
    handler.emit = lambda record: loop.call_soon_threadsafe(  # type: ignore[method-assign]
        refused.put_nowait, record.getMessage()
    )
    log = logging.getLogger("leonidas_tools.settings.watch")
    log.addHandler(handler)
    try:
        async with AdvancedToolProcessor(tools=[look, wipe], config=file) as tools:
            file.write_text(BEFORE.replace("tools: send_money", "tools: send_mony"))
            async with asyncio.timeout(20):
                message = await refused.get()
            assert f"{file}:6: policies.rules.0.tools: there is no tool 'send_mony'" in message
            assert await what_holds(tools.runtime) == PROTECTED
    finally:
        log.removeHandler(handler)


@pytest.mark.parametrize("from_file", [True, False])
async def test_a_change_by_a_program_with_a_mistake_changes_nothing(file, from_file):
    typo = [{"name": "no money", "tools": ["send_mony"], "decide": "deny"}]
    settings = {
        "toolboxes": ["demo"],
        "tools": {"wipe": {"requires_approval": True}},
        "policies": {"rules": [{**typo[0], "tools": ["send_money"]}]},
    }
    tools = ToolRuntime([look, wipe], config=file if from_file else settings)
    async with tools:
        with pytest.raises(ConfigurationError, match="did you mean 'send_money'"):
            tools.settings.update({"policies.rules": typo})
        assert await what_holds(tools) == PROTECTED
    assert file.read_text() == BEFORE


async def test_a_mistake_that_was_there_before_refuses_no_other_edit(file, caplog):
    mistake = "    - {name: old, tools: delte, decide: deny}\n"
    file.write_text(BEFORE + mistake)
    tools = ToolRuntime([look, wipe], config=file)
    assert f"{file}:7: error: policies.rules.1.tools: there is no tool 'delte'" in caplog.text
    async with tools:
        first = "    - {name: eyes, tools: look, decide: deny}\n"
        file.write_text(BEFORE.replace("  rules:\n", f"  rules:\n{first}") + mistake)
        tools.settings.reload()
        assert (await tools.execute("look", {"where": "up"})).reason_code == "denied_by_rule"


async def test_a_name_that_a_server_may_still_list_is_taken_and_logged_with_its_line(file, caplog):
    server = "mcp_servers: {shop: {command: /no/such/program}}\n"
    file.write_text(BEFORE + server)
    async with ToolRuntime([look, wipe], config=file) as tools:
        file.write_text(BEFORE.replace("wipe: {", "buy: {") + server)
        tools.settings.reload()
        assert "buy" in tools.settings.current.tools
        await asyncio.sleep(0)  # the runtime follows on its own loop
    said = f"{file}:3: warning: tools.buy: there is no such tool"
    assert said in caplog.text


def test_settings_of_a_built_in_tool_are_no_mistake_where_the_built_in_tools_are_left_out(caplog):
    settings = {"tools": {"think": {"timeout": 2}, "thikn": {"timeout": 2}}}
    ToolRuntime([look], config=settings, builtin_tools=False)
    assert "tools.thikn" in caplog.text
    assert "tools.think:" not in caplog.text


async def test_an_edit_compiles_no_schema_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool(effect="read")
    async def double(number: int) -> int:
        return 2 * number

    def compile_again(*_: object, **__: object) -> None:
        raise AssertionError("the schema is compiled again")

    async with AdvancedToolProcessor([double], {"tools": {"double": {"timeout": 5}}}) as tools:
        assert (await tools.execute("double", {"number": 1})).result == 2
        monkeypatch.setattr(ArgumentValidator, "__init__", compile_again)
        tools.settings.update({"tools.double.timeout": 6})
        assert (await tools.execute("double", {"number": 2})).result == 4
