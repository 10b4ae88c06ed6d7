"""Effective tool options: the configured value, else the tool's own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.call import ResultStatus, ToolResult
from leonidas_tools.policies.retry import USUAL_RETRIES, may_repeat
from leonidas_tools.results.texts import say
from leonidas_tools.tools.metadata import (
    OPTIONS,
    AfterUntrusted,
    OnCancel,
    Overflow,
    RunsOn,
    Scheduling,
    ToolCategory,
    ToolEffect,
    ToolOptions,
    ToolStatus,
    options_class,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from leonidas_tools.settings.models import PolicySettings, ToolConfiguration
    from leonidas_tools.tools.metadata import Option, ToolMetadata
    from leonidas_tools.tools.registry import AnyTool


@options_class
class EffectiveOptions(ToolOptions):
    """The options that apply to the calls of one tool, resolved once.

    A limit that is switched off is `None`. Settings that the code of a tool cannot set are read
    from `settings`.
    """

    tool: AnyTool
    settings: ToolConfiguration
    guarded: bool  # a session may have its own policy, with any rules
    # the result of every call while the tool is disabled or quarantined
    refusal: ToolResult | None
    retries_timeouts: bool  # whether an attempt that timed out is retried too

    @property
    def is_read(self) -> bool:
        """Return whether a call changes nothing."""
        return self.effect is ToolEffect.READ

    @property
    def tells_progress(self) -> bool:
        """Return whether the model receives the progress of a running call."""
        return self.scheduling is not None and self.scheduling.progress is not None

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
    values = {
        option.name: _resolve_option(option, tool.metadata, settings, policies)
        for option in OPTIONS.values()
    }
    attempts = values["retry_attempts"]
    values |= {
        "after_untrusted": after_untrusted_of(tool, settings, policies),
        "breaker": bool(values["breaker"]),
        "on_cancel": on_cancel_of(tool, settings),
        "retry_attempts": either(attempts, USUAL_RETRIES),
        "runs_on": runs_on_of(tool, settings),
        "scheduling": scheduling_of(tool, settings),
    }
    if tool.metadata.answers_questions:  # it only waits for another call, which has its own limits
        values |= {"lane": "off", "timeout_seconds": None, "deadline_seconds": None}
    return EffectiveOptions(
        tool=tool,
        settings=settings,
        guarded=guarded,
        refusal=refusal_of(tool, settings) or quarantine_result(tool),
        retries_timeouts=attempts is not None,
        **values,
    )


def _resolve_option(
    option: Option, own: ToolMetadata, settings: ToolConfiguration, policies: PolicySettings
) -> Any:
    """Return the configured value, else the tool's own, else that of all tools."""
    configured = None if option.key is None else getattr(settings, option.key)
    if configured is False and option.is_limit:
        return None
    if configured is not None:
        return configured
    value = getattr(own, option.name)
    if option.policy is None or value != option.default:
        return value
    return getattr(policies, option.policy)


def runs_on_of(tool: AnyTool, settings: ToolConfiguration) -> RunsOn:
    """Return where the function of a tool runs: `here` for every tool of an MCP server."""
    own = tool.metadata
    return RunsOn.HERE if own.origin is not None else either(settings.runs_on, own.runs_on)


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
