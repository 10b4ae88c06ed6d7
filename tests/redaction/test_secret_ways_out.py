"""A secret in every promised form, through every way out, cut at every place."""

import asyncio
import base64
import json
import logging
import re
import sys
import urllib.parse
from contextlib import aclosing
from typing import Annotated

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from leonidas_tools import (
    AdvancedToolProcessor,
    RetryableError,
    Secret,
    ToolContext,
    ToolError,
    ToolResult,
    ToolSession,
    tool,
)
from leonidas_tools.approvals.request import Decision
from leonidas_tools.calls.call import Media
from leonidas_tools.cli import history
from leonidas_tools.redaction import KnownSecrets
from leonidas_tools.results.plain import plain
from leonidas_tools.results.spill import Results
from tests.approvals.bench import Bank
from tests.mcp_server.conftest import serve  # noqa: F401 - a fixture
from tests.promises.faults.play import call, play

PLAIN = "Plain4711ZebraKey0815abcdef"
ODD = "k3y/47\\11+'Ze\"bra=Ümläut&<x> end"
SECRETS = [PLAIN, pytest.param(ODD, marks=pytest.mark.slow)]
ENDINGS = ("tool_complete", "tool_failed")


def base64_of(text, before=b"", *, url=False):
    encode = base64.urlsafe_b64encode if url else base64.b64encode
    return encode(before + text.encode()).decode()


def urls_of(secret):
    """A secret in an address, as Python, browsers, forms and other programs write it."""
    yield urllib.parse.quote(secret, safe="")
    yield urllib.parse.quote(secret)
    yield urllib.parse.quote(secret, safe="!'()*")  # `encodeURIComponent`
    yield urllib.parse.quote_plus(secret)


def escaped(text, signs):
    """JSON with these signs as code points, too."""
    return "".join(f"\\u{ord(each):04x}" if each in signs else each for each in text)


def encoded(secret):
    """A secret in all forms that are promised to be masked, by name."""
    data = secret.encode()
    forms = {
        "as it is": secret,
        "JSON": json.dumps(secret)[1:-1],
        "JSON with all letters": json.dumps(secret, ensure_ascii=False)[1:-1],
        "JSON of PHP": json.dumps(secret)[1:-1].replace("/", "\\/"),
        "JSON of Go": escaped(json.dumps(secret, ensure_ascii=False)[1:-1], "<>&"),
        "JSON of .NET": re.sub(
            r"(?<=\\u)[0-9a-f]{4}",
            lambda digits: digits[0].upper(),
            escaped(json.dumps(secret)[1:-1].replace('\\"', '"'), "<>&'+`\""),
        ),
        "hexadecimal": data.hex(),
        "upper hexadecimal": data.hex().upper(),
    }
    for number, url in enumerate(urls_of(secret)):
        forms[f"URL {number}"] = url
        forms[f"URL {number} in small digits"] = re.sub("%..", lambda c: c[0].lower(), url)
    for before in range(3):
        inside = base64_of(secret, bytes(before))[before and before + 1 :].rstrip("=")
        if (before + len(data)) % 3:  # the last letter depends on what follows
            inside = inside[:-1]
        forms[f"Base64 {before}"] = inside
        forms[f"Base64 {before} for URLs"] = inside.translate(str.maketrans("+/", "-_"))
    return forms


FORMS = {
    **{name: lambda s, name=name: f"it is {encoded(s)[name]}." for name in encoded(ODD)},
    "key of an object": lambda s: {s: 1},
    "deep": lambda s: {"a": [{"b": [[{"c": s}]]}]},
    "tuple": lambda s: (1, (s,)),
    "set": lambda s: {s},
    "bytes": lambda s: b"x" + s.encode() + b"yz",
    "object": lambda s: type("Odd", (), {"__str__": lambda _: f"<{s}>"})(),
    "JSON of an object": lambda s: json.dumps({"key": s}),
    "Basic authorization": lambda s: "Basic " + base64_of(s, b"ana:"),
    "Base64 of more": lambda s: base64_of(s + "and more", b"12345", url=True),
    "twice": lambda s: s + s,
}
CASES = [
    pytest.param(secret, form, id=f"{name}-{form}", marks=marks)
    for name, secret, marks in (("plain", PLAIN, pytest.mark.slow), ("odd", ODD, ()))
    for form in FORMS
]


