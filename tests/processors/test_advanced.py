"""The ready-made chain: one call, declarations, life, sessions, event loops."""

import asyncio
import logging
import socket
import sys
import urllib.request
from enum import StrEnum
from typing import Literal

import pytest
from genai_processors import processor

from leonidas_tools import (
    AdvancedToolProcessor,
    ResultStatus,
    Tool,
    ToolContext,
    ToolResult,
    ToolSession,
    tool,
)
from leonidas_tools.errors import ConfigurationError, DuplicateToolError, RegistryError
from leonidas_tools.session.speech import SpeechState
from tests.promises.faults.play import Script, audio, call, play, tool_threads
from tests.tasks import other_tasks


@tool(effect="read", tags=["weather"])
async def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> dict:
    """Current weather in a city.

    Args:
        city: Name of the city.
        unit: Temperature unit.
    """
    return {"city": city, "unit": unit}


def alone(*tools, **config):
    return AdvancedToolProcessor(tools=tools, config=config or None, builtin_tools=False)


def declared(tools):
    return {d.name: d for group in tools.declarations() for d in group.function_declarations}


# --- execute ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [{"city": "Lisbon"}, '{"city": "Lisbon"}', ' {"city":"Lisbon", "unit": null}']
)
async def test_execute_takes_a_mapping_or_a_json_text(arguments):
    result = await alone(get_weather).execute("get_weather", arguments)
    assert result == ToolResult(result={"city": "Lisbon", "unit": "celsius"})


async def test_execute_without_arguments():
    async def now() -> str:
        return "noon"

    assert (await alone(now).execute("now")).result == "noon"
    assert (await alone(now).execute("now", "")).status in {"ok", "invalid_argument"}


@pytest.mark.parametrize("arguments", ["{", "[]", "5", '"city"', '{"city": }'])
async def test_execute_answers_what_is_no_json_object(arguments):
    tools = alone(get_weather)
    result = await tools.execute("get_weather", arguments)
    assert result.status is ResultStatus.INVALID_ARGUMENT
    assert result.message
    assert tools.monitor.ledger.to_json()["ended"] == 1


async def test_execute_answers_an_unknown_name():
    result = await alone(get_weather).execute("get_wether", {})
    assert (result.status, result.valid_options) == (ResultStatus.NOT_FOUND, ["get_weather"])


async def test_execute_of_a_disabled_tool_is_refused():
    tools = alone(get_weather, tools={"get_weather": {"enabled": False}})
    result = await tools.execute("get_weather", {"city": "Lisbon"})
    assert (result.status, result.reason_code) == (ResultStatus.DISABLED, "disabled")


async def test_execute_is_counted_once_and_in_the_session_it_names():
    seen = []

    async def whose(ctx: ToolContext) -> None:
        seen.append((ctx.session.id, ctx.call.id))

    tools = alone(whose)
    await tools.execute("whose", session=ToolSession("kitchen"), call_id="7")
    await tools.execute("whose")
    assert seen == [("kitchen", "7"), ("direct", None)]
    assert tools.monitor.metrics("whose")["executions"] == 2
    assert [record["session"] for record in tools.monitor.history()] == ["direct", "kitchen"]


async def test_cancelling_execute_cancels_the_call():
    begun, stopped = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    tools = alone(endless)
    async with asyncio.timeout(10):
        task = asyncio.create_task(tools.execute("endless"))
        await begun.wait()
        task.cancel()
        await stopped.wait()
        await asyncio.wait([task])
    assert task.cancelled()


# --- what is shown to models -----------------------------------------------------------------


class Colour(StrEnum):
    RED = "red"


def test_declarations_are_what_gemini_takes():
    @tool(name="lights/set colour", behavior="non_blocking")
    async def lights(colour: Colour, kind: Literal["one"] = "one") -> None:
        """Sets the lights."""

    tools = alone(get_weather, lights)
    found = declared(tools)
    assert sorted(found) == ["get_weather", "lights_set_colour"]
    weather, lamp = found["get_weather"], found["lights_set_colour"]
    assert (weather.description, weather.behavior) == ("Current weather in a city.", None)
    assert weather.parameters_json_schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Name of the city."},
            "unit": {
                "type": "string",
                "enum": ["celsius", "fahrenheit"],
                "default": "celsius",
                "description": "Temperature unit.",
            },
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert lamp.behavior == "NON_BLOCKING"
    assert "const" not in str(lamp.parameters_json_schema)


