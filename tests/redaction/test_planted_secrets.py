"""P7: secrets are planted wherever they can be, and looked for in all that is told."""

import asyncio
import json
import logging
import sqlite3
import sys
from contextlib import aclosing
from typing import Annotated

import pytest
from typer.testing import CliRunner

from leonidas_tools import (
    AdvancedToolProcessor,
    Approvals,
    Decision,
    RetryableError,
    Secret,
    Tool,
    ToolContext,
    ToolSession,
    tool,
    tool_request,
)
from leonidas_tools.approvals.log import ApprovalLog
from leonidas_tools.calls.events import EventKind
from leonidas_tools.cli import history
from leonidas_tools.errors import SchemaError
from leonidas_tools.live.dead_air import DeadAir
from leonidas_tools.live.tool_options import Filler
from leonidas_tools.mcp.transport.redaction import ServerRedaction, discreet_logs
from leonidas_tools.settings.models import MCPServerSettings
from leonidas_tools.store import Store
from tests.promises.faults.play import call, play

MARKED = "marked-4711-zebra"
FORMATTED = "formatted-4712-zebra"
NAMED = "named-4713-zebra"
LOOKS = {
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "key": "sk-proj-abcDEF1234567890abcDEF",
    "pem": "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7zebra\n-----END PRIVATE KEY-----",
    "address": "postgresql://ana:pw-4714-zebra@db/shop",
}
IN_LOOKS = [LOOKS["jwt"], LOOKS["key"], "MIIEpAIBAAKCAQEA7zebra", "pw-4714-zebra"]
ENVIRONMENT = {"PLANTED_KEY": "env-4715-zebra", "PLANTED_REGION": "env-4716-zebra"}
ALL = [MARKED, FORMATTED, NAMED, *IN_LOOKS, *ENVIRONMENT.values()]
ARGUMENTS = {"pin": MARKED, "phrase": FORMATTED, "password": NAMED, "note": LOOKS["key"]}
SCHEMA = {
    "type": "object",
    "properties": {
        "pin": {"type": "string", "x-secret": True},
        "phrase": {"type": "string", "format": "password", "default": FORMATTED},
        "password": {"type": "string"},
        "note": {"type": "string"},
    },
}


def found_in(text):
    """Which of the planted secrets stand in a text, also as JSON writes them."""
    plain = text.replace("\\n", "\n")
    return [secret for secret in ALL if secret in plain]