def told_of(secret, text):
    """The forms of a secret that can be read in a text, also in JSON in JSON."""
    undone = [text]
    for _ in range(3):
        undone.append(undone[-1].replace("\\\\", "\\").replace('\\"', '"'))
    return sorted(name for name, form in encoded(secret).items() if form in "\n".join(undone))


# --- the ways out --------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def logged(caplog):
    for name in (None, "asyncio", "leonidas_tools"):
        caplog.set_level(logging.DEBUG, logger=name)
    # What other libraries log of their own work is theirs.
    for name in ("aiosqlite", "sqlalchemy"):
        caplog.set_level(logging.INFO, logger=name)
    return caplog


class Ways:
    """A processor with a secret in its environment, and all that comes out of it."""

    def __init__(self, secret, monkeypatch, tmp_path, logged):
        monkeypatch.setenv("PLANTED_KEY", secret)
        self.secret = secret
        self._path = tmp_path
        self._logged = logged
        self.tools = None
        self.said = []

    async def of(self, *tools, name="leak"):
        """All that can be read after a call of a tool."""
        file = self._path / "tools.yaml"
        file.write_text(
            "tools: {leak: {custom_parameters: {api_key: '${PLANTED_KEY}'}, retry_delay: 1ms}}\n"
            f"store: {{enabled: true, url: '{self._path}/kept.db'}}\n"
        )
        made = AdvancedToolProcessor(tools, file, builtin_tools=False)
        self.tools, session = made, ToolSession("s")
        async with made, aclosing(made.events.subscribe()) as events:
            await anext(events)
            heard = await play(made.in_session(session), [call(name, id="1")])
            direct = await made.execute(name, session=session)
            async with asyncio.timeout(20):
                while (event := await anext(events))["event"] not in (
                    "tool_complete",
                    "tool_failed",
                ):
                    self.said.append(json.dumps(event, ensure_ascii=False))
            assert await made.store.flush(timeout_seconds=20)
            self.said += [
                json.dumps(heard.by_id["1"], ensure_ascii=False),
                json.dumps(heard.events, ensure_ascii=False),
                json.dumps(direct.to_response(), ensure_ascii=False),
                repr(direct),
                json.dumps(made.monitor.history(), default=repr, ensure_ascii=False),
                made.monitor.prometheus().exposition().decode(),
                *self._spilled(session),
            ]
        self.said += [each.read_bytes().decode("latin-1") for each in self._path.glob("kept.db*")]
        self.said += [
            each.read_bytes().decode(errors="replace") for each in self._path.glob("kept.db*")
        ]
        self.said.append(await asyncio.to_thread(self._history))
        self.said.append(self._logged.text)
        return heard.by_id["1"][-1]

    def _spilled(self, session):
        memory = session.find(Results)
        kept = getattr(memory and memory.store, "_kept", {})
        return [content.decode() for content in kept.values()]

    def _history(self):
        asked = [[], ["--json"], ["replay", "s"]]
        told = [
            CliRunner().invoke(
                history.commands(), [*each[:1], "--store", f"{self._path}/kept.db", *each[1:]]
            )
            for each in asked
        ]
        assert " s " in told[0].stdout
        return "".join(each.stdout for each in told)

    def assert_kept(self):
        assert self.said
        for text in self.said:
            assert told_of(self.secret, text) == []


@pytest.fixture
def ways(monkeypatch, tmp_path, logged):
    return lambda secret: Ways(secret, monkeypatch, tmp_path, logged)


