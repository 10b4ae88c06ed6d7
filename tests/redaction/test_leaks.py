"""P7: what was said in confidence is told to nobody."""

import asyncio
import json
import logging
import sys

import pytest
from genai_processors import processor

from leonidas_tools import (
    AdvancedToolProcessor,
    LiveToolSession,
    RetryableError,
    Tool,
    ToolContext,
    ToolSession,
    tool,
    tool_request,
)
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Decision
from leonidas_tools.errors import ConfigurationError, RegistryError, ToolValidationError
from tests.promises.faults.play import Script, call, cancellation, play

SECRET = "hunter2"
REQUESTS = ("get_metrics", "get_history", "get_health", "get_alerts", "get_configuration")


@pytest.fixture(autouse=True)
def everything_is_logged(caplog):
    caplog.set_level(logging.DEBUG)
    for name in ("asyncio", "leonidas_tools"):
        caplog.set_level(logging.DEBUG, logger=name)
    return caplog


async def told(tools, heard, requests):
    """All that is told beside the answers' results: messages, events, figures, pages."""
    bodies = [body for _, _, body in heard.answers]
    asked = await play(tools, [tool_request(name) for name in requests])
    return "\n".join(
        [
            *(json.dumps({k: v for k, v in body.items() if k != "result"}) for body in bodies),
            *(json.dumps(event) for event in heard.events),
            *(part.text for part in asked.parts),
            tools.monitor.prometheus().exposition().decode(),
        ]
    )


async def assert_kept(caplog, tools, heard, requests=REQUESTS):
    assert heard.events, "nothing was told at all"
    assert SECRET not in await told(tools, heard, requests)
    assert SECRET not in caplog.text
    assert SECRET not in repr([record.__dict__ for record in caplog.records])


def with_tools(*tools, **config):
    return AdvancedToolProcessor(tools=tools, config=config or None, builtin_tools=False)


# --- what tools raise ------------------------------------------------------------------------


def raise_plain():
    raise ValueError(SECRET)


def raise_chained():
    try:
        raise KeyError(SECRET)
    except KeyError as error:
        raise RuntimeError(SECRET) from error


def raise_group():
    raise ExceptionGroup(SECRET, [OSError(SECRET)])


def raise_odd():
    raise type("OddExit", (BaseException,), {})(SECRET)


RAISING = [raise_plain, raise_chained, raise_group, raise_odd, lambda: sys.exit(SECRET)]


@pytest.mark.parametrize("effect", ["read", "once"])
@pytest.mark.parametrize("kind", ["async", "sync", "generator", "async generator"])
@pytest.mark.parametrize("raising", RAISING)
async def test_an_exception_of_a_tool_is_not_disclosed(caplog, raising, kind, effect):
    async def in_loop() -> None:
        raising()

    def in_thread() -> None:
        raising()

    def generating():
        yield 1
        raising()

    async def streaming():
        yield 1
        raising()

    function = {
        "async": in_loop, "sync": in_thread, "generator": generating, "async generator": streaming,
    }[kind]  # fmt: skip
    tools = with_tools(tool(name="faulty", effect=effect, retry_attempts=1)(function),
                       tools={"faulty": {"retry_delay": "1ms"}})  # fmt: skip
    heard = await play(tools, [call("faulty", id="1")])
    assert heard.by_id["1"][0]["status"] == "failed"
    await assert_kept(caplog, tools, heard)


async def test_an_exception_of_an_undo_step_is_not_disclosed(caplog):
    @tool(undo=raise_plain)
    async def faulty(ctx: ToolContext) -> None:
        ctx.undo(raise_chained)
        raise ValueError(SECRET)

    tools = with_tools(faulty)
    heard = await play(tools, [call("faulty", id="1")])
    assert [e["done"] for e in heard.events if e["event"] == "tool_undo"] == [False, False]
    await assert_kept(caplog, tools, heard)


