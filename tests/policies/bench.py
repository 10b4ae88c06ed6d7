"""Runs calls through the executor and keeps what it says of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from leonidas_tools import (
    Settings,
    Tool,
    ToolCall,
    ToolRegistry,
    ToolResult,
    ToolSession,
    tool,
)
from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.policies.base import Policy
from leonidas_tools.runtime.executor import Executor

_ENDS = {EventKind.COMPLETE, EventKind.ERROR, EventKind.FAILED, EventKind.CANCEL}


class Bench:
    """An executor of some tools, under settings."""

    def __init__(
        self,
        *tools: Tool[..., Any] | Callable[..., Any],
        around: Sequence[Policy] = (),
        **settings: Any,
    ) -> None:
        self.events: list[ToolEvent] = []
        self.session = ToolSession()
        self.executor = Executor(
            ToolRegistry(tools),
            settings=Settings(**settings),
            policies=around,
            sinks=(self.events.append,),
        )

    async def run(
        self, name: str, /, *, session: ToolSession | None = None, **arguments: Any
    ) -> ToolResult:
        """Runs a call to its end, by default in the session of all calls."""
        tool, session = self.executor.registry[name], session or self.session
        call = ToolCall(name=name, arguments=arguments, tool=tool, session=session)
        return await self.executor.run(call)

    def start(self, name: str, /, **arguments: Any) -> asyncio.Task[ToolResult]:
        """Begins a call; cancelling the task cancels the call."""
        return asyncio.create_task(self.run(name, **arguments))

    def told(self, kind: str) -> list[dict[str, Any]]:
        """What the events of one kind have said."""
        return [dict(event.data) for event in self.events if event.kind == kind]

    @property
    def ends(self) -> list[tuple[str, str]]:
        """The tools whose calls have ended, and how."""
        return [(event.call.name, event.kind.value) for event in self.events if event.ends_call]


class Steps:
    """Calls that begin and end when the test says so, and the order in which they did."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self._gates: dict[str, asyncio.Event] = {}

    async def take(self, name: str) -> str:
        """What a tool does: begins, waits for the test, ends."""
        self.log.append(f"+{name}")
        try:
            await self._gates.setdefault(name, asyncio.Event()).wait()
        except asyncio.CancelledError:
            self.log.append(f"!{name}")
            raise
        self.log.append(f"-{name}")
        return name

    def finish(self, *names: str) -> None:
        """Lets calls go on to their end, also those that have not begun."""
        for name in names:
            self._gates.setdefault(name, asyncio.Event()).set()

    def tool(self, name: str, **options: Any) -> Tool[..., Any]:
        """A tool that takes a step named by its argument."""

        async def step(step: str) -> str:
            return await self.take(step)

        return tool(name=name, **options)(step)


async def quiet() -> None:
    """Lets everything go on that can, until all wait for something from outside."""
    loop: Any = asyncio.get_running_loop()
    while loop._ready:
        await asyncio.sleep(0)