@pytest.mark.parametrize(("secret", "form"), CASES)
async def test_a_secret_of_the_environment_is_disclosed_in_no_form(secret, form, ways):
    @tool(effect="read", overflow="spill")
    async def leak(ctx: ToolContext) -> object:
        value = FORMS[form](ctx.parameters["api_key"])
        said = value if isinstance(value, str) else None
        ctx.progress(said, data=value, **{"" if said is None else said[:60]: 1})
        return value

    way = ways(secret)
    await way.of(leak)
    way.assert_kept()


def fails(error):
    raise error


def words(key):
    return f"the key {key} of {json.dumps({'key': key})}"


async def returns(ctx: ToolContext) -> str:
    return words(ctx.parameters["api_key"])


def in_thread(ctx: ToolContext) -> list:
    ctx.progress(words(ctx.parameters["api_key"]))
    return [words(ctx.parameters["api_key"])]


async def chooses(ctx: ToolContext) -> None:
    key = ctx.parameters["api_key"]
    raise ToolError(
        words(key), retry_hint=words(key), valid_options=[key, words(key)], reason_code=key
    )


async def tries_again(ctx: ToolContext) -> None:
    raise RetryableError(words(ctx.parameters["api_key"]))


async def makes(ctx: ToolContext) -> ToolResult:
    key = ctx.parameters["api_key"]
    return ToolResult(
        result={"a": words(key)},
        message=words(key) * 300,
        speech=words(key),
        retry_hint=words(key),
        reason_code=words(key),
        valid_options=[{"key": key}],
        media=[Media(mime_type=f"text/{key}", data=b"x" + key.encode())],
    )


async def raises(ctx: ToolContext) -> None:
    key = ctx.parameters["api_key"]
    ctx.undo(fails, OSError(words(key)))
    try:
        fails(KeyError(key))
    except KeyError as error:
        raise ValueError(words(key)) from error


def computes(api_key: str) -> str:
    return words(api_key)


KINDS = {
    "returns": (returns, {}),
    "in a thread": (in_thread, {}),
    "chosen words": (chooses, {"effect": "once"}),
    "tried again": (tries_again, {"retry_attempts": 1}),
    "a result of its own": (makes, {}),
    "raises": (raises, {"effect": "once"}),
    "computes": (computes, {}),
    "long": (returns, {"max_result_tokens": 3}),
    "cached": (returns, {"cache_seconds": 60}),
}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_tool_of_any_kind_tells_no_secret(kind, secret, ways):
    function, options = KINDS[kind]
    way = ways(secret)
    await way.of(
        tool(**{"effect": "read", "name": "leak", "retry_attempts": 0, **options})(function)
    )
    way.assert_kept()


async def test_a_tool_in_another_process_tells_no_secret(ways):
    way = ways(PLAIN)
    body = await way.of(tool(effect="read", name="leak", cpu_bound=True)(computes))
    assert body["result"].startswith("the key ***")
    way.assert_kept()


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("function", [returns, chooses])
async def test_a_tool_that_stands_in_keeps_its_secrets(function, secret, ways):
    @tool(effect="read", retry_attempts=0, fallback_tools=["leak"])
    async def first() -> str:
        raise OSError("down")

    way = ways(secret)
    await way.of(first, tool(name="leak", effect="read", retry_attempts=0)(function), name="first")
    way.assert_kept()


async def test_a_tool_that_stands_in_tells_no_preset_of_the_first(ways):
    @tool(effect="read", retry_attempts=0, fallback_tools=["second"])
    async def leak(api_key: str) -> str:
        raise OSError("down")

    @tool(effect="read")
    async def second(api_key: str, ctx: ToolContext) -> str:
        ctx.progress(api_key)
        return words(api_key)

    way = ways(PLAIN)
    body = await way.of(leak, second)
    assert body["result"].startswith("the key ***")
    way.assert_kept()