def test_settings_change_what_is_declared():
    tools = alone(
        get_weather,
        tools={"get_weather": {"description": "Say it in rhymes.", "behavior": "NON_BLOCKING"}},
    )
    found = declared(tools)["get_weather"]
    assert (found.description, found.behavior) == ("Say it in rhymes.", "NON_BLOCKING")


@pytest.mark.parametrize("off", [{"enabled": False}, {"status": "maintenance"}])
def test_what_cannot_be_called_is_shown_to_no_model(off):
    tools = alone(get_weather, tools={"get_weather": off})
    assert (tools.declarations(), tools.openai_tools(), tools.prompt_text()) == ([], [], "")


async def test_parameters_that_gemini_refuses_are_renamed_and_mapped_back():
    async def by_keyword(**arguments):
        return arguments

    odd = Tool.from_json_schema(
        name="odd",
        parameters={
            "type": "object",
            "properties": {"user-id": {"type": "integer"}, "from": {"const": "here"}},
            "required": ["user-id"],
        },
        function=by_keyword,
    )
    tools = alone(odd)
    schema = declared(tools)["odd"].parameters_json_schema
    assert sorted(schema["properties"]) == ["from", "user_id"]
    assert schema["properties"]["from"] == {"enum": ["here"]}
    assert schema["required"] == ["user_id"]
    heard = await play(tools, [call("odd", {"user_id": "7", "from": "here"}, id="1")])
    assert heard.by_id["1"][0]["result"] == {"user-id": 7, "from": "here"}
    assert (await tools.execute("odd", {"user-id": 7})).result == {"user-id": 7}


async def test_a_declared_name_is_what_the_answer_carries():
    @tool(name="lights/on")
    async def lights() -> str:
        return "on"

    tools = alone(lights)
    heard = await play(tools, [call("lights_on", id="1")])
    assert heard.answers == [
        ("1", "lights_on", {"status": "ok", "result": "on", "retryable": False})
    ]
    assert (await tools.execute("lights/on")).result == "on"


def test_a_keyword_that_is_unknown_is_declared_as_it_is():
    parameters = {"type": "object", "x-form": {"properties": ["a"], "$defs": None}}
    own = Tool.from_json_schema(
        name="own", description="Own.", parameters=parameters, function=lambda **_: None
    )
    assert declared(alone(own))["own"].parameters_json_schema["x-form"] == parameters["x-form"]


def test_openai_definitions():
    (definition,) = alone(get_weather).openai_tools()
    assert definition["type"] == "function"
    assert definition["function"]["name"] == "get_weather"
    assert definition["function"]["description"] == "Current weather in a city."
    assert definition["function"]["parameters"]["required"] == ["city"]


def test_prompt_text():
    assert alone(get_weather).prompt_text() == (
        "get_weather: Current weather in a city.\n"
        "  - city (string, required): Name of the city.\n"
        "  - unit (one of 'celsius', 'fahrenheit', optional, default \"celsius\"): "
        "Temperature unit."
    )


# --- what it is made of ----------------------------------------------------------------------


def test_a_second_tool_of_a_name_is_refused():
    with pytest.raises(DuplicateToolError, match="get_weather"):
        alone(get_weather, get_weather)


def test_settings_that_are_wrong_are_refused_at_once(tmp_path):
    with pytest.raises(ConfigurationError, match="tolls"):
        AdvancedToolProcessor(config={"tolls": {}})
    with pytest.raises(ConfigurationError):
        AdvancedToolProcessor(config=tmp_path / "missing.yaml")


def test_settings_for_no_tool_are_reported(caplog):
    AdvancedToolProcessor(tools=[get_weather], config={"tools": {"get_wether": {"timeout": 1}}})
    assert "tools.get_wether" in caplog.text
    assert "get_weather" in caplog.text


