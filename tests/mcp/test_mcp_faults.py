"""What a server may do wrong, and the one answer each call gets."""

import asyncio
import contextlib
import itertools
import tracemalloc

import pytest
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse

from leonidas_tools import AdvancedToolProcessor
from leonidas_tools.mcp.server import ServerState
from leonidas_tools.mcp.transport.repairs import CheckedTransport
from tests.mcp.conftest import script

OK = {"status": "ok", "result": "fine", "retryable": False}
TIMEOUT = {"timeout": 0.5, "effect": "read", "retry_attempts": 0}


def failed(message, code):
    return {"status": "failed", "message": message, "retryable": False, "reason_code": code}


def lost(what):
    return {
        "status": "unknown_outcome",
        "message": f"The connection to the MCP server 'lab' was lost during the call: "
        f"{what}. It is not known whether it took effect: do not call it "
        "again before you have checked.",
        "retryable": False,
        "reason_code": "mcp_server_lost",
    }


MALFORMED = {
    "status": "unknown_outcome",
    "message": "The tool 'bad' of the MCP server 'lab' ran, but its result does not "
    "match its description. It is not known whether it took effect: do "
    "not call it again before you have checked.",
    "retryable": False,
    "reason_code": "mcp_malformed_answer",
}
TOO_LONG = failed(
    "The tool 'bad' of the MCP server 'lab' ran, but its result is too long to read: a message of "
    "more than 1,000,000 bytes. Request less.",
    "mcp_answer_too_long",
)
TOO_MANY = failed(
    "The tool 'bad' of the MCP server 'lab' ran, but its result is too long to read: more than "
    "10,000 entries. Request less.",
    "mcp_answer_too_long",
)
TOO_MANY_VALUES = failed(
    "The tool 'bad' of the MCP server 'lab' ran, but its result is too long to read: a message "
    "with too many values. Request less.",
    "mcp_answer_too_long",
)
TIMED_OUT = {
    "status": "timeout",
    "message": "The tool 'bad' did not finish within 0.5 seconds.",
    "retryable": True,
    "reason_code": "attempt_timeout",
}


class Lab:
    """A chain with a server under test, `lab`, and one that does all well."""

    def __init__(self, settings, mark):
        settings = {"max_message_bytes": 1_000_000, **settings}
        if "command" in settings:
            settings["env"] = mark
        servers = {"lab": settings, "well": script("bad.py", "well", env=mark)}
        self.tools = AdvancedToolProcessor(config={"mcp_servers": servers}, builtin_tools=False)

    async def __aenter__(self):
        await self.tools.__aenter__()
        assert await self.tools.ready(30), self.tools.mcp_servers.status()
        return self

    async def __aexit__(self, *error):
        await self.tools.__aexit__(*error)

    async def call(self, name, **arguments):
        async with asyncio.timeout(60):
            return (await self.tools.execute(name, arguments)).to_response()

    async def down(self):
        """Why the server under test is down, once it is."""
        server = self.tools.mcp_servers._servers["lab"]
        async with asyncio.timeout(100):
            await server.wait_for(ServerState.DOWN)
        return server.last_error

    async def once_there(self, name):
        """The answer once the server is there again."""
        server = self.tools.mcp_servers._servers["lab"]
        numbers = itertools.count()
        async with asyncio.timeout(30):
            while True:
                changed = server._changed
                answer = await self.call(name, number=next(numbers))
                if answer["status"] != "unavailable":
                    return answer
                await changed.wait()


@pytest.fixture
def open_lab(mark):
    return lambda settings: Lab(settings, mark)


@pytest.mark.parametrize(
    ("misdeed", "answer", "survives"),
    [
        ("garbage", OK, True),
        ("twice", OK, True),
        ("flood", OK, True),
        ("odd_progress", OK, True),
        ("flood_stderr", OK, True),
        ("half", MALFORMED, True),
        ("invalid_utf8", {**OK, "result": "\ufffd\ufffd"}, True),
        ("deep", MALFORMED, True),
        ("no_result", MALFORMED, True),
        ("no_content", {**OK, "result": "text"}, True),
        ("both", failed("Broken.", "mcp_error"), True),
        ("huge", TOO_LONG, True),
        ("huge_id_last", TOO_LONG, True),
        ("many_parts", TOO_MANY, True),
        ("many_values", TOO_MANY_VALUES, True),
        ("many_in_news", OK, True),
        ("asks_too_much", {**OK, "result": "ping"}, True),
        (
            "huge_nobodys",
            lost("wrote a message of more than 1,000,000 bytes, which answers no known call"),
            False,
        ),
        ("huge_notice", TIMED_OUT, True),
        ("wrong_id", TIMED_OUT, True),
        ("dies", lost("exited with code 3"), False),
        ("half_then_die", lost("exited with code 3"), False),
        ("close_stdin", lost("closed its standard input"), False),
        ("close_stdout", lost("closed its standard output"), False),
    ],
)
async def test_a_call_that_goes_wrong_over_stdio_has_one_answer_and_harms_no_other(
    open_lab, misdeed, answer, survives
):
    settings = script("bad.py", misdeed)
    if answer is TIMED_OUT:
        settings["tools"] = {"bad": TIMEOUT}
    async with open_lab(settings) as lab:
        first = await lab.call("pid")
        assert await lab.call("bad") == answer
        assert await lab.call("fine") == OK
        assert await lab.once_there("good") == OK
        assert (await lab.call("pid") == first) is survives