@pytest.mark.parametrize("secret", SECRETS)
async def test_a_call_within_a_call_tells_no_secret_of_either(secret, ways):
    way = ways(secret)

    async def echo(text: str) -> str:
        return f"{text} was said"

    @tool(effect="read")
    async def leak(ctx: ToolContext) -> list:
        key = ctx.parameters["api_key"]
        inner = await way.tools.execute("echo", {"text": key}, session=ctx.session)
        return [inner.result, inner.to_response()]

    @tool(effect="read")
    async def outer(ctx: ToolContext) -> object:
        inner = await way.tools.execute("leak", session=ctx.session)
        ctx.progress(str(inner.result))
        return inner.result

    body = await way.of(leak, echo, outer, name="outer")
    assert body["result"][0] == "*** was said"
    way.assert_kept()


async def test_what_is_confirmed_by_voice_tells_no_secret():
    async def leak(ctx: ToolContext) -> str:
        ctx.progress(words(ctx.parameters["api_key"]))
        return words(ctx.parameters["api_key"])

    settings = {"leak": {"custom_parameters": {"api_key": PLAIN}}}
    bank = Bank(tool(requires_approval=True)(leak), config={"tools": settings})
    asked = await bank.call("leak")
    bank.answer("Yes.")
    answered = await bank.confirm(asked.result["approval_id"])
    assert answered.result["result"] == 'the key *** of {"key": "***"}'
    told = [asked.to_response(), answered.to_response(), [e.to_json() for e in bank.events]]
    assert told_of(PLAIN, json.dumps(told)) == []
    assert PLAIN not in repr(bank.events)


async def test_a_client_of_our_own_server_gets_no_secret(serve):  # noqa: F811
    settings = {"leak": {"custom_parameters": {"api_key": PLAIN}}}

    async def leak(ctx: ToolContext, raising: bool = False) -> object:
        ctx.progress(words(ctx.parameters["api_key"]))
        if raising:
            raise ToolError(words(ctx.parameters["api_key"]))
        return {ctx.parameters["api_key"]: [ctx.parameters["api_key"]]}

    serving = await serve(tool(effect="read", retry_attempts=0)(leak), config={"tools": settings})
    client = await serving.client()
    progress = []

    async def on_progress(*told):
        progress.append(told)

    answers = [
        await client.call_tool("leak", {"raising": raising}, progress_callback=on_progress)
        for raising in (False, True)
    ]
    assert progress
    assert told_of(PLAIN, "".join(each.model_dump_json() for each in answers)) == []
    assert told_of(PLAIN, str(progress)) == []


SERVER = """
import os
from mcp.server.mcpserver import MCPServer

server = MCPServer("leaks")

@server.tool()
def leak(raising: bool = False) -> str:
    if raising:
        raise ValueError(os.environ["TOKEN"])
    return os.environ["TOKEN"] + " in " + os.environ["LANGUAGE"]

server.run()
"""


async def test_a_server_does_not_give_back_what_it_was_given_in_confidence(tmp_path):
    file = tmp_path / "server.py"
    file.write_text(SERVER)
    env = {"TOKEN": PLAIN, "LANGUAGE": "English"}
    server = {"command": sys.executable, "args": [str(file)], "env": env}
    async with AdvancedToolProcessor(config={"mcp_servers": {"leaks": server}}) as tools:
        assert await tools.ready(timeout_seconds=60)
        told = [await tools.execute("leak", {"raising": raising}) for raising in (False, True)]
    assert "*** in English" in str(told[0].result)
    assert told_of(PLAIN, json.dumps([each.to_response() for each in told])) == []


DESCRIBING = """
import os
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from pydantic import Field

key = os.environ["TOKEN"]
server = MCPServer("describes")

@server.tool(description=f"Reads http://ana:{key}@host for {key}")
async def read(
    default: Annotated[str, Field(description=f"as {key}", examples=[key])] = key,
    place: Annotated[str, Field(title=key)] = "home",
    shape: Annotated[str, Field(pattern=f"^$|{key}", json_schema_extra={"x-of": key})] = "",
) -> bool:
    return default == key

@server.tool()
async def broken(a: str) -> bool:
    return True

tool = server._tool_manager.get_tool("broken")
tool.parameters["properties"]["a"] = {"$ref": f"#/no/{key}"}
server.run()
"""