async def test_an_edit_of_what_is_read_only_at_the_start_is_said_with_its_line(tmp_path, caplog):
    path = tmp_path / "tools.yaml"
    path.write_text("monitoring:\n  history_size: 10\n")
    async with AdvancedToolProcessor([get_weather], path) as tools:
        tools.settings.update({"monitoring.history_size": 20, "store.durable": True})
        tools.settings.update({"monitoring.prometheus_port": 9464})
    later = "has changed, and takes effect when the program starts again"
    assert [line for line in caplog.messages if later in line] == [
        f"In the settings, {path}:4: warning: store.durable: {later}",
        f"In the settings, {path}:3: warning: monitoring.prometheus_port: {later}",
    ]


def test_a_toolbox_that_cannot_be_loaded_is_a_named_error():
    with pytest.raises(RegistryError, match=r"no\.such\.box"):
        AdvancedToolProcessor(config={"toolboxes": ["no.such.box"]})
    with pytest.raises(RegistryError, match=r"RuntimeError: .*broken\.py:\d+"):
        AdvancedToolProcessor(config={"toolboxes": ["tests.processors.broken"]})


async def test_toolboxes_bring_their_tools():
    tools = alone(toolboxes=["leonidas_tools.toolboxes.demo"])
    assert {one.name for one in tools.registry} >= {"get_weather", "roll_dice", "search_flights"}
    async with tools:
        assert (await tools.execute("roll_dice", {"sides": 2})).ok


# --- many sessions ---------------------------------------------------------------------------


async def test_many_sessions_share_one_instance_and_keep_their_states_apart():
    tools = AdvancedToolProcessor()
    sessions = [ToolSession(f"s{n}") for n in range(20)]

    async def one(number, session):
        rate = 0.5 + number / 20
        heard = await play(
            tools.in_session(session),
            [audio(1), call("set_speech_rate", {"rate": rate}, id="same"), audio(2)],
        )
        assert heard.frames == [1, 2]
        assert heard.by_id["same"][0]["result"]["rate"] == rate
        return rate

    async with tools, asyncio.timeout(20):
        rates = await asyncio.gather(*(one(n, s) for n, s in enumerate(sessions)))
    assert [session.get(SpeechState).current.rate for session in sessions] == rates
    assert tools.monitor.ledger.to_json()["ended"] == 20
    assert tools.monitor.ledger.to_json()["protocol_errors"] == 0


async def test_held_tools_hold_until_the_last_has_left():
    def where() -> None:
        return None

    tools = alone(where)
    async with tools:
        async with tools:
            await play(tools, [call("where", id="1")])
        assert tool_threads()
        await play(tools, [call("where", id="1")])
    async with asyncio.timeout(10):
        while tool_threads() or other_tasks():  # idle threads end by themselves
            await asyncio.sleep(0.001)


