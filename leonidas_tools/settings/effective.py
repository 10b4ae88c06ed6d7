"""Effective tool options: the configured value, else the tool's own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.call import ResultStatus, ToolResult
from leonidas_tools.policies.breaker import BreakerLimits
from leonidas_tools.policies.retry import (
    MAX_DELAY_SECONDS,
    USUAL_BACKOFF,
    USUAL_DELAY_SECONDS,
    USUAL_RETRIES,
    may_repeat,
)
from leonidas_tools.results.texts import say
from leonidas_tools.settings.policy_settings import BreakerSettings
from leonidas_tools.tools.tool import (
    AfterUntrusted,
    OnCancel,
    Overflow,
    RunsOn,
    Scheduling,
    ToolCategory,
    ToolEffect,
    ToolPriority,
    ToolStatus,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from leonidas_tools.settings.models import PolicySettings, ToolConfiguration
    from leonidas_tools.tools.registry import AnyTool


@dataclass(frozen=True, kw_only=True, slots=True)
class EffectiveOptions:
    """The options that apply to the calls of one tool, resolved once.

    Options that only the settings or only the tool can have are read from `settings` and `tool`.
    """

    tool: AnyTool
    settings: ToolConfiguration
    guarded: bool  # a session may have its own policy, with any rules
    # the result of every call while the tool is disabled or quarantined
    refusal: ToolResult | None
    effect: ToolEffect
    priority: ToolPriority
    lane: str | None  # `None` for the module or object of the function
    timeout_seconds: float  # of one attempt; 0 if the tool only waits for another call
    deadline_seconds: float  # of the whole call; 0 for no limit
    untrusted: bool  # whether its results mark the session that reads them
    # what happens to its calls in a marked session; `None` to leave it to the mode
    after_untrusted: AfterUntrusted | None
    retry_attempts: int
    retries_timeouts: bool  # whether an attempt that timed out is retried too
    retry_delay_seconds: float
    retry_backoff: float  # the factor by which each further delay is longer
    retry_longest_delay_seconds: float
    fallback_tools: Sequence[str]
    cache_seconds: float  # 0 for no cache
    cache_shared: bool  # whether other processes with the same store use its results
    stale_if_error_seconds: float  # how long after `cache_seconds` a result may replace a failure
    polling: bool  # whether repeated calls are no loop
    breaker: BreakerLimits | None  # `None` for no breaker
    max_result_bytes: int
    max_result_tokens: int | None  # `None` for no limit
    overflow: Overflow
    on_cancel: OnCancel
    collect: bool  # whether the result of a generator is the list of all yielded values
    runs_on: RunsOn
    resources: Mapping[str, float]

    @property
    def is_read(self) -> bool:
        """Return whether a call changes nothing."""
        return self.effect is ToolEffect.READ

    @property
    def tells_progress(self) -> bool:
        """Return whether the model receives the progress of a running call."""
        scheduling = scheduling_of(self.tool, self.settings)
        return scheduling is not None and scheduling.progress is not None

    @property
    def is_once(self) -> bool:
        """Return whether the effect of a call must not happen twice."""
        return self.effect is ToolEffect.ONCE

    @property
    def has_result_budget(self) -> bool:
        """Return whether results have a token limit, or an overflow other than `head`."""
        return bool(self.max_result_tokens) or self.overflow is not Overflow.HEAD

    @property
    def may_run_again_after(self) -> Callable[[ToolResult], bool]:
        """Return a function that returns whether the call may be repeated after a result."""
        return partial(may_repeat, once=self.is_once)


def effective_options(
    tool: AnyTool, settings: ToolConfiguration, policies: PolicySettings, *, guarded: bool = False
) -> EffectiveOptions:
    """Resolve the options of a tool: the configured value, the tool's own, or the default."""
    own = tool.metadata
    attempts = either(settings.retry_attempts, own.retry_attempts)
    timeout = either(settings.timeout, own.timeout_seconds)
    # A tool that answers a question only waits for another call, which has its own limits.
    waits_only = own.answers_questions
    return EffectiveOptions(
        tool=tool,
        settings=settings,
        guarded=guarded,
        refusal=refusal_of(tool, settings) or quarantine_result(tool),
        effect=effect_of(tool, settings),
        priority=either(settings.priority, own.priority),
        lane="off" if waits_only else either(settings.lane, own.lane),
        timeout_seconds=0.0 if waits_only else either(timeout, policies.default_timeout),
        deadline_seconds=(
            0.0 if waits_only else either(settings.deadline, own.deadline_seconds) or 0.0
        ),
        untrusted=bool(either(settings.untrusted, own.untrusted)),
        after_untrusted=after_untrusted_of(tool, settings, policies),
        retry_attempts=USUAL_RETRIES if attempts is None else attempts,
        retries_timeouts=attempts is not None,
        retry_delay_seconds=either(settings.retry_delay, USUAL_DELAY_SECONDS),
        retry_backoff=either(settings.retry_backoff, USUAL_BACKOFF),
        retry_longest_delay_seconds=either(settings.retry_longest_delay, MAX_DELAY_SECONDS),
        fallback_tools=either(settings.fallback_tools, own.fallback_tools),
        cache_seconds=either(settings.cache_seconds, own.cache_seconds) or 0.0,
        cache_shared=bool(settings.cache_shared),
        stale_if_error_seconds=either(settings.stale_if_error, own.stale_if_error_seconds) or 0.0,
        polling=bool(either(settings.polling, own.polling)),
        breaker=_breaker_limits(settings, policies),
        max_result_bytes=settings.max_result_bytes or policies.max_result_bytes,
        max_result_tokens=either(settings.max_result_tokens, own.max_result_tokens) or None,
        overflow=either(settings.overflow, own.overflow),
        on_cancel=on_cancel_of(tool, settings),
        collect=bool(either(settings.collect, own.collect)),
        runs_on=runs_on_of(tool, settings),
        resources=either(settings.resources, own.resources),
    )