async def test_what_a_server_says_of_its_tools_holds_none_of_its_secrets(tmp_path, logged):
    file = tmp_path / "server.py"
    file.write_text(DESCRIBING)
    server = {"command": sys.executable, "args": [str(file)], "env": {"TOKEN": PLAIN}}
    config = {"mcp_servers": {"describes": server}}
    async with AdvancedToolProcessor(config=config, builtin_tools=False) as tools:
        assert await tools.ready(timeout_seconds=60)
        [status] = tools.mcp_servers.status()
        said = [json.dumps(tools.openai_tools()), tools.prompt_text(), repr(status)]
        assert "broken" in repr(status["left_out"])
        schema = tools.registry["read"].metadata.parameters
        assert schema["properties"]["default"]["description"] == "as ***"
        assert "default" not in schema["properties"]["default"]
        assert schema["properties"]["place"]["default"] == "home"
        assert (await tools.execute("read")).result == {"result": True}
    assert told_of(PLAIN, "".join([*said, logged.text])) == []


NAMING = """
import base64
import os

from mcp.server.mcpserver import MCPServer

(key,) = (os.environ[name] for name in ("TOKEN", "PLACE") if name in os.environ)
server = MCPServer("names")

async def work(a: str = "") -> bool:
    return True

encoded = base64.b64encode(key.encode()).decode().rstrip("=")
names = ("works", "named", "nested", "chosen", "labelled", "defined")
for name in (*names, key, f"get_{encoded}"):
    server.add_tool(work, name=name, description="Works.")

def told(name, **more):
    parameters = server._tool_manager.get_tool(name).parameters
    server._tool_manager.get_tool(name).parameters = {**parameters, **more}

told("named", properties={f"key-{key}": {"type": "string"}})
told("nested", properties={"a": {"type": "object", "required": [key[:20] + key[20:]]}})
told("chosen", properties={"a": {"enum": ["a", key]}})
told("labelled", properties={"a": {"enum": [key, "a"], "enumNames": ["One", "Two"]}})
told("defined", **{"$defs": {key: {"type": "string"}}})
server.run()
"""


BY_NAME_OR_FROM_THE_ENVIRONMENT = pytest.mark.parametrize(
    "env", [{"TOKEN": PLAIN}, {"PLACE": "${PLANTED_KEY}"}], ids=["by its name", "environment"]
)


@BY_NAME_OR_FROM_THE_ENVIRONMENT
async def test_a_tool_of_a_server_that_is_named_after_its_secret_is_left_out(
    env, tmp_path, monkeypatch, logged
):
    monkeypatch.setenv("PLANTED_KEY", PLAIN)
    file = tmp_path / "server.py"
    file.write_text(NAMING)
    server = {"command": sys.executable, "args": [str(file)], "env": env}
    config = {"mcp_servers": {"names": {**server, "exclude": ["wroks"]}}}
    events = []
    async with AdvancedToolProcessor(config=config, builtin_tools=False) as tools:
        tools.monitor.subscribe(events.append)
        assert await tools.ready(timeout_seconds=60)
        [status] = tools.mcp_servers.status()
        assert (await tools.execute("works")).result == {"result": True}
        said = [json.dumps(tools.openai_tools()), tools.prompt_text(), repr(status), repr(events)]
        declared = {each["function"]["name"] for each in tools.openai_tools()}
        assert declared == {"works", "chosen", "confirm_action", "answer_question"}
        [chosen] = (each for each in tools.registry if each.name == "chosen")
        assert chosen.metadata.parameters["properties"] == {"a": {"enum": ["a"]}}
    why = {each["tool"]: each["why"] for each in status["left_out"]}
    assert why == {
        "***": "its name contains a secret of the server's settings",
        "get_***": "its name contains a secret of the server's settings",
        **dict.fromkeys(
            ("named", "nested", "labelled", "defined"),
            "its parameters contain a secret of the server's settings",
        ),
    }
    assert told_of(PLAIN, "".join([*said, logged.text])) == []


