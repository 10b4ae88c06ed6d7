"""P7, as an attack: a secret in every form, through every way out, cut at every place."""

import asyncio
import base64
import html
import json
import logging
import quopri
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
from leonidas_tools.mcp.features import ClientFeatures
from leonidas_tools.redaction import KnownSecrets, spelled
from leonidas_tools.results.plain import plain
from leonidas_tools.results.spill import Results
from tests.approvals.bench import Bank
from tests.mcp.asked import SAMPLING, Model
from tests.mcp_server.conftest import serve  # noqa: F401 - a fixture
from tests.promises.faults.play import call, play

PLAIN = "Plain4711ZebraKey0815abcdef"
ODD = "k3y/47\\11+'Ze\"bra=Ümläut&<x> end"
SECRETS = [PLAIN, pytest.param(ODD, marks=pytest.mark.slow)]
PIECE = 8
ENDINGS = ("tool_complete", "tool_failed")


def base64_of(text, before=b"", *, url=False):
    encode = base64.urlsafe_b64encode if url else base64.b64encode
    return encode(before + text.encode()).decode()


FORMS = {
    "as it is": lambda s: s,
    "in a sentence": lambda s: f"the key is {s}, I think",
    "after a sign": lambda s: f"key={s};",
    "upper case": str.upper,
    "key of an object": lambda s: {s: 1},
    "deep": lambda s: {"a": [{"b": [[{"c": s}]]}]},
    "tuple": lambda s: (1, (s,)),
    "set": lambda s: {s},
    "bytes": lambda s: s.encode(),
    "bytes of more": lambda s: b"x" + s.encode() + b"yz",
    "object": lambda s: type("Odd", (), {"__str__": lambda _: f"<{s}>"})(),
    "JSON": lambda s: json.dumps({"key": s}),
    "JSON with all letters": lambda s: json.dumps({"key": s}, ensure_ascii=False),
    "JSON in JSON": lambda s: json.dumps({"inner": json.dumps({"key": s})}),
    "repr": lambda s: repr({"key": s}),
    "repr of bytes": lambda s: repr(s.encode()),
    "URL": lambda s: "http://host/?q=" + urllib.parse.quote(s, safe=""),
    "form": lambda s: urllib.parse.urlencode({"q": s}),
    "HTML": html.escape,
    "Base64": base64_of,
    "Base64 for URLs": lambda s: base64_of(s, url=True),
    "Basic authorization": lambda s: "Basic " + base64_of(s, b"ana:"),
    "Base64 of more": lambda s: base64_of(s, b"12345"),
    "Base64 in lines": lambda s: base64.encodebytes(b"x" * 50 + s.encode()).decode(),
    "hexadecimal": lambda s: s.encode().hex(),
    "halves": lambda s: [s[: len(s) // 2], s[len(s) // 2 :]],
    "halves under two names": lambda s: {"first": s[:10], "then": s[10:]},
    "letters": list,
    "letters in objects": lambda s: [{"text": c, "n": i} for i, c in enumerate(s)],
    "beginning": lambda s: s[:12],
    "beginning with a mark": lambda s: f"it is {s[:12]}… 14 more",
    "beginning with points": lambda s: f"it is {s[:12]}...",
    "end": lambda s: s[-12:] + " was the key",
    "middle": lambda s: f"({s[5:20]})",
    "twice": lambda s: s + s,
    "overlapping": lambda s: s[:-3] + s,
}
CASES = [
    pytest.param(secret, form, id=f"{name}-{form}", marks=marks)
    for name, secret, marks in (("plain", PLAIN, ()), ("odd", ODD, pytest.mark.slow))
    for form in FORMS
]


def told_of(secret, text):
    """Which pieces of a secret can be read in a text, in whatever form it stands there."""
    text = re.sub("\0+", "\0", text)  # a database is mostly that
    undone = [text, urllib.parse.unquote_plus(text), html.unescape(text)]
    for _ in range(3):
        undone.append(undone[-1].replace("\\\\", "\\").replace('\\"', '"').replace("\\'", "'"))
    joined = text.translate(dict.fromkeys(map(ord, "[]{}\"', \n")))
    undone += [re.sub(r"\\(?:x|u00)([0-9a-f]{2})", lambda c: chr(int(c[1], 16)), text), joined]
    data = secret.encode()
    forms = [secret, data.hex(), json.dumps(secret)[1:-1]]
    for at in range(3):
        encoded = base64_of(secret, bytes(at))[at and at + 1 : -4]
        forms += [encoded, encoded.replace("+", "-").replace("/", "_")]
    pieces = {
        form[at : at + PIECE].lower() for form in forms for at in range(len(form) - PIECE + 1)
    }
    lowered = "\n".join(dict.fromkeys(undone)).lower()
    return sorted(piece for piece in pieces if piece in lowered)


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


def wide(text):
    return text.encode("utf-16")[2:]


SPELLINGS = {
    "Base32": lambda s: base64.b32encode(s.encode()).decode(),
    "Base32 of more": lambda s: base64.b32encode(b"ana:" + s.encode() + b"...").decode(),
    "Base32 in lines": lambda s: "\n".join(
        re.findall(".{1,16}", base64.b32encode(s.encode()).decode().lower())
    ),
    "Base64 of UTF-16": lambda s: base64.b64encode(wide(s)).decode(),
    "Base64 of the other UTF-16": lambda s: base64.b64encode(s.encode("utf-16-be")).decode(),
    "Base64 of UTF-16 with a mark": lambda s: base64.urlsafe_b64encode(s.encode("utf-16")).decode(),
    "hexadecimal of UTF-16": lambda s: wide(s).hex(),
    "hexadecimal of the other UTF-16": lambda s: s.encode("utf-16-be").hex("-"),
    "UTF-16": lambda s: wide(s).decode("latin-1"),
    "bytes of UTF-16": wide,
    "upper hexadecimal": lambda s: s.encode().hex().upper(),
    "hexadecimal with colons": lambda s: s.encode().hex(":"),
    "upper hexadecimal with spaces": lambda s: s.encode().hex(" ").upper(),
    "hexadecimal in groups": lambda s: s.encode().hex(" ", 4),
    "hexadecimal in lines": lambda s: "\n".join(re.findall(".{1,20}", s.encode().hex(" "))),
    "numbers in C": lambda s: ", ".join(f"0x{each:02X}" for each in s.encode()),
    "bytes in C": lambda s: "".join(f"\\x{each:02x}" for each in s.encode()),
    "every byte in an URL": lambda s: "".join(f"%{each:02X}" for each in s.encode()),
    "JSON escapes": lambda s: "".join(f"\\u{ord(each):04x}" for each in s),
    "JSON escapes in JSON": lambda s: json.dumps("".join(f"\\u{ord(each):04X}" for each in s)),
    "JavaScript": lambda s: "".join(f"\\u{{{ord(each):x}}}" for each in s),
    "Python": lambda s: "".join(f"\\U{ord(each):08X}" for each in s),
    "octal": lambda s: "".join(f"\\{each:03o}" for each in s.encode()),
    "letters as they are and in JSON": lambda s: "".join(
        f"\\u{ord(each):04x}" if number % 2 else each for number, each in enumerate(s)
    ),
    "HTML numbers": lambda s: "".join(f"&#{ord(each)};" for each in s),
    "HTML hexadecimal": lambda s: "".join(f"&#x{each:x};" for each in s.encode()),
    "decimals": lambda s: str(list(map(ord, s))),
    "reversed": lambda s: s[::-1],
    "reversed with spaces": lambda s: " ".join(s[::-1]),
    **{
        f"letters with {sep!r}": lambda s, sep=sep: sep.join(s)
        for sep in ("-", " ", ", ", "\n", "_", ".", " | ", "\u200b", "\u00b7")
    },
    "words for signs": lambda s: re.sub("[^A-Za-z0-9]+", "_", s),
}
SPELLED = [
    pytest.param(secret, form, id=f"{name}-{form}")
    for name, secret in (("plain", PLAIN), ("odd", ODD), ("short", "s3cr3t"))
    for form in SPELLINGS
    if not (name == "short" and form == "words for signs")
]


@pytest.mark.parametrize(("secret", "form"), SPELLED)
async def test_a_secret_that_is_spelled_out_is_masked(secret, form):
    given = SPELLINGS[form](secret)

    @tool(effect="read")
    async def leak(ctx: ToolContext) -> object:
        if isinstance(given, bytes):
            return given
        return {"said": f"it is {given}.", "deep": [{given: 1}]}

    config = {"tools": {"leak": {"custom_parameters": {"api_key": secret}}}}
    told = (await AdvancedToolProcessor([leak], config).execute("leak")).to_response()
    text = json.dumps(told, ensure_ascii=False)
    if isinstance(given, bytes):
        given = given.decode("latin-1")
    bare = re.sub("[^0-9a-z]", "", given.lower())
    shown = re.sub("[^0-9a-z]", "", json.dumps(told["result"], ensure_ascii=False).lower())
    core = bare[len(bare) // 4 : len(bare) * 3 // 4]
    assert core not in shown, text


def each(pattern, escape):
    """An escaper of each character that matches."""
    return lambda text: re.sub(pattern, lambda found: escape(found[0]), text)


def quoted(text, safe):
    return urllib.parse.quote(text, safe=safe)


def html_of(text):
    return html.escape(text).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")


ESCAPERS = {
    "encodeURIComponent": lambda s: quoted(s, "!*'()~"),
    "encodeURI": lambda s: quoted(s, ";,/?:@&=+$!~*'()#"),
    "URLSearchParams": lambda s: urllib.parse.quote_plus(s, safe="*").replace("~", "%7E"),
    "an URL in lower case": lambda s: each("%..", str.lower)(quoted(s, "")),
    "an URL in an URL": lambda s: quoted(quoted(s, "!*'()"), ""),
    "an URL in HTML": lambda s: html_of(quoted(s, ";/?:@&=+$,!'()")),
    "JSON of Go": lambda s: each("[<>&]", lambda c: f"\\u{ord(c):04x}")(
        json.dumps(s, ensure_ascii=False)[1:-1]
    ),
    "JSON of PHP": lambda s: json.dumps(s)[1:-1].replace("/", "\\/"),
    "JSON in HTML": lambda s: html_of(json.dumps(s)[1:-1]),
    "HTML of templates": html_of,
    "HTML of PHP": lambda s: html_of(s).replace("&#39;", "&#039;"),
    "HTML of Go": lambda s: html_of(s).replace("+", "&#43;"),
    "XML": lambda s: (
        html_of(s).replace("&#39;", "&apos;").encode("ascii", "xmlcharrefreplace").decode()
    ),
    "signs as HTML numbers": each(r"[^A-Za-z0-9 ]", lambda c: f"&#x{ord(c):X};"),
    "a shell": each(r"[^\w./-]", lambda c: f"\\{c}"),
    "a regular expression": re.escape,
    "Markdown": each(r"[\\`*_{}\[\]()#+.!<>&-]", lambda c: f"\\{c}"),
    "signs in C": each(r"[^A-Za-z0-9 ]", lambda c: "".join(f"\\x{b:02x}" for b in c.encode())),
    "signs in octal": each(r"[^A-Za-z0-9 ]", lambda c: "".join(f"\\{b:03o}" for b in c.encode())),
    "signs in JavaScript": each(r"[^A-Za-z0-9 ]", lambda c: f"\\u{{{ord(c):x}}}"),
    "mail": lambda s: quopri.encodestring(s.encode()).decode(),
}
ESCAPABLE = (
    ODD,
    "k3y/47(11)+Zebra!x",
    "p@ss'w0rd\"&<Zebra>",
    "hunter2!now",
    "aZ9+/b8C=dE7==",
    "50%41off&m0re",
    "a.b$c^d#e{f}47",
)


@pytest.mark.parametrize("escaper", ESCAPERS)
@pytest.mark.parametrize("secret", ESCAPABLE)
async def test_a_secret_that_any_program_has_escaped_is_masked(secret, escaper):
    @tool(effect="read")
    async def leak() -> object:
        return f"a%20b &amp; c\\n it is {ESCAPERS[escaper](secret)} (d%20e)"

    config = {"tools": {"leak": {"custom_parameters": {"api_key": secret}}}}
    told = await AdvancedToolProcessor([leak], config).execute("leak")
    assert told.result == "a%20b &amp; c\\n it is *** (d%20e)"


@given(st.lists(st.sampled_from(["%20", "&amp;", "\\n", "\\u00e9", "=3D", "é", "%", "\\", "a "])))
def test_escapes_beside_a_secret_stay(parts):
    text = "".join(parts) + " "
    assert KnownSecrets([ODD]).text(f"{text}{quoted(ODD, '+/')} {text}") == f"{text}*** {text}"


@pytest.mark.parametrize(
    "text",
    [
        "drawer by drawer, 4-7-1-1 times",
        "the lemon key is under the mat",
        "3c:22:fb:00:1a:2b, 2026-11-22T10:11:12",
        "JBSWY3DPEBLW64TMMQ======, SGVsbG8sIHdvcmxk",
        "1 2 3 4 5 6 7 8 9",
    ],
)
def test_texts_in_which_nothing_is_spelled_stay(text):
    assert KnownSecrets([PLAIN, ODD, "monkey", "4711"]).text(text) == text


def test_a_search_for_spellings_takes_linear_time(monkeypatch):
    looked = []
    places = spelled._LetterPlaces._places_in
    monkeypatch.setattr(
        spelled._LetterPlaces, "_places_in", lambda *a: looked.append(a[1]) or places(*a)
    )
    text = "s-3-c-r-3-t " * 20_000
    assert KnownSecrets(["s3cr3t"]).text(text) == "*** " * 20_000
    assert looked == sorted(set(looked))


@pytest.mark.parametrize("words", ["pear figs ", "a=", '"\\'])
def test_pieces_of_a_secret_that_repeats_itself_are_found_in_linear_time(words):
    def lines_run(times):
        count, before = 0, sys.gettrace()

        def trace(frame, event, _):
            nonlocal count
            count += event == "line"
            return trace

        sys.settrace(trace)
        try:
            assert KnownSecrets([words * times + "end"]).text(words * times) == "***"
        finally:
            sys.settrace(before)
        return count

    lines_run(20)  # fills the caches
    assert lines_run(160) < 3 * lines_run(80)


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


async def streams(ctx: ToolContext):
    key = ctx.parameters["api_key"]
    for at in range(0, len(key), 5):
        yield key[at : at + 5]


def streams_in_thread(ctx: ToolContext):
    yield from ctx.parameters["api_key"]
    yield "done"


def computes(api_key: str) -> str:
    return words(api_key)


KINDS = {
    "returns": (returns, {}),
    "in a thread": (in_thread, {}),
    "chosen words": (chooses, {"effect": "once"}),
    "tried again": (tries_again, {"retry_attempts": 1}),
    "a result of its own": (makes, {}),
    "raises": (raises, {"effect": "once"}),
    "streams": (streams, {}),
    "streams in a thread": (streams_in_thread, {}),
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

from mcp.server.mcpserver import Context, MCPServer
from pydantic import Field

key = os.environ["TOKEN"]
server = MCPServer("describes")

@server.tool(description=f"Reads http://ana:{key}@host for {key}")
async def read(
    ctx: Context,
    default: Annotated[str, Field(description=f"as {key}", examples=[key])] = key,
    place: Annotated[str, Field(title=key)] = "home",
    shape: Annotated[str, Field(pattern=f"^$|{key}", json_schema_extra={"x-of": key})] = "",
) -> bool:
    await ctx.session.send_log_message(level="warning", data="told", logger=f"of {key}")
    return default == key

@server.tool()
async def broken(a: str) -> bool:
    return True

tool = server._tool_manager.get_tool("broken")
tool.parameters["properties"]["a"] = {"$ref": f"#/no/{key}"}
server.run()
"""


async def test_what_a_server_says_of_its_tools_holds_none_of_its_secrets(tmp_path, logged, request):
    told = asyncio.Event()
    handler = logging.Handler()
    handler.emit = lambda _: told.set()
    log = logging.getLogger("leonidas_tools.mcp.server.describes")
    log.addHandler(handler)
    request.addfinalizer(lambda: log.removeHandler(handler))
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
        async with asyncio.timeout(60):
            await told.wait()
    assert "of ***: told" in logged.text
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

import mcp_types as types
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve, Sample
from pydantic import BaseModel, Field

(key,) = (os.environ[name] for name in ("TOKEN", "PLACE") if name in os.environ)
server = MCPServer("asks")

class Size(BaseModel):
    size: str = Field(default=key, title=f"Size for {key}", description=key)

def which():
    return Elicit(f"Which, with {key}?", Size)

def poem():
    text = types.TextContent(text=f"A poem on {key}")
    said = types.SamplingMessage(role="user", content=text)
    return Sample([said], max_tokens=50, system_prompt=f"Rhyme on {key}")

@server.tool()
async def ask(
    size: Annotated[Size, Resolve(which)],
    poem: Annotated[types.CreateMessageResult, Resolve(poem)],
) -> str:
    return f"{size.size}: {poem.content.text}"

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
    config = {"mcp_servers": {"asks": {**server, "sampling": SAMPLING}}}
    asked, model = [], Model()

    async def person(request):
        asked.append(request)
        return Decision.approve() if request.schema is None else Decision.fill({"size": "S"})

    async with AdvancedToolProcessor(
        config=config, builtin_tools=False, approval=person, asks=ClientFeatures(sampling=model)
    ) as tools:
        assert await tools.ready(timeout_seconds=60)
        assert (await tools.execute("ask")).result == {"result": "S: Roses are red."}
    titles = sorted(request.title for request in asked)
    assert [title.partition("'asks' ")[2] for title in titles] == [
        "ask a language model this: A poem on ***",
        "asks: Which, with ***? (Size for ***?)",
    ]
    (sampled,) = model.asked
    assert (sampled.turns[0].content, sampled.system_prompt) == (("A poem on ***",), "Rhyme on ***")
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


@given(FILLERS, FILLERS, st.integers(1, 300), st.sampled_from([PLAIN, ODD]))
def test_what_is_kept_is_masked_before_it_is_cut(before, after, max_bytes, secret):
    shown, _ = plain({"said": before + secret + after}, max_bytes, mask=KnownSecrets([secret]))
    assert told_of(secret, json.dumps(shown, ensure_ascii=False)) == []


@given(st.data(), st.sampled_from([PLAIN, ODD]))
def test_a_piece_that_a_tool_has_cut_itself_is_masked(data, secret):
    text = data.draw(FILLERS) + secret + data.draw(FILLERS)
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start, len(text)))
    assert told_of(secret, KnownSecrets([secret]).text(text[start:end])) == []


@given(st.data(), st.sampled_from([PLAIN, ODD]))
def test_a_secret_in_pieces_of_any_length_is_masked(data, secret):
    cuts = sorted(data.draw(st.sets(st.integers(0, len(secret)), max_size=8)))
    pieces = [secret[a:b] for a, b in zip([0, *cuts], [*cuts, len(secret)], strict=True)]
    shown = KnownSecrets([secret])([{"n": i, "text": piece} for i, piece in enumerate(pieces)])
    assert told_of(secret, "".join(each["text"] for each in shown)) == []


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
        (
            "main",
            "the domain of main, in main_menu and main2",
            "the domain of ***, in ***_menu and ***2",
        ),
        ("info", "More information: INFO", "More information: ***"),
        (
            "monkey",
            ["monkeys", "mon", "key", "m-o-n-k-e-y", "yeknom"],
            ["monkeys", "***", "***", "***", "***"],
        ),
        ("production", "the productId of production", "the productId of ***"),
        ("correct horse battery staple", "correct the horse: its battery", None),
        ("correct horse battery staple", "correct horse batt…", "***…"),
        ("qwhxkzjvbnmasdfg", "it is qwhxkzjvbn…", "it is ***…"),
    ],
)
def test_a_secret_that_is_a_word_is_masked_as_a_word(secret, given, shown):
    assert KnownSecrets([secret])(given) == (given if shown is None else shown)


def test_two_keys_that_are_masked_stay_two():
    value = {f"a {PLAIN}": 1, f"a {PLAIN.upper()}": 2, "a ***": 3}
    shown = KnownSecrets([PLAIN])(value)
    assert sorted(shown.values()) == [1, 2, 3]
    assert told_of(PLAIN, json.dumps(shown)) == []


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("/srv/data/private/files", "/srv/data is full"),
        ("https://api.example.com/v1", "see https://api.example.com"),
        ("ana.silva@example.com", "ben@example.com wrote"),
        ("Lisbon, Portugal", "Portugal is warm"),
    ],
)
def test_the_public_part_of_a_value_of_the_environment_is_no_secret(secret, text):
    assert KnownSecrets([secret]).text(text) == text
    assert KnownSecrets([secret]).text(f"it is {secret}") == "it is ***"


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


def test_a_repeating_secret_in_a_long_text_takes_no_long_time():
    secrets = KnownSecrets(["a" * 40, "ab" * 20])
    assert "a" * PIECE not in secrets.text("a" * 200_000)
    assert "ab" * 4 not in secrets.text("ab" * 100_000)