CUT_OFF = lost("SSE stream ended without a response")


@pytest.mark.parametrize(
    ("kind", "misdeed", "answer"),
    [
        *(
            pytest.param(kind, misdeed, answer, marks=marks)
            for kind, marks in (("json", ()), ("events", pytest.mark.slow))
            for misdeed, answer in (
                ("half", MALFORMED),
                ("deep", MALFORMED),
                ("no_result", MALFORMED),
                ("no_content", {**OK, "result": "text"}),
                ("huge", TOO_LONG),
                ("huge_id_last", TOO_LONG),
                ("huge_nobodys", TOO_LONG),
                ("many_parts", TOO_MANY),
                ("many_values", TOO_MANY_VALUES),
            )
        ),
        ("gzip", "huge", TOO_LONG),
        ("json", "twice", MALFORMED),
        ("events", "twice", OK),
        ("events", "flood", OK),
        ("events", "many_values_on_lines", MALFORMED),
        ("events", "many_values_after_return", TOO_MANY_VALUES),
        ("events", "charset", OK),
        ("events", "many_in_news", OK),
        ("events", "huge_notice", CUT_OFF),
        ("json", "invalid_utf8", {**OK, "result": "\ufffd\ufffd"}),
        ("events", "invalid_utf8", {**OK, "result": "\ufffd\ufffd"}),
    ],
)
async def test_a_call_that_goes_wrong_over_http_has_one_answer_and_harms_no_other(
    open_lab, listen, kind, misdeed, answer
):
    async with open_lab(listen("bad.py", kind, misdeed).settings) as lab:
        assert await lab.call("bad") == answer
        assert await lab.call("fine") == OK
        assert await lab.once_there("good") == OK


@pytest.mark.parametrize(
    "kind", ["stdio", "json", "gzip", pytest.param("events", marks=pytest.mark.slow)]
)
async def test_a_result_that_is_too_long_takes_no_memory(open_lab, listen, kind):
    stdio = kind == "stdio"
    settings = script("bad.py", "huge") if stdio else listen("bad.py", kind, "huge").settings
    async with open_lab(settings) as lab:
        await lab.call("bad", number=1)  # what is imported or made once is not counted
        tracemalloc.start()
        try:
            assert await lab.call("bad", number=2) == TOO_LONG
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 16_000_000


async def test_an_answer_of_nothing_but_ends_of_lines_holds_no_other_call(open_lab, listen):
    reads = {"tools": {name: {"effect": "read"} for name in ("bad", "good")}}
    settings = {**listen("bad.py", "events", "ends_of_lines").settings, **reads}
    async with open_lab(settings) as lab:
        bad = asyncio.create_task(lab.call("bad"))
        for number in range(3):
            assert await lab.call("good", number=number) == OK
        assert not bad.done()
        bad.cancel()


async def test_news_of_very_many_values_is_not_read(open_lab, caplog):
    async with open_lab(script("bad.py", "many_in_news")) as lab:
        assert await lab.call("bad") == OK
    assert "'lab' wrote a message with too many values; ignored" in caplog.text


async def test_a_tool_of_very_many_parts_is_left_out_and_harms_no_other(open_lab):
    async with open_lab(script("bad.py", "many_icons")) as lab:
        assert (await lab.call("bad"))["reason_code"] == "unknown_tool"
        assert await lab.call("good") == OK
        status = next(s for s in lab.tools.mcp_servers.status() if s["name"] == "lab")
        why = "its definition has more than 10,000 entries"
        assert status["left_out"] == [{"tool": "bad", "why": why}]


@pytest.mark.parametrize("misdeed", [pytest.param("flood", marks=pytest.mark.slow), "flood_stderr"])
async def test_a_flood_takes_no_memory(open_lab, misdeed):
    async with open_lab(script("bad.py", misdeed)) as lab:
        await lab.call("bad", number=1)
        tracemalloc.start()
        try:
            assert await lab.call("bad", number=2) == OK
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 16_000_000