ASKING = """
import os
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel, Field

(key,) = (os.environ[name] for name in ("TOKEN", "PLACE") if name in os.environ)
server = MCPServer("asks")

class Size(BaseModel):
    size: str = Field(default=key, title=f"Size for {key}", description=key)

def which():
    return Elicit(f"Which, with {key}?", Size)

@server.tool()
async def ask(size: Annotated[Size, Resolve(which)]) -> str:
    return size.size

server.run()
"""


@BY_NAME_OR_FROM_THE_ENVIRONMENT
async def test_a_server_asks_for_nothing_with_its_secrets_in_the_question(
    env, tmp_path, monkeypatch, logged
):
    monkeypatch.setenv("PLANTED_KEY", PLAIN)
    file = tmp_path / "server.py"
    file.write_text(ASKING)
    server = {"command": sys.executable, "args": [str(file)], "env": env}
    config = {"mcp_servers": {"asks": server}}
    asked = []

    async def person(request):
        asked.append(request)
        return Decision.approve() if request.schema is None else Decision.fill({"size": "S"})

    async with AdvancedToolProcessor(config=config, builtin_tools=False, approval=person) as tools:
        assert await tools.ready(timeout_seconds=60)
        assert (await tools.execute("ask")).result == {"result": "S"}
    titles = sorted(request.title for request in asked)
    assert [title.partition("'asks' ")[2] for title in titles] == [
        "asks: Which, with ***? (Size for ***?)",
    ]
    told = [json.dumps([request.to_json() for request in asked]), repr(asked), logged.text]
    assert told_of(PLAIN, "".join(told)) == []


ASKING_BY_NAME = """
import json
import os
import sys

key = os.environ["TOKEN"]
field = {"type": "string", "title": "Size"}
forms = {"name": {key: field}, "choice": {"size": {**field, "enum": [key, "S"]}}}
page = {"mode": "url", "url": f"https://example.com/?k={key}", "elicitationId": "1"}

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    params = message.get("params") or {}
    match message.get("method"):
        case "initialize":
            version = "2025-06-18"
            info = {"name": "asks", "version": "1"}
            said = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            send(id=message["id"], result=said)
        case "tools/list":
            tool = {"name": "ask", "inputSchema": {"type": "object"}}
            send(id=message["id"], result={"tools": [tool]})
        case "tools/call":
            call, by = message["id"], params["arguments"]["by"]
            schema = {"type": "object", "properties": forms.get(by)}
            asked = {"requestedSchema": schema} if by in forms else page
            send(id="q", method="elicitation/create", params={"message": "Which?", **asked})
        case None if message["id"] == "q":
            text = {"type": "text", "text": message["result"]["action"]}
            send(id=call, result={"content": [text]})
        case _ if "id" in message:
            send(id=message["id"], error={"code": -32601, "message": "unknown"})
"""


@pytest.mark.parametrize("by", ["name", "choice", "page"])
async def test_a_server_that_asks_by_the_name_of_its_secret_is_declined(tmp_path, logged, by):
    file = tmp_path / "server.py"
    file.write_text(ASKING_BY_NAME)
    server = {"command": sys.executable, "args": [str(file)], "env": {"TOKEN": PLAIN}}
    asked = []

    async def person(request):
        asked.append(request)
        return Decision.deny("no")

    async with AdvancedToolProcessor(
        config={"mcp_servers": {"asks": server}}, builtin_tools=False, approval=person
    ) as tools:
        assert await tools.ready(timeout_seconds=60)
        assert (await tools.execute("ask", {"by": by})).result == "decline"
    assert asked == []
    assert "Declined an elicitation" in logged.text
    assert "a secret of its settings" in logged.text
    assert told_of(PLAIN, logged.text) == []


