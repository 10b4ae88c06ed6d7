"""Compiles a tool and its settings into a `Run`; the order of policies stands here, once."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.calls.records import record
from leonidas_tools.calls.sendable import is_long, sendable
from leonidas_tools.json_schema import ArgumentValidator
from leonidas_tools.policies.approval import Approval
from leonidas_tools.policies.base import Policy, awaited, compose
from leonidas_tools.policies.dependencies import Dependencies
from leonidas_tools.policies.fallback import Fallback, Helps
from leonidas_tools.policies.hooks import Before
from leonidas_tools.policies.in_process import InProcess
from leonidas_tools.policies.inquiries import Inquiries
from leonidas_tools.policies.lane import InLane, Lanes, lane_key
from leonidas_tools.policies.limit import Limit, Limiter, Preemptible
from leonidas_tools.policies.retry import (
    LONGEST_DELAY_SECONDS,
    USUAL_BACKOFF,
    USUAL_DELAY_SECONDS,
    USUAL_RETRIES,
    Retry,
    may_repeat,
)
from leonidas_tools.policies.timeout import Timeout
from leonidas_tools.policies.validation import Validation, fitting_presets
from leonidas_tools.redaction import Masking
from leonidas_tools.results.texts import AS_IT_IS
from leonidas_tools.rules.engine import RuleBook
from leonidas_tools.rules.subject import subject_of
from leonidas_tools.runtime.attempt import Attempt
from leonidas_tools.runtime.functions import caller, runs_in_thread, takes_context, undoing
from leonidas_tools.runtime.guards import Guards
from leonidas_tools.settings.overrides import effect_of, either, on_cancel_of, quarantined, refused
from leonidas_tools.tools.metadata import fingerprint_of
from leonidas_tools.tools.tool import OnCancel, ToolCategory, ToolEffect, ToolPriority

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from leonidas_tools.approvals.question import Asking
    from leonidas_tools.calls.call import Run, ToolCall, ToolResult
    from leonidas_tools.settings.models import Settings, ToolConfiguration
    from leonidas_tools.tools.registry import AnyTool, ToolRegistry
    from leonidas_tools.workers.threads import Workers

_NOTHING: Mapping[str, float] = {}
_LONGEST_WHOLE = 8 * 1024 * 1024
"""How long a result may be of which not the beginning is kept, or not the beginning only."""


@record
class Plan:
    """What runs the calls of a tool.

    Args:
        tool: The tool.
        settings: The settings it was compiled for.
        run: Runs a call.
        is_read: Whether its calls change nothing.
        limits: How long a call may take, as its first event says it.
    """

    tool: AnyTool
    settings: ToolConfiguration
    run: Run
    is_read: bool
    limits: Mapping[str, float]


class Compiler:
    """Knows what runs a call, and keeps what the calls of all tools share: lanes and limits.

    Args:
        registry: Where fallback tools and dependencies are found.
        settings: What holds for each tool, and for all together.
        policies: Policies of the user, outside all others.
        workers: Where functions run that are not coroutines.
        asking: How a person is asked.
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
        self.registry = registry
        self.settings = settings
        self.policies = tuple(policies)
        for policy in self.policies:
            if not callable(policy):
                raise TypeError(f"{policy!r} is not a policy: give `async (call, run) -> result`")
        # What sessions may do may only be known once a call of theirs has begun.
        self._learns_policies = any(getattr(p, "sets_session_policy", False) for p in policies)
        self.workers = workers
        limits = settings.policies
        self.guards = Guards(limits)
        self._asking = asking
        self._rules = RuleBook(limits.all_rules())
        self._lanes = Lanes()
        self._limiter = Limiter(limits.concurrency) if limits.concurrency else None
        self._limiters: dict[str, Limiter] = {}
        self._plans: dict[tuple[str, bool], Plan] = {}

    def apply(self, settings: Settings) -> None:
        """Puts other settings in force for the calls that begin from now on."""
        if settings is self.settings:
            return
        before, limits = self.settings.policies, settings.policies
        if settings.texts != self.settings.texts:
            self._plans.clear()  # a question is asked in the words of the settings
        self.settings = settings
        if limits == before:
            return
        self.guards.apply(limits)
        self._rules = RuleBook(limits.all_rules())
        self.workers.threads = limits.threads
        self.workers.processes.most = limits.processes
        self._limiter = Limiter(limits.concurrency) if limits.concurrency else None
        self._plans.clear()

    def plan(self, call: ToolCall) -> Plan:
        """Return what runs a call: its tool under the settings it is pinned to, compiled once."""
        tool, settings = call.tool, call.settings
        assert tool is not None
        if settings is None:
            settings = self.settings.for_tool(call.name, tool.origin)
        key = (call.name, self._is_guarded(call))
        plan = self._plans.get(key)
        if plan is not None and plan.tool is tool and plan.settings is settings:
            return plan
        plan = self._plans[key] = Plan(
            tool=tool,
            settings=settings,
            run=self._compile(tool, settings, guarded=key[1]),
            is_read=effect_of(tool, settings) is ToolEffect.READ,
            limits=self._limits(tool, settings),
        )
        return plan

    def _compile(self, tool: AnyTool, settings: ToolConfiguration, *, guarded: bool) -> Run:
        refusal = refused(tool, settings) or quarantined(tool)
        outer = self.guards.outermost(tool, settings)
        if refusal is not None:
            return compose(outer, partial(refuse, result=refusal))
        outer += self._users_own(self._max_bytes(settings))
        outer.append(self._validation(tool, settings))
        if tool.metadata.dependencies:
            needs = tool.metadata.dependencies
            outer.append(Dependencies(names=needs, has_tool=self._has_tool))
        outer += self._approval(tool, settings, guarded=guarded)
        outer += self._inquiries(tool)
        # Inside approval: what a session may not see, it may not see from another's call either.
        outer += self.guards.caching(tool, settings)
        outer += self.guards.limiting(tool, settings)
        deadline = _deadline_seconds(tool, settings)
        if deadline:
            outer.append(Timeout(seconds=deadline, covers="call"))
        names = either(settings.fallback_tools, tool.metadata.fallback_tools)
        if names:
            outer.append(Fallback(names=names, resolve=self._resolve, helps=_helps(tool, settings)))
        return compose(outer, self._inner(tool, settings))

    def _users_own(self, max_bytes: int) -> list[Policy]:
        """The policies of the user, and what looks at the results of those that may make any."""
        own: list[Policy] = []
        for policy in self.policies:
            own.append(replace(policy, max_bytes=max_bytes) if type(policy) is Before else policy)
            own += [] if _leaves_results(policy) else [awaited]
        sent = partial(_sent, max_bytes=max_bytes, in_thread=self.workers.in_thread)
        return [sent, *own] if awaited in own else own

    def _inner(self, tool: AnyTool, settings: ToolConfiguration) -> Run:
        """What a tool keeps also when it stands in for another."""
        effect = effect_of(tool, settings)
        once = effect is ToolEffect.ONCE
        key = either(settings.lane, tool.metadata.lane) or lane_key(tool.function)
        if settings.effect is None and not tool.declares_effect:
            self._lanes.undeclared.add(tool.name)
        else:
            self._lanes.undeclared.discard(tool.name)
        is_write = effect is not ToolEffect.READ
        lane = self._lanes.lane(key)
        policies: list[Policy] = [
            InLane(lane=lane, lanes=self._lanes, write=is_write, tool=tool.name),
            *self._limit(tool, settings),
            *self.guards.breaking(tool, settings),
        ]
        asked = either(settings.retry_attempts, tool.metadata.retry_attempts)
        attempts = USUAL_RETRIES if asked is None else asked
        if attempts:
            policies.append(
                Retry(
                    attempts=attempts,
                    delay_seconds=either(settings.retry_delay, USUAL_DELAY_SECONDS),
                    once=once,
                    timeouts=asked is not None,
                    backoff=either(settings.retry_backoff, USUAL_BACKOFF),
                    longest_delay_seconds=either(
                        settings.retry_longest_delay, LONGEST_DELAY_SECONDS
                    ),
                    kinds=settings.retry_on,
                )
            )
        if tool.metadata.cpu_bound:
            # Outside the timeout: neither the wait for a process nor its start is the tool's time.
            policies.append(InProcess(processes=self.workers.processes, function=tool.function))
        if not tool.metadata.answers_questions:
            policies.append(Timeout(seconds=self._timeout_seconds(tool, settings)))
        most = self._max_bytes(settings)
        budget = self.guards.budgeting(tool, settings, most, self.workers.in_thread)
        run = self._attempt(tool, settings, max_bytes=_LONGEST_WHOLE if budget else most)
        return compose([*policies, *budget], run)

    def _limit(self, tool: AnyTool, settings: ToolConfiguration) -> list[Policy]:
        priority = either(settings.priority, tool.metadata.priority)
        is_read = effect_of(tool, settings) is ToolEffect.READ
        preemptible = priority is ToolPriority.BACKGROUND and is_read
        limiters: list[Limiter] = []
        if settings.concurrency:
            own = self._limiters.setdefault(tool.name, Limiter(settings.concurrency))
            own.resize(settings.concurrency)
            limiters.append(own)
        if self._limiter is not None:
            limiters.append(self._limiter)
        if not limiters:
            return []
        limit = Limit(limiters=limiters, priority=int(priority))
        return [Preemptible(limit=limit) if preemptible else limit]

    def _approval(
        self, tool: AnyTool, settings: ToolConfiguration, *, guarded: bool
    ) -> list[Policy]:
        """What holds the calls to the rules; nothing where none can say more than yes."""
        mode = self.settings.policies.mode
        rules = self._rules.for_tool(subject_of(tool.metadata, settings))
        if not guarded and not rules.acts_in(mode):
            return []
        return [
            Approval(
                rules=rules,
                mode=mode,
                fingerprint=fingerprint_of(tool.metadata),
                validate=ArgumentValidator(tool.metadata.parameters),
                settings=self.settings.policies.approval,
                wording=self.settings.wording or AS_IT_IS,
                asking=self._asking,
            )
        ]

    def _inquiries(self, tool: AnyTool) -> list[Policy]:
        """What asks the person what calls want to know while they run."""
        if tool.metadata.category is not ToolCategory.MCP:
            return []
        limits = self.settings.policies
        return [
            Inquiries(
                rules=self._rules,
                mode=limits.mode,
                fingerprint=fingerprint_of(tool.metadata),
                settings=limits.approval,
                wording=self.settings.wording or AS_IT_IS,
                asking=self._asking,
            )
        ]

    def _validation(self, tool: AnyTool, settings: ToolConfiguration) -> Validation:
        parameters = tool.metadata.parameters
        presets = fitting_presets(tool.name, parameters, settings.custom_parameters)
        return Validation(validator=ArgumentValidator(parameters), presets=presets)

    def _attempt(self, tool: AnyTool, settings: ToolConfiguration, *, max_bytes: int) -> Attempt:
        on_cancel = on_cancel_of(tool, settings)
        in_thread = runs_in_thread(tool)
        collect = bool(either(settings.collect, tool.metadata.collect))
        # A thread goes on when it is stopped: what it does must not be undone before it is done.
        finishes = on_cancel is OnCancel.UNDO and in_thread and not tool.metadata.cpu_bound
        return Attempt(
            function=caller(tool, self.workers, max_bytes=max_bytes, collect=collect),
            takes_context=takes_context(tool),
            max_bytes=max_bytes,
            once=effect_of(tool, settings) is ToolEffect.ONCE,
            stoppable=on_cancel is not OnCancel.FINISH and not finishes,
            undoes=on_cancel is OnCancel.UNDO,
            undo=undoing(tool),
            undo_seconds=self._timeout_seconds(tool, settings),
            stops=not in_thread or tool.metadata.cpu_bound,
            in_thread=self.workers.in_thread,
            undoes_in_thread=in_thread,
            secrets=settings.known_secrets if _has_secrets(tool, settings) else None,
            secret_names=frozenset(tool.metadata.secrets or ()),
        )

    def _max_bytes(self, settings: ToolConfiguration) -> int:
        return settings.max_result_bytes or self.settings.policies.max_result_bytes

    def _limits(self, tool: AnyTool, settings: ToolConfiguration) -> Mapping[str, float]:
        if tool.metadata.answers_questions:
            return _NOTHING
        limits = {"timeout_seconds": self._timeout_seconds(tool, settings)}
        deadline = _deadline_seconds(tool, settings)
        return {**limits, "deadline_seconds": deadline} if deadline else limits

    def _timeout_seconds(self, tool: AnyTool, settings: ToolConfiguration) -> float:
        asked = either(settings.timeout, tool.metadata.timeout_seconds)
        return self.settings.policies.default_timeout if asked is None else asked

    def _resolve(self, name: str, call: ToolCall) -> tuple[ToolCall, Run, Helps] | None:
        """A tool that stands in for another, with all its own policies but its own fallbacks."""
        tool = self.registry.get(name)
        if tool is None:
            return None
        settings = self.settings.for_tool(name, tool.origin)
        alone = settings.model_copy(update={"fallback_tools": ()})
        # Its arguments may be presets of the first tool's settings.
        other = replace(
            call,
            name=name,
            tool=tool,
            settings=settings,
            inherited=call.known,
            autonomous=False,  # said of the first tool, and of no other
        )
        run = self._compile(tool, alone, guarded=self._is_guarded(call))
        return other, run, _helps(tool, settings)

    def _is_guarded(self, call: ToolCall) -> bool:
        """Whether its session may have a policy of its own, which may say anything of any tool."""
        if self._learns_policies:
            return True
        policy = call.session.find(SessionPolicy)
        return policy is not None and not policy.is_silent

    def _has_tool(self, name: str) -> bool:
        tool = self.registry.get(name)
        if tool is None or quarantined(tool) is not None:
            return False
        return refused(tool, self.settings.for_tool(name, tool.origin)) is None