async def test_a_flood_of_wrong_messages_is_logged_in_a_few_lines(open_lab, caplog):
    async with open_lab(script("bad.py", "flood_wrong")) as lab:
        assert await lab.call("bad") == OK
    warned = [each for each in caplog.records if "notifications/progress" in each.getMessage()]
    assert len(warned) == 60
    assert "more than 60 warnings a minute: the rest is dropped" in caplog.text


@pytest.mark.parametrize("kind", ["stdio", "json"])
@pytest.mark.parametrize(
    ("misdeed", "reason"),
    [
        ("never_initialize", "no response in time"),
        ("never_list", "no response in time"),
        ("huge_list", "it answered with a message of more than 1,000,000 bytes"),
        pytest.param(
            "endless_list",
            "lists its tools without end: 3,003 so far",
            marks=pytest.mark.slow,
        ),
    ],
)
async def test_a_server_that_cannot_be_listed_is_down_and_harms_no_other(
    open_lab, listen, kind, misdeed, reason
):
    stdio = kind == "stdio"
    settings = script("bad.py", misdeed) if stdio else listen("bad.py", kind, misdeed).settings
    settings["timeout"] = 0.5 if misdeed.startswith("never") else 100
    place = "" if stdio or "end" in reason else f" at {settings['url']}"
    lab = open_lab(settings)
    async with lab.tools:
        assert await lab.down() == f"The MCP server 'lab' is down: {reason}{place}"
        assert await lab.tools.ready(100) is False
        assert await lab.call("fine") == OK


@pytest.mark.parametrize("misdeed", ["dies_initializing", "dies_listing"])
async def test_a_server_that_dies_before_it_is_there_is_down_and_harms_no_other(open_lab, misdeed):
    lab = open_lab(script("bad.py", misdeed))
    async with lab.tools:
        assert await lab.down() == "The MCP server 'lab' is down: exited with code 3"
        assert await lab.tools.ready(30) is False
        assert await lab.call("fine") == OK


@pytest.mark.parametrize("misdeed", ["ignores_sigterm", "dies_leaving"])
async def test_a_server_that_ignores_its_end_is_stopped(open_lab, misdeed):
    async with open_lab(script("bad.py", misdeed)) as lab:
        assert await lab.call("good") == OK


@pytest.mark.parametrize("bomb", ["nested", "doubling", "endless", "recursive"])
async def test_a_tool_with_a_bomb_for_a_schema_harms_nothing(open_lab, bomb):
    async with open_lab(script("bad.py", "schema_bomb", bomb)) as lab:
        assert (await lab.call("bad", a="text"))["status"] in {
            "ok",
            "not_found",
            "invalid_argument",
        }
        assert await lab.call("good") == OK
        assert await lab.call("fine") == OK


@pytest.mark.parametrize(
    ("bomb", "status"), [("pattern", "invalid_argument"), ("backtracking", "ok")]
)
async def test_a_pattern_that_never_finishes_matching_blocks_nothing(open_lab, bomb, status):
    async with open_lab(script("bad.py", "schema_bomb", bomb)) as lab:
        assert (await lab.call("bad", a="a" * 200 + "!"))["status"] == status
        assert await lab.call("fine") == OK


async def test_huge_names_and_descriptions_harm_nothing(open_lab):
    async with open_lab({**script("bad.py", "huge_names"), "max_message_bytes": 16_000_000}) as lab:
        assert await lab.call("bad") == OK
        assert await lab.call("good") == OK
        assert await lab.call("fine") == OK
        told = [d for tool in lab.tools.declarations() for d in tool.function_declarations]
        assert max(len(each.name) for each in told) <= 64
        assert max(len(each.description) for each in told) < 70_000


async def test_what_a_server_says_why_it_cannot_be_used_is_told_in_short(serve):
    reason = await serve(script("bad.py", "long_refusal")).down()
    assert "No. No. " in reason
    assert len(reason) < 10_000


async def test_a_server_that_takes_no_answers_gets_no_more_of_them():
    """Each of its requests would be one more task that waits to send its answer."""
    incoming, read = create_context_streams(1)
    write, outgoing = create_context_streams(0)

    @contextlib.asynccontextmanager
    async def opened():
        yield read, write

    ping = SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="ping"))
    pong = SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result={}))
    checked = CheckedTransport("lab", lambda said: said, lambda: "2025-11-25")
    async with checked.open(opened()) as (from_server, to_server):
        answers = [asyncio.create_task(to_server.send(pong)) for _ in range(100)]
        await asyncio.sleep(0)
        await incoming.send(ping)
        assert isinstance(await from_server.receive(), ValueError)
        await outgoing.receive()
        await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        await incoming.send(ping)
        assert await from_server.receive() == ping
        for answer in answers:
            answer.cancel()
        await asyncio.wait(answers)
    for stream in (incoming, read, write, outgoing):
        await stream.aclose()
