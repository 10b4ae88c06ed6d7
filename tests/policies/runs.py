"""Runs calls one way and another, and keeps what was told of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from leonidas_tools import AdvancedToolProcessor, ToolResult
from leonidas_tools.calls.events import EventKind, ToolEvent


def tools_of(*tools: Any, **settings: Any) -> AdvancedToolProcessor:
    return AdvancedToolProcessor(tools=tools, config=settings or None, builtin_tools=False)


class Told:
    """Hears of every event of a processor."""

    def __init__(self, tools: AdvancedToolProcessor) -> None:
        self.events: list[ToolEvent] = []
        tools.monitor.subscribe(self.events.append)

    def of(self, kind: EventKind) -> list[ToolEvent]:
        return [event for event in self.events if event.kind is kind]

    def kinds(self, tool: str | None = None) -> list[str]:
        return [e.kind.value for e in self.events if tool in (None, e.call.name)]


class Stage:
    """Where tools come on, wait to be let go, and leave; nothing happens by the clock."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.came: list[str] = []
        self.left: list[str] = []
        self._doors: dict[str, asyncio.Event] = {}
        self._changed = asyncio.Condition()

    async def play(self, name: str) -> str:
        """What a tool does: it comes on, and leaves when its door opens."""
        self.came.append(name)
        self.running[name] += 1
        await self._notify()
        try:
            await self._doors.setdefault(name, asyncio.Event()).wait()
        finally:
            self.running[name] -= 1
            self.left.append(name)
            await self._notify()
        return name

    def let_go(self, *names: str) -> None:
        for name in names:
            self._doors.setdefault(name, asyncio.Event()).set()

    @property
    def on(self) -> set[str]:
        return {name for name, count in self.running.items() if count}

    async def until(self, met: Callable[[], bool]) -> None:
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(met)

    async def until_on(self, *names: str) -> None:
        await self.until(lambda: set(names) <= self.on)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


async def settled() -> None:
    """Lets everything that can go on without a door go on."""
    for _ in range(20):
        await asyncio.sleep(0)


def begin(tools: AdvancedToolProcessor, name: str, /, **arguments: Any) -> asyncio.Task[ToolResult]:
    return asyncio.create_task(tools.execute(name, arguments))


async def ended(*tasks: asyncio.Task[ToolResult]) -> list[Any]:
    async with asyncio.timeout(10):
        results = await asyncio.gather(*tasks)
    return [result.result for result in results]
