"""Compile a tool and its settings into a `Run`."""

from __future__ import annotations

import contextlib
import inspect
from dataclasses import replace
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING

from leonidas_tools.approvals import wording
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.calls.records import record
from leonidas_tools.engines.base import EngineLimits
from leonidas_tools.engines.engines import Engines, is_durable
from leonidas_tools.errors import ToolError
from leonidas_tools.policies import (
    approval,
    hooks,
    in_process,
    refusal,
    result_budget,
    timeout,
    untrusted,
    validation,
)
from leonidas_tools.policies.fallback import StandIn
from leonidas_tools.policies.order import policy_functions
from leonidas_tools.policies.shared import Shared
from leonidas_tools.runtime.attempt import Attempt
from leonidas_tools.runtime.functions import (
    caller,
    code_of,
    on_engine,
    runs_in_thread,
    takes_context,
    undo_function,
)
from leonidas_tools.settings.effective import (
    effective_options,
    quarantine_result,
    refusal_of,
    runs_on_of,
)
from leonidas_tools.tools.metadata import RunsOn
from leonidas_tools.tools.tool import OnCancel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

    from leonidas_tools.approvals.question import Asking
    from leonidas_tools.calls.call import Run, ToolCall, ToolResult
    from leonidas_tools.policies.base import Policy
    from leonidas_tools.policies.order import ForTool
    from leonidas_tools.runtime.functions import CallFunction
    from leonidas_tools.settings.effective import EffectiveOptions
    from leonidas_tools.settings.models import Settings, ToolConfiguration
    from leonidas_tools.tools.registry import AnyTool, ToolRegistry
    from leonidas_tools.workers.threads import Workers

_MAX_WHOLE_LENGTH = 8 * 1024 * 1024
"""Maximum bytes of a result before a result budget cuts it: it needs more than the start."""


@record
class CallPlan:
    """The compiled run of a tool."""

    tool: AnyTool
    settings: ToolConfiguration
    run: Run
    fallbacks: Mapping[str, tuple[AnyTool | None, ToolConfiguration | None]]
    is_read: bool
    limits: Mapping[str, float]  # as in the first event of a call


