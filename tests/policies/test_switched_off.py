"""`0` and `off` switch off what a tool, the defaults or the library have set; no timeout."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from leonidas_tools import Tool, ToolConfiguration, ToolSession
from leonidas_tools.errors import ConfigurationError, SchemaError
from leonidas_tools.live.tool_options import filler_for
from leonidas_tools.settings.json_schema import settings_schema
from leonidas_tools.settings.load import load
from tests.policies.bench import Steps, quiet
from tests.policies.clock import in_no_time
from tests.policies.runs import tools_of

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from collections.abc import Callable

SWITCHED_OFF = (
    "deadline", "concurrency", "filler_after", "cache_seconds", "stale_if_error", "calls_per_turn",
    "calls_per_minute", "calls_per_session", "max_result_tokens", "retry_attempts", "retry_delay",
)  # fmt: skip
ON_AND_OFF = pytest.mark.parametrize(
    ("said", "holds"),
    [({}, True), *(({"look": off}, False) for off in ("off", False, 0, "0", 0.0))],
)
OFF = pytest.mark.parametrize("off", [0, 0.0, "0", "off", " OFF ", False, "false", "no", "0s"])


def settings(key: str, said: dict[str, Any], **default: Any) -> dict[str, Any]:
    tools = {"look": {key: said["look"]}} if said else {}
    return {"tools": tools, "defaults": default}


@ON_AND_OFF
async def test_a_result_is_not_used_again(said: dict[str, Any], holds: bool) -> None:
    runs = itertools.count(1)
    look = Tool(lambda: next(runs), name="look", effect="read")
    tools = tools_of(look, **settings("cache_seconds", said, cache_seconds=60))
    results = [await tools.execute("look") for _ in range(2)]
    assert [result.result for result in results] == [1, 1 if holds else 2]


@ON_AND_OFF
@in_no_time
async def test_an_old_result_does_not_stand_in(said: dict[str, Any], holds: bool) -> None:
    runs = itertools.count(1)

    def look() -> int:
        return 1 // (2 - next(runs))  # fails from the second time on

    own = {"effect": "read", "cache_seconds": 5, "retry_attempts": 0}
    tools = tools_of(
        Tool(look, stale_if_error_seconds=3600, **own), **settings("stale_if_error", said)
    )
    await tools.execute("look")
    await asyncio.sleep(10)
    assert (await tools.execute("look")).ok is holds


@ON_AND_OFF
@in_no_time
async def test_a_call_has_no_deadline(said: dict[str, Any], holds: bool) -> None:
    async def look() -> None:
        await asyncio.sleep(5)

    made = Tool(look, effect="read", timeout_seconds=10, deadline_seconds=2)
    tools = tools_of(made, **settings("deadline", said))
    assert (await tools.execute("look")).status == ("timeout" if holds else "ok")


@ON_AND_OFF
async def test_any_number_runs_at_once(said: dict[str, Any], holds: bool) -> None:
    steps = Steps()
    look = steps.tool("look", effect="read")
    tools = tools_of(look, **settings("concurrency", said, concurrency=1))
    calls = [asyncio.create_task(tools.execute("look", {"step": step})) for step in "ab"]
    await quiet()
    assert steps.log == (["+a"] if holds else ["+a", "+b"])
    steps.finish("a", "b")
    await asyncio.gather(*calls)


@pytest.mark.parametrize("per", ["turn", "minute", "session"])
@ON_AND_OFF
async def test_any_number_is_called(per: str, said: dict[str, Any], holds: bool) -> None:
    key = f"calls_per_{per}"
    tools = tools_of(Tool(lambda: 1, name="look"), **settings(key, said, **{key: 1}))
    statuses = [(await tools.execute("look")).status for _ in range(2)]
    assert statuses == ["ok", "limited" if holds else "ok"]


@ON_AND_OFF
async def test_a_result_is_as_long_as_it_is(said: dict[str, Any], holds: bool) -> None:
    look = Tool(lambda: "long " * 100, name="look", max_result_tokens=10)
    tools = tools_of(look, **settings("max_result_tokens", said))
    assert ((await tools.execute("look")).result != "long " * 100) is holds


@ON_AND_OFF
def test_silence_is_not_filled(said: dict[str, Any], holds: bool) -> None:
    look = Tool(lambda: 1, name="look", filler_after_seconds=2)
    tools = tools_of(look, **settings("filler_after", said))
    assert (filler_for(tools, "look") is not None) is holds


@OFF
@pytest.mark.parametrize(
    "option",
    [
        "deadline_seconds", "cache_seconds", "stale_if_error_seconds", "max_result_tokens",
        "filler_after_seconds",
    ],
)  # fmt: skip
def test_an_option_of_a_tool_is_switched_off_as_a_setting_is(option: str, off: Any) -> None:
    assert getattr(Tool(len, **{option: off}).metadata, option) is None
    limited = Tool(len, **{option: 5})
    assert getattr(limited.metadata, option) == 5
    assert getattr(limited.with_options(**{option: off}).metadata, option) is None


@OFF
def test_no_retries_are_switched_off_in_the_same_way(off: Any) -> None:
    assert Tool(len, retry_attempts=off).metadata.retry_attempts == 0
    said = ToolConfiguration(retry_attempts=off, retry_delay=off)
    assert (said.retry_attempts, said.retry_delay) == (0, 0)


@pytest.mark.parametrize(
    "option", ["deadline_seconds", "cache_seconds", "max_result_tokens", "timeout_seconds"]
)
@pytest.mark.parametrize("wrong", [-1, True, "soon", float("nan"), [1]])
def test_an_option_that_is_neither_a_limit_nor_off_is_refused(option: str, wrong: Any) -> None:
    with pytest.raises(SchemaError, match=option):
        Tool(len, **{option: wrong})


@OFF
@pytest.mark.parametrize(
    "settings",
    [
        lambda off: {"policies": {"default_timeout": off}},
        lambda off: {"defaults": {"timeout": off}},
        lambda off: {"tools": {"look": {"timeout": off}}},
        lambda off: {"mcp_servers": {"a": {"command": "a", "timeout": off}}},
    ],
)
def test_no_timeout_can_be_switched_off_and_the_message_says_why(
    settings: Callable[[Any], Any], off: Any
) -> None:
    with pytest.raises(ConfigurationError, match="cannot be switched off: without a time limit"):
        load(settings(off))


@OFF
def test_the_timeout_of_a_tool_cannot_be_switched_off_either(off: Any) -> None:
    with pytest.raises(SchemaError, match="cannot be switched off: without a time limit"):
        Tool(len, timeout_seconds=off)


@OFF
@pytest.mark.parametrize(
    "settings",
    [
        lambda off: {"tools": {"look": {"max_result_bytes": off}}},
        lambda off: {"policies": {"max_result_bytes": off}},
        lambda off: {"policies": {"threads": off}},
        lambda off: {"policies": {"cache": {"max_entries": off}}},
        lambda off: {"policies": {"breaker": {"window": off}}},
        lambda off: {"policies": {"loop": {"longest_cycle": off}}},
        lambda off: {"policies": {"approval": {"deadline": off}}},
        lambda off: {"store": {"keep_for": off}},
    ],
)
def test_what_always_holds_says_that_it_cannot_be_switched_off(
    settings: Callable[[Any], Any], off: Any
) -> None:
    with pytest.raises(ConfigurationError, match="cannot be switched off, since"):
        load(settings(off))


@OFF
@pytest.mark.parametrize("per", ["turn", "minute", "session"])
async def test_the_calls_of_all_tools_together_have_no_limit(per: str, off: Any) -> None:
    limits = {f"per_{per}": off, "warn_per_minute": off}
    tools = tools_of(Tool(lambda: 1, name="look"), policies={"calls": limits})
    assert {(await tools.execute("look")).status.value for _ in range(40)} == {"ok"}


@OFF
async def test_any_number_of_all_tools_runs_at_once(off: Any) -> None:
    steps = Steps()
    look = steps.tool("look", effect="read")
    tools = tools_of(look, policies={"concurrency": off})
    calls = [asyncio.create_task(tools.execute("look", {"step": step})) for step in "ab"]
    await quiet()
    assert steps.log == ["+a", "+b"]
    steps.finish("a", "b")
    await asyncio.gather(*calls)


@OFF
@pytest.mark.parametrize(
    "loop",
    [lambda off: off, lambda off: {"warn_at": off, "refuse_at": off}],
)
async def test_a_loop_is_not_seen(loop: Callable[[Any], Any], off: Any) -> None:
    tools = tools_of(Tool(lambda: 1, name="look"), policies={"loop": loop(off)})
    session = ToolSession("a")
    results = [await tools.execute("look", session=session) for _ in range(9)]
    assert {(result.status.value, result.message) for result in results} == {("ok", None)}


@OFF
async def test_nothing_is_left_alone_that_fails(off: Any) -> None:
    def look() -> None:
        raise ValueError

    tools = tools_of(Tool(look, retry_attempts=0), policies={"breaker": off})
    assert {(await tools.execute("look")).status.value for _ in range(30)} == {"failed"}


@OFF
@pytest.mark.parametrize("show", [lambda off: off, lambda off: {"most": off}])
def test_all_tools_are_shown(show: Callable[[Any], Any], off: Any) -> None:
    many = [Tool(lambda: 1, name=f"look_{number}") for number in range(50)]
    tools = tools_of(*many, policies={"show": show(off)})
    assert [tool.name for tool in tools.offered()] == [tool.name for tool in many]


@OFF
def test_a_server_is_not_asked_whether_it_is_there_and_all_its_tools_are_used(off: Any) -> None:
    server = {"command": "a", "ping_every": off, "max_tools": off}
    said = load({"mcp_servers": {"a": server}}).mcp_servers["a"]
    assert (said.ping_every, said.max_tools) == (False, False)


@pytest.mark.parametrize(
    "settings",
    [
        {"tools": {"look": dict.fromkeys(SWITCHED_OFF, 0)}},
        {"defaults": dict.fromkeys(SWITCHED_OFF, "off")},
        {"policies": {"loop": 0, "breaker": "off", "show": False, "concurrency": 0}},
        {"policies": {"calls": {"per_turn": 0}, "loop": {"refuse_at": "off"}, "show": {"most": 0}}},
        {"mcp_servers": {"a": {"command": "a", "ping_every": 0, "max_tools": "off"}}},
    ],
)
def test_the_json_schema_takes_what_the_settings_take(settings: dict[str, Any]) -> None:
    assert load(load(settings).model_dump(mode="json", exclude_unset=True)) == load(settings)
    jsonschema.Draft202012Validator(settings_schema()).validate(settings)