async def test_an_exception_of_a_fallback_is_not_disclosed(caplog):
    @tool(effect="read", fallback_tools=["second"], retry_attempts=0)
    async def first() -> None:
        raise ValueError(SECRET)

    @tool(effect="read", retry_attempts=0)
    async def second() -> None:
        raise OSError(SECRET)

    tools = with_tools(first, second)
    heard = await play(tools, [call("first", id="1")])
    assert "tool_fallback" in [event["event"] for event in heard.events]
    await assert_kept(caplog, tools, heard)


async def test_an_exception_of_a_user_policy_is_not_disclosed(caplog):
    async def nosy(call, run):
        raise ValueError(f"{SECRET} {call.arguments}")

    async def fine() -> None:
        return None

    tools = AdvancedToolProcessor(tools=[fine], policies=[nosy])
    heard = await play(tools, [call("fine", id="1")])
    assert heard.by_id["1"][0]["status"] == "failed"
    await assert_kept(caplog, tools, heard)


async def test_a_message_chosen_for_the_model_reaches_the_model_only(caplog):
    @tool(effect="read", retry_attempts=0)
    async def choosing() -> None:
        raise RetryableError(f"Your PIN {SECRET} is wrong.")

    tools = with_tools(choosing)
    heard = await play(tools, [call("choosing", id="1")])
    assert SECRET in heard.by_id["1"][0]["message"]
    assert SECRET not in json.dumps(heard.events)
    heard.parts = [part for part in heard.parts if part.get_metadata("tool_event")]
    await assert_kept(caplog, tools, heard)


# --- arguments and results -------------------------------------------------------------------


@tool(effect="read", retry_attempts=0)
async def log_in(user: str, pin: str, tries: int = 1) -> dict:
    if user == "nobody":
        raise ValueError(pin)
    return {"session": pin}


@pytest.mark.parametrize(
    "arguments",
    [
        {"user": "me", "pin": SECRET},
        {"user": "nobody", "pin": SECRET},
        {"pin": SECRET},
        {"user": "me", "pin": [SECRET]},
        {"user": "me", "pin": SECRET, "more": SECRET},
    ],
)
async def test_arguments_and_results_are_disclosed_to_the_model_only(caplog, arguments):
    tools = with_tools(log_in)
    heard = await play(tools, [call("log_in", arguments, id="1")])
    assert len(heard.answers) == 1
    said_by_the_model = [part for part in heard.parts if part.get_metadata("tool_event")]
    assert SECRET not in "".join(part.text for part in said_by_the_model)
    heard.parts = said_by_the_model
    await assert_kept(caplog, tools, heard)