CUTTING = """
import json
import os
import sys

key = os.environ["TOKEN"]

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            info = {"name": "cuts", "version": "1"}
            version = message["params"]["protocolVersion"]
            said = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            send(id=message["id"], result=said)
        case "tools/list":
            tool = {"name": "cut", "inputSchema": {"type": "object"}}
            send(id=message["id"], result={"tools": [tool]})
        case "tools/call":
            send(id=message["id"], error={"code": -32000, "message": "x" * 8_180 + key})
        case _ if "id" in message:
            send(id=message["id"], error={"code": -32601, "message": "unknown"})
"""


async def test_what_is_cut_of_a_message_of_a_server_is_masked_first(tmp_path, logged):
    file = tmp_path / "server.py"
    file.write_text(CUTTING)
    server = {"command": sys.executable, "args": [str(file)], "env": {"TOKEN": PLAIN}}
    async with AdvancedToolProcessor(
        config={"mcp_servers": {"cuts": server}}, builtin_tools=False
    ) as tools:
        assert await tools.ready(timeout_seconds=60)
        cut = await tools.execute("cut")
    assert cut.message.startswith("x")
    assert PLAIN[:5] not in cut.message + logged.text


# --- cut at every place --------------------------------------------------------------------------

FILLERS = st.text("ab c\n", max_size=60)
OVERFLOWS = st.sampled_from(["head", "tail", "both", "spill"])


def filled(before, secret, after, shape):
    text = before + secret + after
    return {"text": text, "list": [text], "object": {"a": text, "b": 1}, "key": {text: text}}[shape]


@settings(deadline=None)
@given(
    FILLERS,
    FILLERS,
    st.sampled_from([PLAIN, ODD]),
    st.integers(1, 60),
    OVERFLOWS,
    st.sampled_from(["text", "list", "object", "key"]),
)
def test_no_cut_leaves_a_piece_of_a_secret(before, after, secret, tokens, overflow, shape):
    @tool(effect="read", overflow=overflow, max_result_tokens=tokens)
    async def leak() -> object:
        return filled(before, secret, after, shape)

    config = {"tools": {"leak": {"custom_parameters": {"api_key": secret}}}}
    tools = AdvancedToolProcessor([leak], config, builtin_tools=False)
    session = ToolSession("s")
    told = asyncio.run(tools.execute("leak", session=session)).to_response()
    kept = session.get(Results).store._kept.values()
    assert told_of(secret, json.dumps(told, ensure_ascii=False)) == []
    assert told_of(secret, b"".join(kept).decode()) == []


SECRET_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=6, max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab \0{=%+/", max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
)


@given(SECRET_TEXTS.filter(lambda text: "*" not in text), st.data())
def test_no_form_of_a_secret_leaves_anywhere_in_a_value(secret, data):
    form = data.draw(st.sampled_from(sorted(encoded(secret).values())))
    text = data.draw(FILLERS) + form + data.draw(FILLERS)
    around = st.sampled_from([text, {text: 1}, [{"a": [text]}], {"b": text, "c": form}])
    shown = KnownSecrets([secret])([data.draw(VALUES), data.draw(around), data.draw(VALUES)])
    texts = []
    collect(shown, texts)
    assert not any(form in each for each in texts)


def collect(value, texts):
    """Add all keys and texts of a value to a list."""
    if isinstance(value, dict):
        for key, item in value.items():
            texts.append(key)
            collect(item, texts)
    elif isinstance(value, list):
        for item in value:
            collect(item, texts)
    elif isinstance(value, str):
        texts.append(value)


