"""Spans of OpenTelemetry for live sessions, their connections and approvals.

A session is an `invoke_agent` span, the parent of its calls and connections. Each connection
links to the one before it. An approval is a span from the question to the answer.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.events import EventKind
from leonidas_tools.policies.tracing import SessionTrace

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.calls.events import ToolEvent

_MAX_QUESTIONS = 1000


class LiveTraces:
    """Creates the spans of sessions, connections and approvals."""

    def __init__(self) -> None:
        from opentelemetry import trace

        self._trace = trace
        self._tracer = trace.get_tracer("leonidas_tools")
        self._connections: dict[str, tuple[Span, bool]] = {}
        self._questions: OrderedDict[str, Span] = OrderedDict()

    def on_live(self, kind: str, session: ToolSession, data: dict[str, Any]) -> None:
        """Handle an event of a live session."""
        if kind == "session_started":
            attributes = {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.provider.name": "gcp.gemini",
                "gen_ai.conversation.id": session.id,
            }
            span = self._tracer.start_span("invoke_agent", attributes=attributes)
            session.put(SessionTrace(span, self._trace.set_span_in_context(span)))
        elif kind in {"connection_opened", "connection_renewed"}:
            self._connect(session, data)
        elif kind == "connection_lost" and session.id in self._connections:
            span, _ = self._connections[session.id]
            span.set_attribute("error.type", str(data.get("code")))
            span.set_status(self._trace.StatusCode.ERROR)
            span.end()
            self._connections[session.id] = (span, True)
        elif kind == "session_ended":
            self._end(session)

    def on_event(self, event: ToolEvent) -> None:
        """Handle an approval request or its answer."""
        question = str(event.data.get("approval_id"))
        if event.kind is EventKind.APPROVAL_REQUEST:
            attributes = {
                "gen_ai.conversation.id": event.call.session.id,
                "gen_ai.tool.name": event.call.name,
                "leonidas.approval.id": question,
            }
            name = f"approval {event.call.name}"
            self._questions[question] = self._tracer.start_span(name, attributes=attributes)
            if len(self._questions) > _MAX_QUESTIONS:
                self._questions.popitem(last=False)[1].end()
        elif event.kind is EventKind.APPROVAL_ANSWER and question in self._questions:
            span = self._questions.pop(question)
            span.set_attribute("leonidas.approval.answer", str(event.data.get("decision")))
            span.end()

    def close(self) -> None:
        """End all spans that are open."""
        for span, is_over in self._connections.values():
            if not is_over:
                span.end()
        for span in self._questions.values():
            span.end()
        self._connections.clear()
        self._questions.clear()

    def _connect(self, session: ToolSession, data: dict[str, Any]) -> None:
        before = self._connections.get(session.id)
        links = [] if before is None else [self._trace.Link(before[0].get_span_context())]
        if before is not None and not before[1]:
            before[0].end()
        attributes = {
            "leonidas.connection.number": int(data.get("connection", 0)),
            "leonidas.connection.resumed": bool(data.get("resumed", False)),
        }
        trace = session.find(SessionTrace)
        span = self._tracer.start_span(
            "live_connection",
            context=None if trace is None else trace.context,
            attributes=attributes,
            links=links,
        )
        self._connections[session.id] = (span, False)

    def _end(self, session: ToolSession) -> None:
        span, is_over = self._connections.pop(session.id, (None, True))
        if span is not None and not is_over:
            span.end()
        trace = session.find(SessionTrace)
        if trace is not None:
            trace.span.end()
