"""`ToolRuntime`: what everything stands on, without a stream."""

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import PurePath
from types import SimpleNamespace

import pytest

from leonidas_tools import (
    AdvancedToolProcessor,
    SessionPolicy,
    ToolContext,
    ToolError,
    ToolRuntime,
    ToolSession,
    tool,
)

WITHOUT_A_FRAMEWORK = """
import asyncio, sys
from leonidas_tools import ToolRuntime

def add(a: int, b: int) -> int:
    return a + b

async def main():
    async with ToolRuntime([add]) as tools:
        assert (await tools.execute("add", {"a": 1, "b": "2"})).result == 3
        (result,) = await tools.execute_turn([("add", {"a": 1, "b": 1})])
        assert result.result == 2
        assert "add" in {each.name for each in tools.declared()}

asyncio.run(main())
print(*sys.modules)
"""


@tool(effect="read")
async def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing {where}"


def test_calls_run_without_genai_processors_and_without_google_genai():
    loaded = subprocess.check_output([sys.executable, "-c", WITHOUT_A_FRAMEWORK], text=True)
    assert {"genai_processors", "google.genai", "google.protobuf"}.isdisjoint(loaded.split())


async def test_sessions_share_one_runtime_and_leave_it_open_for_the_others():
    tools = ToolRuntime([look])
    async with tools:
        async with tools:
            inner = await tools.execute("look", {"where": "here"}, session=ToolSession("a"))
        outer = await tools.execute("look", {"where": "there"}, session=ToolSession("b"))
    assert (inner.result, outer.result) == ("nothing here", "nothing there")


async def test_a_processor_and_its_runtime_are_the_same_tools():
    tools = AdvancedToolProcessor([look])
    async with tools.runtime:
        assert (await tools.execute("look", {"where": "up"})).ok
        tools.runtime.registry.unregister("look")
        assert (await tools.execute("look", {"where": "up"})).reason_code == "unknown_tool"
        assert "look" not in {tool.name for tool in tools.offered()}
        with pytest.raises(ToolError, match="'7'"):
            tools.runtime.cancel("7")
    attributes = ("registry", "settings", "executor", "monitor", "mcp_servers", "session")
    for name in (*attributes, "events", "store"):
        assert getattr(tools, name) is getattr(tools.runtime, name)


async def test_a_turn_takes_any_object_with_a_name_args_and_an_id():
    tools = ToolRuntime([look])
    call = SimpleNamespace(name="look", args={"where": "down"}, id="1")
    (result,) = await tools.execute_turn([call])
    assert result.result == "nothing down"
    with pytest.raises(TypeError, match="is not a call"):
        await tools.execute_turn([SimpleNamespace(name="look")])


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"policies": lambda call, run: run(call)}, "policies must be a list"),
        ({"policies": "mine"}, "policies must be a list"),
        ({"approval": "voice"}, "approval must be an async function"),
    ],
)
def test_an_argument_of_a_wrong_type_is_refused_when_the_runtime_is_made(options, advice):
    with pytest.raises(TypeError, match=advice):
        ToolRuntime([look], **options)


async def test_the_name_of_a_session_is_no_session():
    with pytest.raises(TypeError, match="session must be a ToolSession"):
        await ToolRuntime([look]).execute("look", {"where": "up"}, session="kitchen")


SERVED = """
import asyncio, sys
from leonidas_tools import ToolRuntime
from leonidas_tools.mcp_server import mcp_app

def add(a: int, b: int) -> int:
    return a + b

async def main():
    async with mcp_app(ToolRuntime([add])) as app:
        print(*sys.modules)

asyncio.run(main())
"""


@pytest.mark.slow
def test_an_mcp_server_runs_without_genai_processors_and_without_google_genai():
    loaded = subprocess.check_output([sys.executable, "-c", SERVED], text=True).split()
    assert "leonidas_tools.mcp_server.server" in loaded
    assert {"genai_processors", "google.genai"}.isdisjoint(loaded)


async def test_a_tool_calls_others_in_the_session_of_its_own_call():
    @tool(requires_approval=False)
    async def send(to: str) -> str:
        """Send something."""
        return f"sent to {to}"

    @tool(effect="read")
    async def help_out() -> str:
        """Help."""
        return (await tools.execute("send", {"to": "Eve"})).status.value

    tools = ToolRuntime([send, help_out])
    session = ToolSession(user="ana")
    session.get(SessionPolicy).mode = "read_only"
    assert (await tools.execute("help_out", session=session)).result == "denied"
    assert (await tools.execute("help_out")).result == "ok"