def runs_on_of(tool: AnyTool, settings: ToolConfiguration) -> RunsOn:
    """Return where the function of a tool runs: `here` for every tool of an MCP server."""
    own = tool.metadata
    return RunsOn.HERE if own.origin is not None else either(settings.runs_on, own.runs_on)


def _breaker_limits(settings: ToolConfiguration, policies: PolicySettings) -> BreakerLimits | None:
    if not either(settings.breaker, policies.breaker is not None):
        return None
    limits = policies.breaker or BreakerSettings()
    return BreakerLimits(
        error_rate=limits.error_rate,
        window_seconds=limits.window,
        min_calls=limits.min_calls,
        open_seconds=limits.open_for,
    )


def either(setting: Any, own: Any) -> Any:
    """Return the configured value, or the tool's own if none is configured."""
    return own if setting is None else setting


def category_of(tool: AnyTool, settings: ToolConfiguration | None) -> ToolCategory | str:
    """Return the category whose processor runs the calls of a tool."""
    configured = None if settings is None else settings.category
    return configured or tool.metadata.category


def effect_of(tool: AnyTool, settings: ToolConfiguration) -> ToolEffect:
    """Return the effect of the tool's calls."""
    return settings.effect or tool.metadata.effect


def after_untrusted_of(
    tool: AnyTool, settings: ToolConfiguration, policies: PolicySettings
) -> AfterUntrusted | None:
    """Return the handling of the tool's calls in a session that has read untrusted content.

    `None` leaves it to the mode of the session: `ask`, and `deny` in the mode `autonomous`.
    """
    if effect_of(tool, settings) is ToolEffect.READ or tool.metadata.answers_questions:
        return AfterUntrusted.ALLOW
    return settings.after_untrusted or tool.metadata.after_untrusted or policies.after_untrusted


def on_cancel_of(tool: AnyTool, settings: ToolConfiguration) -> OnCancel:
    """Return the handling of a running call that is cancelled."""
    stated = settings.on_cancel or tool.metadata.on_cancel
    if stated is not None:
        return stated
    half_done_for_good = effect_of(tool, settings) is ToolEffect.ONCE and tool.undo is None
    return OnCancel.FINISH if half_done_for_good else OnCancel.STOP


def scheduling_of(tool: AnyTool, settings: ToolConfiguration | None) -> Scheduling | None:
    """Return when the model speaks of the tool's results; `None` if nothing is set."""
    own = tool.metadata.scheduling
    configured = None if settings is None else settings.scheduling
    return own if configured is None else configured.over(own)


def repeats_after_resume(tool: AnyTool, settings: ToolConfiguration) -> bool:
    """Return whether a call that the model repeats after a reconnect runs again."""
    return bool(either(settings.repeat_after_resume, tool.metadata.repeat_after_resume))


def quarantine_result(tool: AnyTool) -> ToolResult | None:
    """Return the result of calls to a quarantined tool; `None` for a trusted tool."""
    if tool.metadata.quarantine is None:
        return None
    return ToolResult(
        status=ResultStatus.DENIED,
        message=tool.metadata.quarantine,
        reason_code="quarantined",
    )


def refusal_of(tool: AnyTool, settings: ToolConfiguration) -> ToolResult | None:
    """Return the result of calls to a disabled tool; `None` for an active tool."""
    status = either(settings.status, tool.metadata.status)
    if settings.enabled and status is ToolStatus.ACTIVE:
        return None
    maintenance = settings.enabled and status is ToolStatus.MAINTENANCE
    return ToolResult(
        status=ResultStatus.DISABLED,
        message=say("maintenance" if maintenance else "disabled", tool=tool.name),
        retryable=maintenance,
        reason_code=status.value if settings.enabled else "disabled",
    )