def _deadline_seconds(tool: AnyTool, settings: ToolConfiguration) -> float:
    """Return how long a whole call may take; 0 for any time."""
    # A tool that answers a question only waits for another call, which has limits of its own.
    if tool.metadata.answers_questions:
        return 0.0
    return either(settings.deadline, tool.metadata.deadline_seconds) or 0.0


def _leaves_results(policy: Policy) -> bool:
    """Whether it says so itself: what is derived from `Before` may return anything."""
    return type(policy) is Before or getattr(policy, "leaves_results", False) is True


def _has_secrets(tool: AnyTool, settings: ToolConfiguration) -> bool:
    """Whether there is anything to mask in what its calls say."""
    return bool(settings.secrets) or tool.redaction.declares


async def _sent(
    call: ToolCall, run: Run, *, max_bytes: int, in_thread: Callable[..., Awaitable[ToolResult]]
) -> ToolResult:
    """A policy of the user may return what a tool may not."""
    mask = Masking(call.known) if call.known else None
    result = await run(call)
    convert = partial(sendable, result, max_bytes, tool=call.name, mask=mask)
    # To look for secrets in what is long takes a while: not on the event loop.
    return await in_thread(convert) if mask is not None and is_long(result) else convert()


async def refuse(_: ToolCall, *, result: ToolResult) -> ToolResult:
    """Answer a call with a result that is known without running it."""
    return result


def _helps(tool: AnyTool, settings: ToolConfiguration) -> Helps:
    """Whether another tool may do the work after a result of this one."""
    return partial(may_repeat, once=effect_of(tool, settings) is ToolEffect.ONCE)
