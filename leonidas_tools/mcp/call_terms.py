"""What holds for one call of an MCP tool, whoever has said it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.tool import ToolEffect

if TYPE_CHECKING:
    from leonidas_tools.context import ToolContext

_CALL_SECONDS = 30.0


def may_repeat(context: ToolContext, effect: ToolEffect) -> bool:
    """Whether the call may be made twice, as the settings, the registry or the server have it.

    Args:
        context: The call's.
        effect: What the server says of its tool.
    """
    call = context.call
    if call.settings is not None and call.settings.effect is not None:
        effect = call.settings.effect
    elif call.tool is not None:
        effect = call.tool.metadata.effect
    return effect is not ToolEffect.ONCE


def seconds_of(context: ToolContext) -> float:
    """How long the call may take, as far as anybody has said."""
    settings, tool = context.call.settings, context.call.tool
    asked = None if settings is None else settings.timeout
    if asked is None and tool is not None:
        asked = tool.metadata.timeout_seconds
    return _CALL_SECONDS if asked is None else asked