async def test_a_tool_may_poll_another_where_it_names_no_session():
    @tool(effect="read")
    async def poll() -> list[str]:
        """Poll."""
        return [(await tools.execute("look", {"where": "up"})).status.value for _ in range(8)]

    tools = ToolRuntime([look, poll])
    result = await tools.execute("poll", session=ToolSession())
    assert result.result == ["ok"] * 8


@pytest.mark.parametrize(
    ("value", "place", "type_name"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), "where", "datetime"),
        (object(), "where", "object"),
        (b"x", "where", "bytes"),
        (["a", {"b": b"x"}], "where[1].b", "bytes"),
    ],
)
async def test_an_argument_without_json_form_is_named_with_its_type(value, place, type_name):
    async with ToolRuntime([look]) as tools:
        result = await tools.execute("look", {"where": value})
    assert result.message.startswith(f"{place!r} has no JSON form: its type is {type_name!r};")


async def test_keys_that_are_no_strings_are_said_to_be_at_fault():
    async with ToolRuntime([look]) as tools:
        results = [await tools.execute("look", each) for each in ({1: 2}, {"where": {1: 2}})]
    assert [result.message for result in results] == [
        "The arguments must have strings as keys.",
        "'where' must have strings as keys.",
    ]


async def test_progress_takes_the_fraction_as_its_second_argument():
    heard = []

    @tool(effect="read")
    async def half(ctx: ToolContext) -> None:
        """Go half the way."""
        ctx.progress("Halfway", 0.5)

    async with ToolRuntime([half]) as tools:
        tools.monitor.subscribe(heard.append)
        await tools.execute("half", {})
    assert {"message": "Halfway", "fraction": 0.5} in [event.data for event in heard]


async def test_a_tool_without_a_description_is_warned_of_once(caplog):
    @tool(effect="read")
    def bare() -> int:
        return 1

    @tool(effect="read")
    def described() -> int:
        return 1

    settings = {"tools": {"described": {"description": "Told in the settings."}}}
    tools = AdvancedToolProcessor([bare, described, look], settings)
    await tools.execute("bare")
    assert caplog.messages == []  # it is declared to no model
    tools.declarations()
    tools.settings.update({"tools.bare.timeout": 2})
    tools.declarations()
    (warning,) = [message for message in caplog.messages if "description" in message]
    assert warning == (
        "The tool 'bare' has no description, and the model has only its name to go by: write a "
        "docstring, or set tools.bare.description"
    )


async def test_a_result_without_a_json_form_is_warned_of_once(caplog):
    class Room:
        pass

    @tool(effect="read")
    def find_formless_room() -> object:
        """Find a room."""
        return {"room": Room(), "price": Decimal("1.5"), "where": PurePath("a")}

    async with ToolRuntime([find_formless_room]) as tools:
        results = [await tools.execute("find_formless_room", {}) for _ in range(2)]
    assert [each.result["room"] for each in results] == ["<Room>", "<Room>"]
    (warning,) = caplog.messages
    assert warning == (
        "The tool 'find_formless_room' returned a Room, which has no JSON form: the model reads "
        "only its repr. Return a dict, a dataclass or a pydantic model"
    )


async def _rooms():
    yield "kitchen"
    yield "hall"


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_async_generator_that_a_function_returns_is_run(is_async):
    @tool(effect="read")
    def rooms() -> object:
        """List rooms."""
        return _rooms()

    @tool(effect="read", name="rooms")
    async def awaited() -> object:
        """List rooms."""
        return _rooms()

    async with ToolRuntime([awaited if is_async else rooms]) as tools:
        assert (await tools.execute("rooms", {})).result == ["kitchen", "hall"]


async def test_an_async_generator_inside_a_result_is_a_failure_that_says_what_to_do():
    @tool(effect="read")
    def rooms() -> object:
        """List rooms."""
        return {"rooms": _rooms()}

    async with ToolRuntime([rooms]) as tools:
        result = await tools.execute("rooms", {})
    assert (result.status, result.reason_code) == ("failed", "unserialisable_result")
    assert "return a list" in result.message
