"""What holds for a tool: what the settings say of it, else what it says itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leonidas_tools.calls import ResultStatus, ToolResult
from leonidas_tools.tool import ToolEffect, ToolStatus

if TYPE_CHECKING:
    from leonidas_tools.registry import AnyTool
    from leonidas_tools.settings.models import ToolConfiguration


def either(setting: Any, own: Any) -> Any:
    """The setting if there is one, else the tool's own value."""
    return own if setting is None else setting


def effect_of(tool: AnyTool, settings: ToolConfiguration) -> ToolEffect:
    """What a call of the tool changes."""
    return settings.effect or tool.metadata.effect


def refused(tool: AnyTool, settings: ToolConfiguration) -> ToolResult | None:
    """What a tool answers that is switched off; `None` for one that is not."""
    status = either(settings.status, tool.metadata.status)
    if settings.enabled and status is ToolStatus.ACTIVE:
        return None
    maintenance = settings.enabled and status is ToolStatus.MAINTENANCE
    why = "under maintenance: try later" if maintenance else "switched off: do without it"
    return ToolResult(
        status=ResultStatus.DISABLED,
        message=f"The tool {tool.name!r} is {why}.",
        retryable=maintenance,
        reason_code=status.value if settings.enabled else "disabled",
    )
