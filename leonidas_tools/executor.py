"""Runs calls: each in a task of its own, all of them through here."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from leonidas_tools.approvals.question import Asking
from leonidas_tools.calls import ResultStatus, ToolCall, ToolResult
from leonidas_tools.events import EventKind, Sink, ToolEvent, ending_kind
from leonidas_tools.execution import Compiler
from leonidas_tools.invocation import Invocation, OnEnd
from leonidas_tools.loop_watch import LoopWatch
from leonidas_tools.rules.rule import CONFIRM
from leonidas_tools.settings.models import Settings
from leonidas_tools.tasks import TaskList
from leonidas_tools.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from leonidas_tools.approvals.request import Channel
    from leonidas_tools.policies.base import Policy
    from leonidas_tools.registry import ToolRegistry
    from leonidas_tools.result_cache import ResultCache


class Executor:
    """Runs calls: every call, of whatever stream or caller, passes through here and only here.

    Args:
        registry: Where fallback tools and dependencies are found.
        settings: What holds for each tool, and for all together.
        policies: Policies of the user, outside all others.
        sinks: Who hears of every event.
        approval: Asks a person where the rules say so; without one, the answer comes later, by
            voice or by `Approvals.decide`.
        save: Changes the settings file, where "always" is kept.

    Example:
        >>> from leonidas_tools.registry import ToolRegistry
        >>> def add(a: int, b: int) -> int:
        ...     return a + b
        >>> registry = ToolRegistry([add])
        >>> executor = Executor(registry)
        >>> call = ToolCall(name="add", arguments={"a": 1, "b": 2}, tool=registry["add"])
        >>> asyncio.run(executor.run(call)).result
        3
    """

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        settings: Settings | None = None,
        policies: Sequence[Policy] = (),
        sinks: Sequence[Sink] = (),
        approval: Channel | None = None,
        save: Callable[[Mapping[str, Any]], object] | None = None,
    ) -> None:
        settings = settings or Settings()
        limits = settings.policies
        self.registry = registry
        self.sinks = tuple(sinks)
        self.workers = Workers(threads=limits.threads, processes=limits.processes)
        self._compiler = Compiler(
            registry,
            settings=settings,
            policies=policies,
            workers=self.workers,
            asking=Asking(runs=self, channel=approval, by_voice=self._by_voice, save=save),
        )
        self._under_way: set[Invocation] = set()
        self._users = 0
        self._loop_watch: LoopWatch | None = None

    @property
    def settings(self) -> Settings:
        """What holds for the calls that begin now."""
        return self._compiler.settings

    @property
    def cache(self) -> ResultCache:
        """The results of reads that may be used again."""
        return self._compiler.guards.cache

    @property
    def breakers(self) -> dict[str, str]:
        """The state of every breaker that watches a tool: `closed`, `open` or `half_open`."""
        return self._compiler.guards.breakers()

    def apply(self, settings: Settings) -> None:
        """Puts other settings in force for the calls that begin from now on."""
        self._compiler.apply(settings)

    def start(
        self, call: ToolCall, on_end: OnEnd | None, sinks: tuple[Sink, ...] = ()
    ) -> Invocation:
        """Begins a call in a task of its own.

        Args:
            call: A call whose tool is known.
            on_end: Called once with the result, also when nobody wants it any more.
            sinks: Who hears of its events; by default those of the executor.
        """
        sinks = sinks or self.sinks
        tasks = call.session.find(TaskList)
        if tasks is not None:
            sinks = tasks.tie(call, sinks)
        invocation = Invocation(call, self._compiler.plan(call), on_end, sinks)
        invocation.start(self._under_way)
        if self._loop_watch is not None:
            self._loop_watch.wake()
        return invocation

    def settle(
        self, call: ToolCall, result: ToolResult, sinks: tuple[Sink, ...] = ()
    ) -> ToolResult:
        """Ends a call that has not begun: unknown, or switched off; returns what it is told."""
        guard = self._compiler.guards.loop_guard
        if guard is not None:
            result = guard.judge(call, result)
        event = ToolEvent(kind=ending_kind(result), call=call, result=result, seconds=0.0)
        for sink in self.with_sinks(sinks):
            sink(event)
        return result

    def settle_unknown(self, call: ToolCall, sinks: tuple[Sink, ...] = ()) -> ToolResult:
        """Answers a call of a tool that does not exist, with the closest names."""
        closest = self.registry.suggestions(call.name)
        hint = f" Call one of the valid options instead, such as {closest[0]!r}." if closest else ""
        result = ToolResult(
            status=ResultStatus.NOT_FOUND,
            message=f"There is no tool {call.name!r}.{hint}",
            reason_code="unknown_tool",
            valid_options=closest or None,
        )
        if closest:
            tried = {"strategy": "similar_tool", "error": "unknown_tool", "to": closest[0]}
            suggested = ToolEvent(kind=EventKind.FALLBACK, call=call, data=tried)
            for sink in self.with_sinks(sinks):
                sink(suggested)
        return self.settle(call, result, sinks)

    def renewed(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        """The call as a new one, with the tool and the settings there are now.

        Args:
            call: A call that was not run.
            arguments: What it is to be run with.
        """
        tool = self.registry.get(call.name)
        return replace(
            call,
            arguments=arguments,
            tool=tool,
            settings=self.settings.for_tool(call.name, None if tool is None else tool.origin),
            number=next(call.session.numbers),
        )

    async def run(self, call: ToolCall, sinks: tuple[Sink, ...] = ()) -> ToolResult:
        """Runs one call to its end; cancelling this cancels the call."""
        ended: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()

        def on_end(_: Invocation, result: ToolResult) -> None:
            if not ended.done():
                ended.set_result(result)

        invocation = self.start(call, on_end, sinks)
        try:
            return await ended
        except asyncio.CancelledError:
            invocation.cancel()
            raise

    @property
    def loop_lag_seconds(self) -> float | None:
        """The longest time the event loop was held while calls were under way."""
        return self._loop_watch.longest_lag_seconds if self._loop_watch is not None else None

    async def __aenter__(self) -> Self:
        """Holds threads and processes, and watches the loop, until the last user leaves."""
        self._users += 1
        if self._loop_watch is None:
            self._loop_watch = LoopWatch(lambda: bool(self._under_way))
        return self

    async def __aexit__(self, *error: object) -> None:
        """Lets go; the last to leave ends the calls still under way."""
        self._users -= 1
        if not self._users:
            await self._close()

    def with_sinks(self, sinks: tuple[Sink, ...]) -> tuple[Sink, ...]:
        """The executor's sinks and these, each once."""
        return self.sinks + tuple(sink for sink in sinks if sink not in self.sinks)

    def _by_voice(self) -> bool:
        """Whether the model can put a question to the user, and tell the answer."""
        return CONFIRM in self.registry

    async def _close(self) -> None:
        tasks = [task for invocation in tuple(self._under_way) if (task := invocation.stop())]
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)
        if self._loop_watch is not None:
            self._loop_watch.stop()
            self._loop_watch = None
        await self.workers.close()
