"""An OpenTelemetry span around each call, if `monitoring.tracing` is on.

The names follow the GenAI conventions:
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/#execute-tool-span. A span contains
no argument, no result and no message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.calls.call import ResultStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from leonidas_tools.calls.call import Run, ToolCall, ToolResult
    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions

_SUCCESSES = frozenset({ResultStatus.OK, ResultStatus.NO_RESULTS, ResultStatus.PENDING_APPROVAL})


class SessionTrace:
    """The span of a live session, the parent of the spans of its calls."""

    def __init__(self, span: Span, context: Context) -> None:
        self.span = span
        self.context = context


class Tracing:
    """Puts a span around each call of a tool.

    Args:
        tool: The tool's name.
        kind: `function`, or `extension` for a tool of an MCP server.
        description: The description of the tool.
    """

    leaves_results = True

    def __init__(self, *, tool: str, kind: str, description: str) -> None:
        from opentelemetry import context, trace

        self._tracer = trace.get_tracer("leonidas_tools")
        self._current_span = trace.get_current_span
        self._with_span = trace.set_span_in_context
        self._attach, self._detach = context.attach, context.detach
        self._error = trace.Status(trace.StatusCode.ERROR)
        self._name = f"execute_tool {tool}"
        self._attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.type": kind,
            "gen_ai.tool.description": description,
        }

    def __call__(self, call: ToolCall, run: Run) -> Awaitable[ToolResult]:
        """Run the call in its own span."""
        session = call.session.find(SessionTrace)
        parent = self._current_span() if session is None else session.span
        context = parent.get_span_context()
        # An unsampled parent needs no child span: a span that is dropped costs 10 µs.
        if context.is_valid and not context.trace_flags.sampled:
            return run(call)
        return self._traced(call, run, None if session is None else session.context)

    async def _traced(self, call: ToolCall, run: Run, parent: Context | None) -> ToolResult:
        span = self._tracer.start_span(self._name, context=parent, attributes=self._attributes)
        token = self._attach(self._with_span(span, parent))
        try:
            if span.is_recording():
                span.set_attribute("gen_ai.conversation.id", call.session.id)
                span.set_attribute("leonidas.trace_id", call.trace_id)
                if call.id is not None:
                    span.set_attribute("gen_ai.tool.call.id", call.id)
            result = await run(call)
        except BaseException as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(self._error)
            raise
        else:
            if span.is_recording():
                self._describe(span, result)
            return result
        finally:
            self._detach(token)
            span.end()

    def _describe(self, span: Span, result: ToolResult) -> None:
        span.set_attribute("leonidas.status", result.status.value)
        if result.cached:
            span.set_attribute("leonidas.cached", value=True)
        if result.status not in _SUCCESSES:
            span.set_attribute("error.type", result.reason_code or result.status.value)
            span.set_status(self._error)


def for_tool(options: EffectiveOptions, shared: Shared) -> Iterator[Tracing]:
    """Yield the tracing of a tool, if the settings enable it."""
    if shared.settings.monitoring.tracing:
        own = options.tool.metadata
        kind = "function" if options.tool.origin is None else "extension"
        yield Tracing(tool=own.name, kind=kind, description=own.description)