@pytest.fixture(autouse=True)
def logged(caplog, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    caplog.set_level(logging.DEBUG)
    for name in ("asyncio", "leonidas_tools"):
        caplog.set_level(logging.DEBUG, logger=name)
    yield caplog
    assert found_in(caplog.text) == []
    assert found_in(repr([record.__dict__ for record in caplog.records])) == []


def all_of_it(ctx=None):
    """Every secret in one text."""
    return " | ".join([MARKED, FORMATTED, NAMED, *LOOKS.values(), *ENVIRONMENT.values()])


async def work(ctx: ToolContext, how="ok", **_):
    ctx.progress(f"with {all_of_it()}", password=NAMED, inner={"deep": [MARKED]})
    ctx.emit(EventKind.TASK_LIST, {"tasks": [{"id": "1", "title": all_of_it()}]})
    ctx.emit(EventKind.ITERATION, {"number": 1, "thought": all_of_it()})
    if how == "raise":
        ctx.undo(fail)
        raise ValueError(all_of_it())
    if how == "retry":
        raise RetryableError("not now", retry_hint="later")
    return {"password": NAMED, "said": f"{MARKED} {LOOKS['key']}", "region": "fine"}


def fail(*_, **__):
    raise OSError(all_of_it())


def planted(name="work", **options):
    schema = json.loads(json.dumps(SCHEMA))
    schema["properties"]["how"] = {"type": "string"}
    return Tool.from_json_schema(
        name=name, description="Works.", parameters=schema, function=work, **options
    )


CONFIG = (
    """
tools:
  work: {custom_parameters: {api_key: "${PLANTED_KEY}", region: "in ${PLANTED_REGION}"}}
  echo:
    custom_parameters: {region: "${PLANTED_REGION}", password: NAMED}
    environment_specific: {production: {custom_parameters: {deep: {token: "${PLANTED_KEY}"}}}}
defaults: {custom_parameters: {secret: NAMED}}
mcp_servers:
  local:
    command: PYTHON
    args: ["-c", "import sys; sys.exit(1)", "--token", "NAMED", "--api-key=NAMED", "${PLANTED_KEY}"]
    env: {TOKEN: "${PLANTED_KEY}", OTHER: NAMED}
  remote:
    url: "http://ana:NAMED@127.0.0.1:9/mcp?key=${PLANTED_KEY}&more=NAMED"
    headers: {Authorization: "Bearer ${PLANTED_KEY}"}
    timeout: 0.2
""".replace("PYTHON", sys.executable)
    .replace(" NAMED", f" {NAMED}")
    .replace("=NAMED", f"={NAMED}")
)
CONFIG = CONFIG.replace('"NAMED"', f'"{NAMED}"').replace(":NAMED@", f":{NAMED}@")


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text(CONFIG)
    assert "NAMED" not in CONFIG
    return file


async def told_by(tools, asked):
    """What the answers to requests say, and the page for Prometheus."""
    requests = [tool_request(name, **arguments) for name, arguments in asked]
    heard = await play(tools, requests)
    assert len(heard.parts) == len(requests)
    return "\n".join(part.text for part in heard.parts)


REQUESTS = [
    ("get_configuration", {}),
    ("get_configuration", {"tool": "work"}),
    ("get_configuration", {"tool": "echo"}),
    ("get_configuration", {"tool": "unknown"}),
    ("list_tools", {}),
    ("get_tool", {"name": "work"}),
    ("get_metrics", {}),
    ("get_history", {}),
    ("get_health", {}),
    ("get_alerts", {}),
]


# --- calls -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["ok", "raise", "retry"])
async def test_a_secret_of_a_call_is_disclosed_to_the_tool_only(how, config, tmp_path):
    options = {"effect": "once", "undo": fail} if how == "raise" else {"effect": "read"}
    tools = AdvancedToolProcessor([planted(**options)], config, builtin_tools=False)
    file = tmp_path / "kept.db"
    followed = []
    async with Store(file) as store, tools, aclosing(tools.events.subscribe()) as events:
        tools.monitor.subscribe(store.sink)
        await anext(events)
        heard = await play(tools, [call("work", {**ARGUMENTS, "how": how}, id="1")])
        async with asyncio.timeout(10):
            while not followed or followed[-1]["event"] not in ("tool_complete", "tool_failed"):
                followed.append(await anext(events))
        answers = await told_by(tools, REQUESTS)
        await store.flush()
        exposition = tools.monitor.prometheus().exposition().decode()
    assert {"tool_progress", "task_list", "iteration"} <= {event["event"] for event in followed}
    assert found_in(json.dumps(followed)) == []
    assert found_in(json.dumps(heard.events)) == []
    assert heard.events
    assert found_in(answers) == []
    assert found_in(exposition) == []
    body = heard.by_id["1"][0]
    assert found_in(json.dumps({k: v for k, v in body.items() if k != "result"})) == []
    rows = "\n".join(sqlite3.connect(file).iterdump())
    assert '"work"' in rows or "'work'" in rows
    assert found_in(rows) == []
    shown = await asyncio.to_thread(shown_history, file)
    assert "work" in shown
    assert found_in(shown) == []


def shown_history(file):
    asked = ["--store", str(file), "--json"]
    lines = CliRunner().invoke(history.commands(), asked, catch_exceptions=False)
    assert lines.exit_code == 0
    session = json.loads(lines.stdout.splitlines()[0])["session"]
    more = [["--store", str(file)], ["replay", "--store", str(file), session]]
    return lines.stdout + "".join(
        CliRunner().invoke(history.commands(), each, catch_exceptions=False).stdout for each in more
    )


async def test_what_the_environment_says_does_not_reach_the_model(config):
    async def echo(ctx: ToolContext) -> dict:
        ctx.progress(ctx.parameters["region"])
        return {"used": f"region {ctx.parameters['region']}", "all": dict(ctx.parameters)}

    scheduled = tool(behavior="NON_BLOCKING", scheduling={"progress": "SILENT"})(echo)
    tools = AdvancedToolProcessor([scheduled], config, builtin_tools=False)
    heard = await play(tools, [call("echo", id="1")])
    body = heard.by_id["1"][0]
    assert body["result"]["used"] == "region ***"
    assert found_in(json.dumps(body)) == []
    assert found_in(json.dumps(heard.events)) == []


async def test_a_declared_secret_in_a_result_is_disclosed_to_no_one(tmp_path):
    @tool(
        effect="read",
        secrets=["iban", "code"],
        overflow="spill",
        max_result_tokens=100,
        behavior="NON_BLOCKING",
        scheduling={"progress": "SILENT"},
    )
    async def account(code: str, ctx: ToolContext, long: bool = False) -> dict:
        ctx.progress("looked it up", iban=MARKED)
        parts = [{"iban": MARKED, "balance": n} for n in range(100 if long else 1)]
        return {"owner": "ana", "iban": FORMATTED, "empty": {"iban": None}, "accounts": parts}

    file = tmp_path / "kept.db"
    settings = {"store": {"enabled": True, "url": str(file)}}
    tools = AdvancedToolProcessor([account], settings)
    async with tools:
        calls = [
            call("account", {"code": NAMED}, id="1"),
            call("account", {"code": NAMED, "long": True}, id="2"),
        ]
        heard = await play(tools, calls)
        handle = heard.by_id["2"][-1]["result"]["handle"]
        assert await tools.store.flush(timeout_seconds=20)
    assert heard.by_id["1"][-1]["result"] == {
        "owner": "ana",
        "iban": "***",
        "empty": {"iban": None},
        "accounts": [{"iban": "***", "balance": 0}],
    }
    assert found_in(json.dumps(heard.by_id)) == []
    assert found_in(json.dumps(heard.events)) == []
    assert handle
    assert found_in("\n".join(sqlite3.connect(file).iterdump())) == []
    kept = sqlite3.connect(file).execute("SELECT content FROM results").fetchall()
    assert found_in(kept[0][0].decode()) == []


def test_secrets_are_a_list_of_names():
    with pytest.raises(SchemaError, match="secrets must be a list of names, not 'iban'"):
        tool(secrets="iban")(fail)


# --- approvals ---------------------------------------------------------------------------------


async def test_no_secret_is_spoken_or_shown_when_a_person_is_asked(config):
    session, ran = ToolSession("s"), []

    async def pay(
        amount: int,
        pin: Annotated[str, Secret],
        password: str,
        note: str,
        region: str = "",
    ) -> str:
        ran.append((amount, pin, password, note))
        return "paid"

    tools = AdvancedToolProcessor([tool(requires_approval=True)(pay)], config)
    arguments = {"amount": 5, "pin": MARKED, "password": NAMED, "note": LOOKS["key"]}
    async with tools, aclosing(tools.events.subscribe()) as events:
        await anext(events)
        pending = await tools.execute("pay", arguments, session=session)
        desk = session.get(Approvals)
        (request,) = desk.pending()
        assert "amount 5" in request.title
        async with aclosing(tools.events.subscribe()) as late:
            state = await anext(late)
        told = [request.to_json(), repr(request), pending.to_response(), state]
        assert found_in(json.dumps(told)) == []
        late_results = []
        desk.on_result(lambda _, result: late_results.append(result))
        # Whoever edits was shown masks, and gives them back for what is to stay.
        desk.decide(request.id, Decision.edit({**request.details, "amount": 7}))
        async with asyncio.timeout(10):
            while (event := await anext(events))["event"] != "tool_complete":
                assert found_in(json.dumps(event)) == []
            while not late_results:
                await asyncio.sleep(0)
    assert ran == [(7, MARKED, NAMED, LOOKS["key"])]
    assert found_in(json.dumps(late_results[0].to_response())) == []
    assert "amount is 7 instead of 5" in late_results[0].message


async def test_a_rule_that_denies_says_no_secret(config):
    @tool(requires_approval=False)
    async def pay(pin: Annotated[str, Secret]) -> str:
        return "paid"

    rule = {"name": "never", "tools": "pay", "decide": "deny", "message": "Not with {pin}."}
    tools = AdvancedToolProcessor([pay], {"policies": {"rules": [rule]}})
    result = await tools.execute("pay", {"pin": MARKED})
    assert "Not with ***." in result.message
    assert found_in(json.dumps(result.to_response())) == []


# --- settings, MCP servers and declarations ----------------------------------------------------


async def test_the_configuration_is_shown_as_it_is_written_and_without_secrets(config):
    tools = AdvancedToolProcessor(config=config, builtin_tools=False)
    shown = await told_by(tools, [("get_configuration", {})])
    assert found_in(shown) == []
    told = json.loads(shown)["result"]
    assert told["tools"]["work"]["custom_parameters"] == {
        "api_key": "${PLANTED_KEY}",
        "region": "in ${PLANTED_REGION}",
    }
    assert told["defaults"]["custom_parameters"] == {"secret": "***"}
    assert told["mcp_servers"]["local"]["args"] == [
        "-c",
        "import sys; sys.exit(1)",
        "--token",
        "***",
        "--api-key=***",
        "${PLANTED_KEY}",
    ]
    remote = told["mcp_servers"]["remote"]
    assert remote["url"] == "http://***@127.0.0.1:9/mcp?key=***&more=***"
    assert remote["headers"] == {"Authorization": "***"}


async def test_unreachable_servers_are_reported_without_secrets(config, logged):
    tools = AdvancedToolProcessor([planted()], config, builtin_tools=False)
    async with tools:
        assert not await tools.ready(timeout_seconds=60)
        assert found_in(await told_by(tools, REQUESTS)) == []
    assert "local" in logged.text
    assert "remote" in logged.text
    assert found_in(repr(tools.settings.current)) == []


async def test_messages_of_a_server_are_shown_without_secrets(tmp_path, monkeypatch, logged):
    monkeypatch.setenv("PLANTED_PLACE", "lisbon-4711-giraffe")
    says = (
        "import os, sys; print(os.environ['TOKEN'], *sys.argv[2:], "
        f"{LOOKS['key']!r}, file=sys.stderr); sys.exit(1)"
    )
    server = {"command": sys.executable, "args": ["-c", says, "--token", NAMED]}
    server["args"].append("${PLANTED_PLACE}")
    server["env"] = {"TOKEN": MARKED}
    tools = AdvancedToolProcessor(config={"mcp_servers": {"says": server}}, builtin_tools=False)
    async with tools:
        assert not await tools.ready(timeout_seconds=60)
        [status] = tools.mcp_servers.status()
    assert "says" in logged.text
    assert "giraffe" not in logged.text + repr(status)


def test_other_libraries_log_no_secret_of_a_server_and_nothing_that_is_said_to_it(logged):
    url = f"http://127.0.0.1:9/mcp?key={NAMED}"
    wire = logging.getLogger("httpx2")
    with discreet_logs(ServerRedaction(MCPServerSettings(url=url))):
        wire.info("HTTP Request: POST %s", url)
        wire.debug("sent: %s", ARGUMENTS)
        try:
            raise OSError(url)
        except OSError:
            wire.exception("it failed")
    wire.debug("as before")
    assert "HTTP Request: POST http://127.0.0.1:9/mcp?key=***" in logged.text
    assert "it failed: OSError at " in logged.text
    assert "sent" not in logged.text
    assert "as before" in logged.text


def test_declarations_carry_neither_marks_nor_presets_of_secrets():
    tools = AdvancedToolProcessor([planted()], builtin_tools=False)
    (declared,) = tools.declarations()[0].function_declarations
    properties = declared.parameters_json_schema["properties"]
    plain = {"type": "string"}
    assert properties == {
        "pin": plain, "phrase": plain, "password": plain, "note": plain, "how": plain,
    }  # fmt: skip
    assert found_in(json.dumps(tools.openai_tools())) == []
    assert found_in(tools.prompt_text()) == []


# --- those who listen --------------------------------------------------------------------------


async def test_what_a_listener_raises_is_logged_without_its_words(logged):
    @tool
    async def fine(pin: str) -> None:
        return None

    def nosy(*_):
        raise ValueError(all_of_it())

    rule = {"name": "many", "metric": "calls_per_minute", "above": 0, "min_calls": 0}
    config = {"monitoring": {"alerts": [rule]}, "tools": {"fine": {"requires_approval": True}}}
    tools = AdvancedToolProcessor([fine], config)
    tools.monitor.subscribe(nosy)
    tools.monitor.subscribe_alerts(nosy)
    tools.settings.on_change(nosy)
    session = ToolSession("s")
    session.get(Approvals).on_change(nosy)
    tools.settings.update({"tools.fine.timeout": 7})
    await tools.execute("fine", {"pin": MARKED}, session=session)
    tools.monitor.alerts()
    tools.registry.on_change(nosy)
    tools.on_declarations_change(nosy)
    tools.registry.register(planted())
    session.get(ApprovalLog).on_question(nosy)
    await tools.execute("fine", {"pin": "another"}, session=session)
    silence = DeadAir(nosy)
    silence.called("1", Filler(after_seconds=0.0))
    async with asyncio.timeout(10):
        while "was not filled" not in logged.text:
            await asyncio.sleep(0)
    silence.close()
    heard_of = ["events", "alerts", "approvals", "changed settings"]
    for what in [*heard_of, "changed tools", "changed declarations", "questions"]:
        assert f"of {what} failed" in logged.text or f"for {what} failed" in logged.text
