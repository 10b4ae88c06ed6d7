"""Compiles a tool and its settings into a `Run`; the order of policies stands here, once."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from leonidas_tools.attempt import Attempt
from leonidas_tools.functions import caller, runs_in_thread, takes_context, undoing
from leonidas_tools.json_schema import ArgumentValidator
from leonidas_tools.lanes import lane_key
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
from leonidas_tools.tool import ToolEffect, ToolPriority

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.calls import Run, ToolCall, ToolResult
    from leonidas_tools.registry import AnyTool, ToolRegistry
    from leonidas_tools.settings.models import Settings, ToolConfiguration
    from leonidas_tools.workers import Workers

_USUAL_RETRIES = 2
_USUAL_DELAY_SECONDS = 0.1


class Compiler:
    """Knows what runs a call, and keeps what the calls of all tools share: lanes and limits.

    Args:
        registry: Where fallback tools and dependencies are found.
        settings: What holds for each tool, and for all together.
        policies: Policies of the user, outside all others.
        workers: Where functions run that are not coroutines.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        settings: Settings,
        policies: Sequence[Policy],
        workers: Workers,
    ) -> None:
        self.registry = registry
        self.settings = settings
        self.policies = tuple(policies)
        for policy in self.policies:
            if not callable(policy):
                raise TypeError(f"{policy!r} is not a policy: give `async (call, run) -> result`")
        self.workers = workers
        limits = settings.policies
        self._lanes = Lanes()
        self._limiter = Limiter(limits.concurrency) if limits.concurrency else None
        self._limiters: dict[str, Limiter] = {}
        self._plans: dict[str, tuple[AnyTool, ToolConfiguration, Run]] = {}

    def apply(self, settings: Settings) -> None:
        """Puts other settings in force for the calls that begin from now on."""
        if settings is self.settings:
            return
        before, limits = self.settings.policies, settings.policies
        self.settings = settings
        if limits == before:
            return
        self.workers.threads = limits.threads
        self.workers.processes = limits.processes  # for the pool that starts next
        self._limiter = Limiter(limits.concurrency) if limits.concurrency else None
        self._plans.clear()

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
