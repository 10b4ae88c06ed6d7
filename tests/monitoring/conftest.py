"""Calls and what happens to them, as the executor tells it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from leonidas_tools.calls.call import ResultStatus, ToolCall, ToolResult, ToolSession
from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.calls.invocation import ending_kind
from leonidas_tools.tools.tool import Tool


@dataclass
class Told:
    """Makes events of the calls of one session, a second apart unless told when."""

    session: ToolSession = field(default_factory=lambda: ToolSession("kitchen"))
    now: float = 1_700_000_000.0
    tools: dict[str, Tool[..., Any]] = field(default_factory=dict)

    def tool(self, name: str, category: str = "python") -> Tool[..., Any]:
        if name not in self.tools:
            self.tools[name] = Tool(lambda: None, name=name, category=category)
        return self.tools[name]

    def call(self, name: str = "search", *, known: bool = True, **more: Any) -> ToolCall:
        number = next(self.session.numbers)
        tool = self.tool(name) if known else None
        values = {"id": f"id-{number}", "number": number, "session": self.session, "tool": tool}
        return ToolCall(name=name, **{**values, **more})

    def event(self, kind: EventKind, call: ToolCall, **more: Any) -> ToolEvent:
        self.now += 1
        return ToolEvent(kind=kind, call=call, **{"at": self.now, **more})

    def start(self, call: ToolCall) -> ToolEvent:
        return self.event(EventKind.START, call)

    def end(
        self,
        call: ToolCall,
        status: str = "ok",
        seconds: float = 0.1,
        *,
        kind: EventKind | None = None,
        **more: Any,
    ) -> ToolEvent:
        result = ToolResult(status=ResultStatus(status), **more)
        return self.event(kind or ending_kind(result), call, result=result, seconds=seconds)

    def retry(self, call: ToolCall, error: Any = "timeout") -> ToolEvent:
        data = {"attempt": 1, "delay_seconds": 0.1, "error": error}
        return self.event(EventKind.RETRY, call, data=data)

    def fallback(self, call: ToolCall, error: str = "failed", **more: str) -> ToolEvent:
        return self.event(EventKind.FALLBACK, call, data={"to": "other", "error": error, **more})


@pytest.fixture
def told() -> Told:
    return Told()