class Compiler:
    """Compiles tools, and keeps the state that their policies share.

    `policies` are those of the user; only tracing, the loop guard and refusals run outside them.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        settings: Settings,
        policies: Sequence[Policy],
        workers: Workers,
        asking: Asking,
    ) -> None:
        for policy in policies:
            if not callable(policy):
                raise TypeError(
                    f"{policy!r} is not a policy: expected `async (call, run) -> result`"
                )
        self.registry = registry
        self.workers = workers
        self.shared = Shared(
            settings=settings,
            users_policies=policies,
            workers=workers,
            asking=asking,
            resolve=self._resolve,
            has_tool=self._has_tool,
        )
        # The policy of a session may be known only after one of its calls has started.
        self._learns_policies = any(getattr(p, "sets_session_policy", False) for p in policies)
        self.engines = Engines(_places(settings))
        self._policies = policy_functions()  # imported before the first call
        self._plans: dict[tuple[str, bool], CallPlan] = {}

    @property
    def settings(self) -> Settings:
        """Return the current settings."""
        return self.shared.settings

    def apply(self, settings: Settings) -> None:
        """Apply other settings to the calls that start from now on."""
        before = self.shared.settings
        if settings is before:
            return
        if (
            settings.texts != before.texts  # a question is asked in the words of the settings
            or settings.policies != before.policies
            or settings.monitoring.tracing != before.monitoring.tracing
        ):
            self._plans.clear()
        self.engines.apply(_places(settings))
        self.shared.apply(settings)

    async def prepare(self) -> None:
        """Prepare the engines of the tools; the first call reports an engine that fails."""
        own = ((tool, self.settings.for_tool(tool.name, tool.origin)) for tool in self.registry)
        engines = []
        for name in {runs_on_of(*each) for each in own} - {RunsOn.HERE}:
            with contextlib.suppress(ToolError):
                engines.append(await self.engines.get(name))
        for engine in engines:  # without an await, so that a cancellation leaves none half prepared
            engine.prepare()

    def plan(self, call: ToolCall) -> CallPlan:
        """Return the plan of a call: its tool, compiled once under the settings of the call."""
        tool, settings = call.tool, call.settings
        assert tool is not None
        if settings is None:
            settings = self.settings.for_tool(call.name, tool.origin)
        key = (call.name, self._is_guarded(call))
        plan = self._plans.get(key)
        if (
            plan is not None
            and plan.tool is tool
            and plan.settings is settings
            and all(self._current(name) == found for name, found in plan.fallbacks.items())
        ):
            return plan
        options = effective_options(tool, settings, self.settings.policies, guarded=key[1])
        plan = self._plans[key] = CallPlan(
            tool=tool,
            settings=settings,
            run=self._compile(options),
            fallbacks={name: self._current(name) for name in options.fallback_tools},
            is_read=options.is_read,
            limits=_limits(options),
        )
        return plan

    def _compile(self, options: EffectiveOptions) -> Run:
        return self._wrap_all(self._policies, options, self._attempt(options))

    def _wrap_all(self, policies: Iterable[ForTool], options: EffectiveOptions, run: Run) -> Run:
        """Wrap `run` in those of these policies that the tool uses, the first one outermost."""
        used = [each for for_tool in policies for each in for_tool(options, self.shared)]
        for policy in reversed(used):
            run = _wrap(policy, run)
        return run

    def _options(self, call: ToolCall, *, guarded: bool = False) -> EffectiveOptions:
        assert call.tool is not None
        assert call.settings is not None
        return effective_options(call.tool, call.settings, self.settings.policies, guarded=guarded)

    def alone(self, call: ToolCall) -> Run:
        """Return a run of the call's function, once and without the policies around it."""
        options = replace(self._options(call), runs_on=RunsOn.HERE)
        return self._wrap_all((in_process.for_tool,), options, self._attempt(options))

    def asking(self, call: ToolCall) -> Run:
        """Return a run that asks a person about a call, and never runs the call itself."""
        options = self._options(call, guarded=self._is_guarded(call))
        around = (refusal.for_tool, hooks.for_tool, validation.for_tool, approval.for_tool)
        return self._wrap_all(around, options, _withdrawn)

    def outcome(self, call: ToolCall) -> Run | None:
        """Return a run that waits for a call that another process has started on an engine.

        Return `None` for a tool that runs in its process. Policies that decide whether a call may
        run are left out, since the call has already started.
        """
        options = self._options(call)
        if not is_durable(options.runs_on):
            return None
        attempt = self._attempt(options)
        attempt = replace(
            attempt, function=self._on_engine(options, attempt.max_bytes, is_begun=True)
        )
        around = (untrusted.for_tool, timeout.for_tool, result_budget.for_tool)
        return self._wrap_all(around, options, attempt)

    def _function(self, options: EffectiveOptions, max_bytes: int) -> CallFunction:
        """Return a function that runs the tool, here or on an engine."""
        if options.runs_on is not RunsOn.HERE:
            return self._on_engine(options, max_bytes)
        return caller(options.tool, self.workers, max_bytes=max_bytes, collect=options.collect)

    def _on_engine(
        self, options: EffectiveOptions, max_bytes: int, *, is_begun: bool = False
    ) -> CallFunction:
        limits = EngineLimits(
            once=options.is_once,
            max_bytes=max_bytes,
            seconds=options.timeout_seconds or self.settings.policies.default_timeout,
            retries=options.retry_attempts or 0,
            delay_seconds=options.retry_delay_seconds,
            backoff=options.retry_backoff,
            longest_delay_seconds=options.retry_longest_delay_seconds,
        )
        engine = partial(self.engines.get, options.runs_on.value)
        code = code_of(options.tool, collect=options.collect, resources=options.resources)
        return on_engine(engine, options.tool, code, limits, is_begun=is_begun)

    def _attempt(self, options: EffectiveOptions) -> Attempt:
        tool, settings, on_cancel = options.tool, options.settings, options.on_cancel
        max_bytes = _MAX_WHOLE_LENGTH if options.has_result_budget else options.max_result_bytes
        in_thread = runs_in_thread(tool)
        # A stopped thread continues: its work must not be undone before it has ended.
        can_end = not in_thread or tool.metadata.cpu_bound or options.runs_on is not RunsOn.HERE
        finishes = on_cancel is OnCancel.UNDO and not can_end
        has_secrets = bool(settings.secrets) or tool.redaction.declares
        return Attempt(
            function=self._function(options, max_bytes),
            takes_context=takes_context(tool) or options.runs_on is not RunsOn.HERE,
            max_bytes=max_bytes,
            once=options.is_once,
            stoppable=on_cancel is not OnCancel.FINISH and not finishes,
            undoes=on_cancel is OnCancel.UNDO,
            undo=undo_function(tool),
            undo_seconds=options.timeout_seconds or self.settings.policies.default_timeout,
            ends_when_stopped=can_end,
            in_thread=self.workers.in_thread,
            undoes_in_thread=in_thread,
            secrets=settings.known_secrets if has_secrets else None,
            secret_names=frozenset(tool.metadata.secrets or ()),
        )

    def _resolve(self, name: str, guarded: bool) -> StandIn | None:
        """Return a fallback tool and its run, with all its own policies but its fallbacks."""
        tool, settings = self._current(name)
        if tool is None or settings is None:
            return None
        options = effective_options(tool, settings, self.settings.policies, guarded=guarded)
        run = self._compile(replace(options, fallback_tools=()))
        helps = options.may_run_again_after
        return StandIn(tool=tool, settings=settings, run=run, helps=helps)

    def _current(self, name: str) -> tuple[AnyTool | None, ToolConfiguration | None]:
        """Return the tool of this name and its settings, for the calls that start now."""
        tool = self.registry.get(name)
        return tool, None if tool is None else self.settings.for_tool(name, tool.origin)

    def _is_guarded(self, call: ToolCall) -> bool:
        """Return whether the session may have its own policy, which may decide anything."""
        if self._learns_policies:
            return True
        policy = call.session.find(SessionPolicy)
        return policy is not None and not policy.is_silent

    def _has_tool(self, name: str) -> bool:
        tool = self.registry.get(name)
        if tool is None or quarantine_result(tool) is not None:
            return False
        return refusal_of(tool, self.settings.for_tool(name, tool.origin)) is None


async def _withdrawn(call: ToolCall) -> ToolResult:
    return wording.build_denial(call.name, "withdrawn")


def _wrap(policy: Policy, run: Run) -> Run:
    # A bound method in a closure: an object that is called through `partial` takes twice as long.
    own = inspect.getattr_static(type(policy), "__call__")
    around: Policy = MethodType(own, policy) if inspect.isfunction(own) else policy

    def call_in(call: ToolCall) -> Awaitable[ToolResult]:
        return around(call, run=run)

    return call_in


def _places(settings: Settings) -> Mapping[str, object]:
    """Return the place of each engine, by the value of `runs_on`."""
    return {"ray": settings.ray.place, "temporal": settings.temporal.place}


def _limits(options: EffectiveOptions) -> Mapping[str, float]:
    limits = {
        "timeout_seconds": options.timeout_seconds,
        "deadline_seconds": options.deadline_seconds,
    }
    return {name: seconds for name, seconds in limits.items() if seconds}