def test_one_instance_serves_event_loops_one_after_the_other(tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text("tools: {get_weather: {timeout: 5}}")

    async def sync(n: int) -> int:
        return n

    tools = AdvancedToolProcessor(tools=[get_weather, sync], config=file)

    async def round_trip():
        for _ in range(2):
            async with asyncio.timeout(20), asyncio.TaskGroup() as group:
                for n in range(5):
                    group.create_task(play(tools, [call("sync", {"n": n}, id="1")]))
        async with tools:
            assert (await tools.execute("sync", {"n": 1})).result == 1
        return len((await play(tools, [call("get_weather", {"city": "x"}, id="1")])).answers)

    assert [asyncio.run(round_trip()) for _ in range(3)] == [1, 1, 1]


def test_streams_that_come_and_go_at_once_do_so_in_any_event_loop(tmp_path):
    """Closing waits for the watcher; whoever comes meanwhile waits for that."""
    file = tmp_path / "tools.yaml"
    file.write_text("version: 1")
    tools = AdvancedToolProcessor(config=file)

    async def enter_and_leave():
        for _ in range(3):
            async with tools:
                pass

    async def many():
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            for _ in range(10):
                group.create_task(enter_and_leave())
        return other_tasks()

    assert [asyncio.run(many()) for _ in range(3)] == [set()] * 3


# --- what it holds ---------------------------------------------------------------------------


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def page(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as response:
        return response.read().decode()


async def test_figures_are_served_for_prometheus_while_the_tools_are_held():
    port = free_port()
    tools = alone(get_weather, monitoring={"prometheus_port": port})
    async with tools:
        await tools.execute("get_weather", {"city": "Lisbon"})
        tools.monitor.metrics()  # a page is a moment behind; who reads a figure is not
        text = await asyncio.to_thread(page, port)
    assert 'tool="get_weather"' in text
    with pytest.raises(OSError, match="refused"):
        await asyncio.to_thread(page, port)


async def test_processes_with_the_same_settings_serve_their_figures_on_the_next_free_port(caplog):
    caplog.set_level(logging.INFO, "leonidas_tools")
    with socket.socket() as other_process:
        other_process.bind(("127.0.0.1", 0))
        other_process.listen()
        port = other_process.getsockname()[1]
        async with alone(get_weather, monitoring={"prometheus_port": port}) as tools:
            await tools.execute("get_weather", {"city": "Lisbon"})
            tools.monitor.metrics()
            (line,) = (line for line in caplog.messages if "metrics" in line)
            served = int(line.removesuffix("/metrics").rpartition(":")[2])
            assert served > port
            assert 'tool="get_weather"' in await asyncio.to_thread(page, served)


async def test_a_port_that_is_taken_with_none_after_it_is_an_error_and_holds_nothing():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 65535))
        taken.listen()
        tools = alone(get_weather, monitoring={"prometheus_port": 65535})
        with pytest.raises(OSError, match="in use"):
            await tools.__aenter__()
    assert (other_tasks(), tool_threads()) == (set(), [])
    async with tools:  # the port is free again
        assert 'tool="' not in await asyncio.to_thread(page, 65535)


async def test_ready_waits_for_mcp_servers_and_their_tools_come_to_be_declared():
    server = {"command": sys.executable, "args": ["-m", "mcp_server_time"]}
    tools = alone(get_weather, mcp_servers={"time": server})
    assert sorted(declared(tools)) == ["get_weather"]
    async with tools:
        assert await tools.ready(timeout_seconds=20)
        assert "get_current_time" in declared(tools)
        result = await tools.execute("get_current_time", {"timezone": "Asia/Tokyo"})
        assert result.ok
    async with asyncio.timeout(10):
        while other_tasks():
            await asyncio.sleep(0.001)


async def test_ready_says_when_a_server_does_not_come():
    server = {"command": sys.executable, "args": ["-c", "raise SystemExit(1)"]}
    tools = alone(get_weather, mcp_servers={"gone": server})
    async with tools:
        assert not await tools.ready(timeout_seconds=0.05)
        assert (await tools.execute("get_weather", {"city": "x"})).ok


async def test_ready_without_servers_is_at_once():
    async with alone(get_weather) as tools:
        assert await tools.ready(timeout_seconds=0)


# --- reload ----------------------------------------------------------------------------------


class Adopted:
    """Waits until changed settings hold."""

    def __init__(self, tools):
        self._tools = tools
        self._event = asyncio.Event()
        tools.settings.on_change(lambda _: self._event.set())

    async def wait(self):
        async with asyncio.timeout(10):
            await self._event.wait()
        self._event.clear()