@given(VALUES, st.lists(SECRET_TEXTS, min_size=1, max_size=3))
def test_a_value_without_secrets_stays_the_same(value, secrets):
    texts = []
    collect(value, texts)
    known = KnownSecrets([*secrets, "\0\ue000\0"])
    if not any(known.text(text) != text for text in texts):
        assert known(value) == value


@given(FILLERS, FILLERS, st.integers(1, 300), st.sampled_from([PLAIN, ODD]))
def test_what_is_kept_is_masked_before_it_is_cut(before, after, max_bytes, secret):
    shown, _ = plain({"said": before + secret + after}, max_bytes, mask=KnownSecrets([secret]))
    assert told_of(secret, json.dumps(shown, ensure_ascii=False)) == []


# --- short secrets, numbers, bytes ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("123", "***"),
        (123, "***"),
        (123.0, "***"),
        (
            {"cvv": 123, "rows": [1230, 4123, 12, 1.23]},
            {"cvv": "***", "rows": [1230, 4123, 12, 1.23]},
        ),
        ("with 123, of 1234 at 0.1235", "with ***, of 1234 at 0.1235"),
        ("cvv123", "cvv***"),
        ('{"code": "123", "n": 41237}', '{"code": "***", "n": 41237}'),
        (True, True),
        ({"123": 1}, {"***": 1}),
    ],
)
async def test_a_short_secret_is_masked_as_a_word_and_not_in_numbers(given, shown):
    @tool(effect="read")
    async def pay(code: Annotated[str, Secret]) -> object:
        return given

    tools = AdvancedToolProcessor([pay], builtin_tools=False)
    assert (await tools.execute("pay", {"code": "123"})).result == shown


@pytest.mark.parametrize("given", [47114711, 47114711.0, "47114711", "047114711", 1470.5])
def test_a_number_that_is_a_secret_is_masked(given):
    assert KnownSecrets(["47114711", "1470.5"])([given, 7, 0.5]) == (
        [given.replace("47114711", "***") if isinstance(given, str) else "***", 7, 0.5]
    )


@pytest.mark.parametrize(
    ("secret", "given", "shown"),
    [
        ("main", {"ownerDomain": "main"}, {"ownerDomain": "***"}),
        ("main", "the domain of main, in main_menu", "the domain of ***, in ***_menu"),
        ("/srv/data/private", "in /srv/data: /srv/data/private/a", "in /srv/data: ***/a"),
    ],
)
def test_what_is_not_the_whole_secret_stays(secret, given, shown):
    assert KnownSecrets([secret])(given) == shown


def test_two_keys_that_are_masked_stay_two():
    value = {f"a {PLAIN}": 1, f"a {PLAIN.encode().hex()}": 2, "a ***": 3}
    shown = KnownSecrets([PLAIN])(value)
    assert sorted(shown.values()) == [1, 2, 3]
    assert told_of(PLAIN, json.dumps(shown)) == []


def test_what_holds_no_secret_comes_back_as_it_is():
    value = {"rows": [{"a": "Lisbon", "n": 1}, None, True], "b": 2.5}
    assert KnownSecrets([PLAIN])(value) is value


def test_what_a_result_names_as_secret_is_masked_without_its_name_too():
    @tool(effect="read", secrets=["iban"])
    async def account() -> ToolResult:
        inner = json.dumps({"iban": "DE89-3704-0044"})
        value = {"iban": "PT50-0002-0123", "text": "to PT50-0002-0123", "inner": inner}
        return ToolResult(result=value, message="IBAN PT50-0002-0123")

    told = asyncio.run(AdvancedToolProcessor([account]).execute("account"))
    assert (told.result, told.message) == (
        {"iban": "***", "text": "to ***", "inner": '{"iban": "***"}'},
        "IBAN ***",
    )


def test_a_secret_that_repeats_itself_is_masked_in_a_long_text():
    secrets = KnownSecrets(["a" * 40, "ab" * 20])
    assert secrets.text("a" * 200_000) == "***" * 5_000
    assert secrets.text("ab" * 100_000) == "***" * 5_000
