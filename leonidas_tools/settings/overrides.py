"""What holds for a tool: what the settings say of it, else what it says itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.call import ResultStatus, ToolResult
from leonidas_tools.results.texts import say
from leonidas_tools.tools.tool import OnCancel, Scheduling, ToolCategory, ToolEffect, ToolStatus

if TYPE_CHECKING:
    from leonidas_tools.settings.models import ToolConfiguration
    from leonidas_tools.tools.registry import AnyTool


def either(setting: Any, own: Any) -> Any:
    """The setting if there is one, else the tool's own value."""
    return own if setting is None else setting


def category_of(tool: AnyTool, settings: ToolConfiguration | None) -> ToolCategory | str:
    """Return the category whose processor runs the calls of a tool."""
    said = None if settings is None else settings.category
    return said or tool.metadata.category


def effect_of(tool: AnyTool, settings: ToolConfiguration) -> ToolEffect:
    """What a call of the tool changes."""
    return settings.effect or tool.metadata.effect


def on_cancel_of(tool: AnyTool, settings: ToolConfiguration) -> OnCancel:
    """What becomes of a call of the tool that nobody wants any more."""
    said = settings.on_cancel or tool.metadata.on_cancel
    if said is not None:
        return said
    half_done_for_good = effect_of(tool, settings) is ToolEffect.ONCE and tool.undo is None
    return OnCancel.FINISH if half_done_for_good else OnCancel.STOP


def scheduling_of(tool: AnyTool, settings: ToolConfiguration | None) -> Scheduling | None:
    """When the model speaks of the tool's answers, if anybody says so."""
    own = tool.metadata.scheduling
    said = None if settings is None else settings.scheduling
    return own if said is None else said.over(own)


def repeats_after_resume(tool: AnyTool, settings: ToolConfiguration) -> bool:
    """Whether a call that the model makes again after a reconnect runs again."""
    return bool(either(settings.repeat_after_resume, tool.metadata.repeat_after_resume))


def quarantined(tool: AnyTool) -> ToolResult | None:
    """What a tool answers that is declared but not trusted; `None` for one that is."""
    if tool.metadata.quarantine is None:
        return None
    return ToolResult(
        status=ResultStatus.DENIED,
        message=tool.metadata.quarantine,
        reason_code="quarantined",
    )


def refused(tool: AnyTool, settings: ToolConfiguration) -> ToolResult | None:
    """What a tool answers that is switched off; `None` for one that is not."""
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
