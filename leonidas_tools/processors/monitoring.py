"""Last stage: record every call, and remove the metadata that the stages have attached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.calls.call import ResultStatus, ToolCall, ToolResult
from leonidas_tools.monitoring.monitor import Monitor
from leonidas_tools.processors import stream
from leonidas_tools.processors.answers import settled_parts
from leonidas_tools.processors.parts import EventPart, attached, claim, executor_of, without_call
from leonidas_tools.processors.requests import Answer, build_answer, is_request
from leonidas_tools.processors.stage import Stage
from leonidas_tools.results.texts import say
from leonidas_tools.settings.effective import category_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from genai_processors import processor
    from genai_processors.content_api import ProcessorPart


class MonitoringProcessor(Stage):
    """Records the calls of the stream, and answers requests for metrics.

    A call that no category has claimed is answered here, so that every call gets a response.

    Args:
        monitor: The monitor that counts the events; by default a new one.
    """

    def __init__(self, monitor: Monitor | None = None) -> None:
        self.monitor = monitor or Monitor()
        self.answers: dict[str, Answer] = {
            "get_metrics": self.monitor.metrics,
            "get_history": self.monitor.history,
            "get_health": self.monitor.health,
            "get_alerts": self.monitor.alerts,
        }

    async def call(self, content: processor.ProcessorStream) -> AsyncIterable[ProcessorPart]:
        """Yield the parts without the metadata that the stages have attached."""
        with stream.shared(sink=self.monitor):
            async for part in content:
                if type(part) is EventPart or not part.metadata:  # most; `asks_nothing`, inlined
                    yield part
                elif (call := attached(part)) is not None:
                    for answer in _unclaimed(call, part):
                        yield answer
                elif is_request(part):
                    yield await build_answer(part, self.answers, last=True)
                else:
                    yield part


def _unclaimed(call: ToolCall, part: ProcessorPart) -> tuple[ProcessorPart, ...]:
    """Return the parts for a call that no stage has claimed."""
    executor = executor_of(part)
    if executor is None:
        return (without_call(part),)
    if not claim(part):
        return ()  # a copy of a part whose call is answered elsewhere
    category = str(category_of(call.tool, call.settings)) if call.tool is not None else "?"
    result = ToolResult(
        status=ResultStatus.UNAVAILABLE,
        message=say("no_category", category=category),
        reason_code="no_category",
    )
    return settled_parts(executor, call, result, stream.sinks())