async def test_an_edit_of_the_file_reaches_a_running_stream(tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text("tools: {get_weather: {enabled: true}}\n")
    tools = AdvancedToolProcessor(tools=[get_weather], config=file)
    async with Script(tools) as script:
        script.say(call("get_weather", {"city": "x"}, id="before"))
        await script.until_answered("before")
        adopted = Adopted(tools)
        file.write_text("tools: {get_weather: {enabled: false}}\n")
        await adopted.wait()
        script.say(call("get_weather", {"city": "x"}, id="after"))
        heard = await script.until_answered("after")
    assert heard.by_id["before"][0]["status"] == "ok"
    assert heard.by_id["after"][0] == {
        "status": "disabled",
        "message": "The tool 'get_weather' is disabled. Continue without it.",
        "retryable": False,
        "reason_code": "disabled",
    }


async def test_a_running_call_keeps_the_settings_it_began_with(tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text("tools: {slow: {custom_parameters: {word: old}, timeout: 20}}\n")
    begun, go_on = asyncio.Queue(), asyncio.Event()

    @tool(effect="read")
    async def slow(ctx: ToolContext) -> str:
        begun.put_nowait(None)
        await go_on.wait()
        return ctx.parameters["word"]

    tools = AdvancedToolProcessor(tools=[slow], config=file)
    async with Script(tools) as script, asyncio.timeout(20):
        script.say(call("slow", id="old"))
        await begun.get()
        adopted = Adopted(tools)
        file.write_text("tools: {slow: {custom_parameters: {word: new}, timeout: 20}}\n")
        await adopted.wait()
        script.say(call("slow", id="new"))
        await begun.get()
        go_on.set()
        heard = await script.until_answered("old", "new")
    assert {i: a[0]["result"] for i, a in heard.by_id.items()} == {"old": "old", "new": "new"}


async def test_a_broken_file_changes_nothing_and_is_reported(tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text("tools: {get_weather: {timeout: 3}}\n")
    tools = AdvancedToolProcessor(tools=[get_weather], config=file)
    warned = asyncio.Queue()

    class Warned(logging.Handler):
        def emit(self, record):
            warned.put_nowait(record.getMessage())

    handler = Warned(logging.WARNING)
    logging.getLogger("leonidas_tools.settings").addHandler(handler)
    try:
        async with Script(tools) as script, asyncio.timeout(20):
            script.say(call("get_weather", {"city": "x"}, id="1"))
            await script.until_answered("1")
            file.write_text("tools: {get_weather: {timeout: soon}}\n")
            assert "tools.get_weather.timeout" in await warned.get()
            script.say(call("get_weather", {"city": "x"}, id="2"))
            await script.until_answered("2")
            assert tools.settings.current.for_tool("get_weather").timeout == 3
    finally:
        logging.getLogger("leonidas_tools.settings").removeHandler(handler)


async def test_a_reload_loads_and_drops_toolboxes(tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text("toolboxes: []\n")
    tools = AdvancedToolProcessor(config=file, builtin_tools=False)
    adopted = Adopted(tools)
    async with Script(tools) as script:
        script.say(call("roll_dice", id="1"))
        await script.until_answered("1")
        file.write_text("toolboxes: [leonidas_tools.toolboxes.demo]\n")
        await adopted.wait()
        script.say(call("roll_dice", id="2"))
        await script.until_answered("2")
        file.write_text("version: 1\n")
        await adopted.wait()
        script.say(call("roll_dice", id="3"))
        heard = await script.until_answered("3")
    assert {i: a[0]["status"] for i, a in heard.by_id.items()} == {
        "1": "not_found", "2": "ok", "3": "not_found",
    }  # fmt: skip


async def test_a_toolbox_that_goes_wrong_between_sessions_harms_none(tmp_path, caplog):
    file = tmp_path / "tools.yaml"
    file.write_text("version: 1\n")
    tools = AdvancedToolProcessor(tools=[get_weather], config=file)
    file.write_text("toolboxes: [no.such.box, leonidas_tools.toolboxes.demo]\n")
    tools.settings.reload()
    heard = await play(tools, [call("get_weather", {"city": "x"}, id="1")])
    assert heard.by_id["1"][0]["status"] == "ok"
    assert "no.such.box" in caplog.text
    file.write_text("toolboxes: [leonidas_tools.toolboxes.action]\n")
    tools.settings.reload()
    heard = await play(tools, [call("get_weather", {"city": "x"}, id="1")])
    assert heard.by_id["1"][0]["status"] == "ok"


async def test_a_tool_that_a_request_took_out_does_not_trouble_a_reload(tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text("toolboxes: [leonidas_tools.toolboxes.demo]\n")
    tools = AdvancedToolProcessor(config=file)
    tools.registry.unregister("roll_dice")
    async with tools, processor.context():
        file.write_text("version: 1\n")
        tools.settings.reload()
        assert "get_weather" not in tools.registry