async def test_arguments_of_failed_calls_are_not_disclosed(caplog):
    begun = asyncio.Event()

    @tool(effect="read", timeout_seconds=0.02)
    async def slow(pin: str) -> None:
        await asyncio.Event().wait()

    @tool(effect="read", lane="endless")
    async def endless(pin: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    tools = with_tools(slow, endless, log_in, tools={"log_in": {"enabled": False}})
    async with Script(tools) as script:
        script.say(*(call(n, {"pin": SECRET}, id=n) for n in ("slow", "log_in", "nobody")))
        script.say(call("endless", {"pin": SECRET}, id="endless"))
        async with asyncio.timeout(10):
            await begun.wait()
        script.say(cancellation("endless"))
        await script.until_answered("slow", "log_in", "nobody")
        heard = await script.until_event("tool_cancel", "endless")
    await assert_kept(caplog, tools, heard)


async def test_a_result_that_cannot_be_shown_is_not_disclosed(caplog):
    class Unshowable:
        def __str__(self):
            raise RuntimeError(SECRET)

        __repr__ = __str__

    async def odd():
        return Unshowable()

    tools = with_tools(odd)
    await assert_kept(caplog, tools, await play(tools, [call("odd", id="1")]))


async def test_results_are_recorded_nowhere(caplog):
    async def whisper() -> str:
        return SECRET

    tools = with_tools(whisper)
    heard = await play(tools, [call("whisper", id="1")])
    assert heard.by_id["1"][0]["result"] == SECRET
    await assert_kept(caplog, tools, heard)


# --- settings and the environment ------------------------------------------------------------


@pytest.fixture
def in_environment(monkeypatch):
    monkeypatch.setenv("LEONIDAS_TEST_SECRET", SECRET)


async def test_an_invalid_preset_argument_is_not_disclosed_to_the_model(caplog):
    tools = with_tools(log_in, tools={"log_in": {"custom_parameters": {"tries": SECRET}}})
    heard = await play(tools, [call("log_in", {"user": "me", "pin": "1"}, id="1")])
    assert heard.by_id["1"][0]["status"] == "ok"
    assert "custom_parameters.tries of 'log_in' does not match its schema" in caplog.text
    await assert_kept(caplog, tools, heard, requests=REQUESTS[:-1])


RULES_FOR_SEVERAL_ARGUMENTS = [
    {"anyOf": [{"required": ["day"]}, {"required": ["week"]}]},
    {"maxProperties": 1},
    {"not": {"required": ["year"]}},
    {"if": {"required": ["year"]}, "then": {"properties": {"pass": {"maxLength": 3}}}},
    {"dependentSchemas": {"year": {"properties": {"pass": {"enum": ["a", "b"]}}}}},
]


@pytest.mark.parametrize("secret", [SECRET, SECRET * 30])
@pytest.mark.parametrize("rule", RULES_FOR_SEVERAL_ARGUMENTS)
async def test_a_preset_that_is_secret_stands_in_no_error_about_arguments(
    caplog, monkeypatch, tmp_path, rule, secret
):
    monkeypatch.setenv("LEONIDAS_TEST_SECRET", secret)
    file = tmp_path / "tools.yaml"
    file.write_text("tools: {look: {custom_parameters: {pass: '${LEONIDAS_TEST_SECRET}'}}}")

    async def found(**_):
        return "found"

    properties = {name: {"type": "string"} for name in ("pass", "day", "week", "year")}
    look = Tool.from_json_schema(
        name="look",
        description="Looks.",
        parameters={"type": "object", "properties": properties, **rule},
        function=found,
    )
    tools = AdvancedToolProcessor(tools=[look], config=file)
    deep = []
    for _ in range(500):
        deep = [deep]
    calls = [call("look", {"year": year}, id=str(n)) for n, year in enumerate(["2026", deep])]
    heard = await play(tools, calls)
    answers = [answer for _, _, answer in heard.answers]
    assert [answer["status"] for answer in answers] == ["invalid_argument"] * 2
    assert SECRET[:4] not in json.dumps(answers)
    await assert_kept(caplog, tools, heard)


async def test_an_edit_that_is_wrong_is_refused_without_the_secrets_of_the_call():
    properties = {"door": {}, "code": {"writeOnly": True}, "note": {}}
    unlock = Tool.from_json_schema(
        name="unlock",
        description="Unlocks a door.",
        parameters={"type": "object", "properties": properties, "maxProperties": 2},
        function=lambda **_: None,
        requires_approval=True,
    )
    session = ToolSession()
    arguments = {"door": "front", "code": SECRET}
    asked = await with_tools(unlock).execute("unlock", arguments, session=session)
    edit = Decision.edit({"door": "back", "code": "***", "note": "now"})
    with pytest.raises(ToolValidationError, match=r"at most 2 .*\*\*\*") as caught:
        session.get(Approvals).decide(asked.result["approval_id"], edit)
    assert SECRET not in str(caught.value)


async def test_custom_parameters_reach_the_tool_only(caplog, in_environment, tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text("tools: {keyed: {custom_parameters: {api_key: '${LEONIDAS_TEST_SECRET}'}}}")
    seen = []

    async def keyed(ctx: ToolContext) -> None:
        seen.append(ctx.parameters["api_key"])
        raise ValueError(ctx.parameters["api_key"])

    tools = AdvancedToolProcessor(tools=[keyed], config=file)
    heard = await play(tools, [call("keyed", id="1")])
    assert seen == [SECRET]
    assert SECRET not in str(heard.parts)
    assert SECRET not in json.dumps(heard.by_id)
    assert SECRET not in repr(tools.settings.current)
    assert SECRET not in str(tools.declarations())
    await assert_kept(caplog, tools, heard)


def test_an_error_in_the_settings_does_not_show_the_environment(in_environment, tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text("tools: {log_in: {timeout: '${LEONIDAS_TEST_SECRET}'}}")
    with pytest.raises(ConfigurationError, match="timeout") as caught:
        AdvancedToolProcessor(tools=[log_in], config=file)
    assert SECRET not in str(caught.value)


def test_what_looks_like_a_secret_is_masked_in_the_words_of_a_toolbox(tmp_path, monkeypatch):
    text = f"password={SECRET} of postgresql://ana:{SECRET}@db/shop"
    (tmp_path / "telling_toolbox.py").write_text(f"raise ValueError({text!r})")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        RegistryError, match=r"ValueError: password=\*\*\* of .*telling_toolbox"
    ) as caught:
        AdvancedToolProcessor(config={"toolboxes": ["telling_toolbox"]})
    assert SECRET not in str(caught.value)


async def test_credentials_of_an_mcp_server_are_not_disclosed(caplog, in_environment):
    telling = "import os, sys; print(os.environ['TOKEN'], file=sys.stderr); sys.exit(1)"
    servers = {
        "telling": {
            "command": sys.executable,
            "args": ["-c", telling],
            "env": {"TOKEN": SECRET},
        },
        "remote": {
            "url": "http://127.0.0.1:9/mcp",
            "headers": {"Authorization": f"Bearer {SECRET}"},
            "timeout": 0.2,
        },
    }
    tools = with_tools(log_in, mcp_servers=servers)
    async with tools:
        assert not await tools.ready(timeout_seconds=60)
        heard = await play(tools, [call("log_in", {"user": "a", "pin": "b"}, id="1")])
        assert SECRET not in repr(tools.settings.current)
        assert SECRET not in str(tools.settings.current)
        await assert_kept(caplog, tools, heard)
    assert "telling" in caplog.text


# --- live ------------------------------------------------------------------------------------


async def test_a_live_session_sends_the_model_no_secret(caplog):
    taken = []
    answered = asyncio.Event()

    @processor.processor_function
    async def model(content):
        yield call("log_in", {"user": "nobody", "pin": SECRET}, id="1")
        async for part in content:
            taken.append(part)
            if part.function_response:
                answered.set()

    async def microphone():
        await answered.wait()
        return
        yield

    tools = with_tools(log_in)
    heard = []
    async with asyncio.timeout(10), processor.context():
        async for part in LiveToolSession(model, tools, settle_seconds=0.01)(microphone()):
            heard.append(part)
    assert [part.function_response.response["status"] for part in taken] == ["failed"]
    assert SECRET not in str([part.function_response for part in taken])
    events = [part.text for part in heard if part.get_metadata("tool_event")]
    assert events
    assert SECRET not in "".join(events)
    assert SECRET not in caplog.text


async def test_the_forms_that_a_notebook_shows_hold_no_arguments_and_no_command(monkeypatch):
    monkeypatch.setenv("ACME", "q7Xk-Zr81vTnwLp2mQd9sEy")
    events = []

    @tool(effect="read")
    async def look(key: str, pin: str) -> str:
        return "found"

    config = {
        "tools": {"look": {"custom_parameters": {"key": "${ACME}"}}},
        "mcp_servers": {"x": {"command": "/opt/${ACME}", "args": ["${ACME}"], "enabled": False}},
    }
    tools = AdvancedToolProcessor(tools=[look], config=config)
    tools.monitor.subscribe(events.append)
    async with tools:
        assert (await tools.execute("look", {"pin": "hunter2"})).ok
    shown = [repr(event) for event in events]
    shown += [str(form(tools.settings.current)) for form in (repr, str)]
    assert "look" in shown[0]
    assert "q7Xk" not in "".join(shown)
    assert "hunter2" not in "".join(shown)
