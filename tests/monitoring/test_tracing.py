"""Spans of calls, sessions, connections and approvals, as the real SDK exports them."""

import asyncio
import json
import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NonRecordingSpan, SpanContext, StatusCode, TraceFlags

from leonidas_tools import ToolError, ToolRuntime, ToolSession, tool
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Decision
from leonidas_tools.mcp_server import serve_http
from tests.live.talking import held

ON = {"monitoring": {"tracing": True}}
SECRET = "a word that stays inside"


@pytest.fixture(scope="session")
def exporter():
    spans = InMemorySpanExporter()
    trace.set_tracer_provider(TracerProvider())  # the first one stays, such as that of a page
    trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(spans))
    return spans


@pytest.fixture
def spans(exporter):
    exporter.clear()
    return lambda name: [s for s in exporter.get_finished_spans() if s.name.startswith(name)]


@tool(effect="read")
async def inside(word: str) -> str:
    """Start a span of its own."""
    with trace.get_tracer("a tool").start_as_current_span("work"):
        return word


@tool(effect="read")
async def broken(word: str) -> str:
    """Fail."""
    raise ToolError(f"It does not like {word}")


@tool(effect="once", requires_approval=True)
async def pay(to: str) -> str:
    """Pay someone."""
    return to


async def test_a_call_is_a_span_around_what_the_tool_does_and_tells_no_argument(spans):
    session = ToolSession("kitchen")
    tools = ToolRuntime([inside], config=ON)
    await tools.execute("inside", {"word": SECRET}, session=session, call_id="fc-1")
    (span,), (work,) = spans("execute_tool"), spans("work")
    assert span.name == "execute_tool inside"
    assert work.parent.span_id == span.context.span_id
    attributes = dict(span.attributes)
    assert attributes.pop("leonidas.trace_id")
    assert attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "inside",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Start a span of its own.",
        "gen_ai.tool.call.id": "fc-1",
        "gen_ai.conversation.id": "kitchen",
        "leonidas.status": "ok",
    }
    assert SECRET not in span.to_json()


async def test_a_call_that_fails_says_so_and_not_why_in_its_words(spans):
    await ToolRuntime([broken], config=ON).execute("broken", {"word": SECRET})
    (span,) = spans("execute_tool")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["leonidas.status"] == span.attributes["error.type"] == "failed"
    assert SECRET not in span.to_json()


async def test_a_cancelled_call_ends_its_span(spans):
    @tool(effect="read")
    async def endless() -> None:
        """Never end."""
        begun.set()
        await asyncio.Event().wait()

    begun, tools = asyncio.Event(), ToolRuntime([endless], config=ON)
    calling = asyncio.create_task(tools.execute("endless", call_id="1"))
    await begun.wait()
    tools.cancel("1")
    assert (await calling).status == "cancelled"
    (span,) = spans("execute_tool")
    assert span.attributes["error.type"] == "CancelledError"


async def test_calls_of_one_caller_stand_below_its_span_and_none_where_it_is_not_sampled(spans):
    tools = ToolRuntime([inside], config=ON)
    with trace.get_tracer("a program").start_as_current_span("program") as program:
        await tools.execute("inside", {"word": "a"})
    unsampled = SpanContext(1, 2, is_remote=False, trace_flags=TraceFlags(0))
    with trace.use_span(NonRecordingSpan(unsampled)):
        await tools.execute("inside", {"word": "b"})
    (span,) = spans("execute_tool")
    assert span.parent.span_id == program.get_span_context().span_id


async def test_an_approval_is_a_span_from_the_question_to_the_answer(spans):
    session = ToolSession("kitchen")
    tools = ToolRuntime([pay], config=ON)
    await tools.execute("pay", {"to": SECRET}, session=session)
    desk = session.get(Approvals)
    (question,) = desk.pending()
    assert spans("approval") == []
    ended = asyncio.Event()
    desk.on_result(lambda *_: ended.set())
    desk.decide(question.id, Decision.approve())
    await ended.wait()
    (span,) = spans("approval")
    assert span.attributes["leonidas.approval.answer"] == "approve"
    assert len(spans("execute_tool pay")) == 2
    assert SECRET not in "".join(each.to_json() for each in spans(""))


async def test_a_session_holds_its_calls_and_links_the_connections_that_it_renews(spans):
    from leonidas_tools import AdvancedToolProcessor
    from leonidas_tools.simulator import FunctionCall

    async def first(session):
        await session.session_resumption("handle")
        await session.call(FunctionCall("inside", {"word": "a"}, id="c1"))
        await session.drop()

    async def second(session):
        await session.wait_for_input("audio")
        await session.turn_complete()

    async def user(talk):
        from tests.live.talking import frame

        yield frame(0)
        await talk.told("connection_renewed")
        yield frame(1)

    tools = AdvancedToolProcessor([inside], config=ON, builtin_tools=False)
    await held([first, second], tools, user=user)
    (agent,), (call,) = spans("invoke_agent"), spans("execute_tool")
    one, two = spans("live_connection")
    assert {each.parent.span_id for each in (call, one, two)} == {agent.context.span_id}
    assert [link.context.span_id for link in two.links] == [one.context.span_id]
    assert one.status.status_code is StatusCode.ERROR
    assert two.attributes["leonidas.connection.resumed"] is True


async def test_the_trace_goes_along_to_an_mcp_server_and_its_tools(spans):
    listens = asyncio.get_running_loop().create_future()
    there = ToolRuntime([inside], config=ON, builtin_tools=False)
    serving = asyncio.create_task(serve_http(there, port=0, on_listening=listens.set_result))
    settings = {**ON, "mcp_servers": {"there": {"url": await listens}}}
    async with ToolRuntime(config=settings, builtin_tools=False) as here:
        assert await here.ready()
        (name,) = [each.name for each in here.registry]
        assert (await here.execute(name, {"word": SECRET})).ok
    serving.cancel()
    await asyncio.wait({serving})
    (work,) = spans("work")
    mine = {each.context.span_id: each for each in spans("")}
    way = [work.name]
    while (parent := work.parent) is not None:
        work = mine[parent.span_id]
        way.append(work.name)
    assert way == [
        "work",
        "execute_tool inside",
        "tools/call inside",
        "MCP send tools/call inside",
        f"execute_tool {name}",
    ]
    assert mine[work.context.span_id].attributes["gen_ai.tool.type"] == "extension"


async def test_switched_on_and_off_while_calls_run(spans, tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text("version: 1\n")
    async with ToolRuntime([inside], config=file) as tools:
        for tracing, count in ((False, 0), (True, 1), (False, 1), (True, 2)):
            file.write_text(json.dumps({"monitoring": {"tracing": tracing}}))
            tools.settings.reload()
            await tools.execute("inside", {"word": "a"})
            assert len(spans("execute_tool")) == count


def test_nothing_of_opentelemetry_is_imported_where_it_is_off():
    program = (
        "import asyncio, sys; from leonidas_tools import ToolRuntime\n"
        "def add(a: int) -> int: return a\n"
        "assert asyncio.run(ToolRuntime([add]).execute('add', {'a': 1})).ok\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout == "[]\n"
