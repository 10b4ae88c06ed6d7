"""A live session whose spans a program sends over OTLP, as its user would set it up."""

import asyncio
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

PROGRAM = """
import asyncio, math
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from leonidas_tools import AdvancedToolProcessor, tool
from leonidas_tools.simulator import FunctionCall, LiveSimulator, Scenario
from tests.live.talking import Talk

provider = TracerProvider(resource=Resource.create({"service.name": "kitchen"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)


@tool(effect="read")
async def get_weather(city: str) -> str:
    return f"It is sunny in {city}"


async def play(session):
    await session.wait_for_input("audio")
    await session.call(FunctionCall("get_weather", {"city": "Porto"}, id="c1"))
    await session.turn_complete()


async def main():
    tools = AdvancedToolProcessor([get_weather], {"monitoring": {"tracing": True}})
    async with LiveSimulator(Scenario(play), speed=math.inf) as simulator:
        await Talk(simulator, tools).run()


asyncio.run(main())
provider.shutdown()  # sends what waits
"""


class Collector(ThreadingHTTPServer):
    """What takes spans over HTTP, as the OpenTelemetry protocol has it."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Answer)
        self.requests = []

    @property
    def spans(self):
        """All spans, by name."""
        return {
            span.name: span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        assert self.path == "/v1/traces"
        self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


@pytest.fixture
def collector():
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.slow
async def test_the_spans_of_a_live_session_arrive_over_otlp_and_tell_no_argument(collector):
    host, port = collector.server_address
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{host}:{port}"},
    )
    assert await process.wait() == 0
    spans = collector.spans
    assert set(spans) == {"invoke_agent", "live_connection", "execute_tool get_weather"}
    agent = spans["invoke_agent"]
    parents = {span.parent_span_id for name, span in spans.items() if span is not agent}
    assert parents == {agent.span_id}
    assert {span.trace_id for span in spans.values()} == {agent.trace_id}
    (resource,) = {
        r.resource.SerializeToString() for q in collector.requests for r in q.resource_spans
    }
    assert b"kitchen" in resource
    sent = b"".join(request.SerializeToString() for request in collector.requests)
    assert b"gen_ai.tool.name" in sent
    assert b"Porto" not in sent
