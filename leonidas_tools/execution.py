"""Compiles a tool and its settings into a `Run`; the order of policies stands here, once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Self

from leonidas_tools.attempt import Attempt
from leonidas_tools.calls import ResultStatus, Run, ToolCall, ToolResult
from leonidas_tools.events import EventKind, Sink, ToolEvent
from leonidas_tools.functions import caller, runs_in_thread, takes_context, undoing
from leonidas_tools.invocation import Invocation, OnEnd, ending_kind
from leonidas_tools.json_schema import ArgumentValidator
from leonidas_tools.lanes import lane_key
from leonidas_tools.loop_watch import LoopWatch
from leonidas_tools.overrides import effect_of, either, refused
from leonidas_tools.policies.base import Policy, compose
from leonidas_tools.policies.dependencies import Dependencies
from leonidas_tools.policies.fallback import Fallback, Helps
from leonidas_tools.policies.lane import InLane, Lanes
from leonidas_tools.policies.limit import Limit, Limiter
from leonidas_tools.policies.retry import Retry, may_repeat
from leonidas_tools.policies.timeout import Timeout
from leonidas_tools.policies.validation import Validation, fitting_presets
from leonidas_tools.sendable import sendable
from leonidas_tools.settings.models import Settings, ToolConfiguration
from leonidas_tools.tool import ToolEffect, ToolPriority
from leonidas_tools.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.registry import AnyTool, ToolRegistry

_USUAL_RETRIES = 2
_USUAL_DELAY_SECONDS = 0.1


class Executor:
    """Runs calls: every call, of whatever stream or caller, passes through here and only here.

    Args:
        registry: Where fallback tools and dependencies are found.
        settings: What holds for each tool, and for all together.
        policies: Policies of the user, outside all others.
        sinks: Who hears of every event.

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
    ) -> None:
        self.registry = registry
        self.settings = settings or Settings()
        self.policies = tuple(policies)
        for policy in self.policies:
            if not callable(policy):
                raise TypeError(f"{policy!r} is not a policy: give `async (call, run) -> result`")
        self.sinks = tuple(sinks)
        limits = self.settings.policies
        self.workers = Workers(threads=limits.threads, processes=limits.processes)
        self._lanes = Lanes()
        self._limiter = Limiter(limits.concurrency) if limits.concurrency else None
        self._limiters: dict[str, Limiter] = {}
        self._plans: dict[str, tuple[AnyTool, ToolConfiguration, Run]] = {}
        self._under_way: set[Invocation] = set()
        self._users = 0
        self._loop_watch: LoopWatch | None = None

    def apply(self, settings: Settings) -> None:
        """Puts other settings in force for the calls that begin from now on."""
        if settings is self.settings:
            return
        before, limits = self.settings.policies, settings.policies
        self.settings = settings
        if limits == before:
            return
        self.workers.threads = limits.threads
        self._limiter = Limiter(limits.concurrency) if limits.concurrency else None
        self._plans.clear()

    def start(
        self, call: ToolCall, on_end: OnEnd | None, sinks: tuple[Sink, ...] = ()
    ) -> Invocation:
        """Begins a call in a task of its own.

        Args:
            call: A call whose tool is known.
            on_end: Called once with the result, also when nobody wants it any more.
            sinks: Who hears of its events; by default those of the executor.
        """
        invocation = Invocation(call, self.plan(call), on_end, sinks or self.sinks)
        invocation.start(self._under_way)
        if self._loop_watch is not None:
            self._loop_watch.wake()
        return invocation

    def settle(self, call: ToolCall, result: ToolResult, sinks: tuple[Sink, ...] = ()) -> None:
        """Tells of a call that ends without having begun: unknown, or switched off."""
        event = ToolEvent(kind=ending_kind(result), call=call, result=result, seconds=0.0)
        for sink in self.with_sinks(sinks):
            sink(event)

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
        self.settle(call, result, sinks)
        return result

    async def run(self, call: ToolCall) -> ToolResult:
        """Runs one call to its end; cancelling this cancels the call."""
        ended: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()

        def on_end(_: Invocation, result: ToolResult) -> None:
            if not ended.done():
                ended.set_result(result)

        invocation = self.start(call, on_end)
        try:
            return await ended
        except asyncio.CancelledError:
            invocation.cancel()
            raise

    def plan(self, call: ToolCall) -> Run:
        """What runs a call: its tool under the settings it is pinned to, compiled once."""
        tool, settings = call.tool, call.settings
        assert tool is not None
        if settings is None:
            settings = self.settings.for_tool(call.name)
        plan = self._plans.get(call.name)
        if plan is not None and plan[0] is tool and plan[1] is settings:
            return plan[2]
        run = self._compile(tool, settings)
        self._plans[call.name] = (tool, settings, run)
        return run

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

    async def _close(self) -> None:
        tasks = [task for invocation in tuple(self._under_way) if (task := invocation.stop())]
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)
        if self._loop_watch is not None:
            self._loop_watch.stop()
            self._loop_watch = None
        self.workers.close()

    def _compile(self, tool: AnyTool, settings: ToolConfiguration) -> Run:
        refusal = refused(tool, settings)
        if refusal is not None:
            return partial(_refuse, result=refusal)
        outer: list[Policy] = [self._validation(tool, settings)]
        if self.policies:
            outer = [partial(_sent, max_bytes=self._max_bytes(settings)), *self.policies, *outer]
        if tool.metadata.dependencies:
            needs = tool.metadata.dependencies
            outer.append(Dependencies(names=needs, has_tool=self._has_tool))
        deadline = either(settings.deadline, tool.metadata.deadline_seconds)
        if deadline is not None:
            outer.append(Timeout(seconds=deadline, covers="call"))
        names = either(settings.fallback_tools, tool.metadata.fallback_tools)
        if names:
            outer.append(Fallback(names=names, resolve=self._resolve, helps=_helps(tool, settings)))
        return compose([*outer, *self._inner(tool, settings)], self._attempt(tool, settings))

    def _inner(self, tool: AnyTool, settings: ToolConfiguration) -> list[Policy]:
        """The policies that a tool keeps also when it stands in for another."""
        effect = effect_of(tool, settings)
        once = effect is ToolEffect.ONCE
        key = either(settings.lane, tool.metadata.lane) or lane_key(tool.function)
        policies: list[Policy] = [
            InLane(lane=self._lanes.lane(key), write=effect is not ToolEffect.READ),
            *self._limit(tool, settings),
        ]
        asked = either(settings.retry_attempts, tool.metadata.retry_attempts)
        attempts = _USUAL_RETRIES if asked is None else asked
        if attempts:
            policies.append(
                Retry(
                    attempts=attempts,
                    delay_seconds=either(settings.retry_delay, _USUAL_DELAY_SECONDS),
                    once=once,
                    timeouts=asked is not None,
                )
            )
        policies.append(Timeout(seconds=self._timeout_seconds(tool, settings)))
        return policies

    def _limit(self, tool: AnyTool, settings: ToolConfiguration) -> list[Policy]:
        priority = either(settings.priority, tool.metadata.priority)
        is_read = effect_of(tool, settings) is ToolEffect.READ
        preemptible = priority is ToolPriority.BACKGROUND and is_read
        limiters: list[Limiter] = []
        if settings.concurrency is not None:
            own = self._limiters.setdefault(tool.name, Limiter(settings.concurrency))
            own.resize(settings.concurrency)
            limiters.append(own)
        if self._limiter is not None:
            limiters.append(self._limiter)
        return [
            Limit(limiter=limiter, priority=int(priority), preemptible=preemptible)
            for limiter in limiters
        ]

    def _validation(self, tool: AnyTool, settings: ToolConfiguration) -> Validation:
        parameters = tool.metadata.parameters
        presets = fitting_presets(tool.name, parameters, settings.custom_parameters)
        return Validation(validator=ArgumentValidator(parameters), presets=presets)

    def _attempt(self, tool: AnyTool, settings: ToolConfiguration) -> Attempt:
        return Attempt(
            function=caller(tool, self.workers),
            takes_context=takes_context(tool),
            max_bytes=self._max_bytes(settings),
            once=effect_of(tool, settings) is ToolEffect.ONCE,
            undo=undoing(tool),
            undo_seconds=self._timeout_seconds(tool, settings),
            in_thread=self.workers.in_thread if runs_in_thread(tool) else None,
        )

    def _max_bytes(self, settings: ToolConfiguration) -> int:
        return settings.max_result_bytes or self.settings.policies.max_result_bytes

    def _timeout_seconds(self, tool: AnyTool, settings: ToolConfiguration) -> float:
        asked = either(settings.timeout, tool.metadata.timeout_seconds)
        return self.settings.policies.default_timeout if asked is None else asked

    def _resolve(self, name: str, call: ToolCall) -> tuple[ToolCall, Run, Helps] | None:
        """A tool that stands in for another, with all its own policies but its own fallbacks."""
        tool = self.registry.get(name)
        if tool is None:
            return None
        settings = self.settings.for_tool(name)
        alone = settings.model_copy(update={"fallback_tools": ()})
        other = replace(call, name=name, tool=tool, settings=settings)
        return other, self._compile(tool, alone), _helps(tool, settings)

    def _has_tool(self, name: str) -> bool:
        tool = self.registry.get(name)
        return tool is not None and refused(tool, self.settings.for_tool(name)) is None


async def _sent(call: ToolCall, run: Run, *, max_bytes: int) -> ToolResult:
    """A policy of the user may return what a tool may not."""
    return sendable(await run(call), max_bytes, tool=call.name)


async def _refuse(_: ToolCall, *, result: ToolResult) -> ToolResult:
    return result


def _helps(tool: AnyTool, settings: ToolConfiguration) -> Helps:
    """Whether another tool may do the work after a result of this one."""
    return partial(may_repeat, once=effect_of(tool, settings) is ToolEffect.ONCE)
