"""The options of one call of an MCP tool, from settings, registry and server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leonidas_tools.tools.tool import ToolEffect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.calls.context import ToolContext

_CALL_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerCall:
    """A call for an MCP server."""

    tool: str  # name at the server
    arguments: Mapping[str, Any]
    once: bool  # whether its effect must not happen twice
    seconds: float  # timeout of the caller


def call_of(
    tool: str, arguments: Mapping[str, Any], context: ToolContext, effect: ToolEffect
) -> ServerCall:
    """Return the call for a server."""
    once = not may_repeat(context, effect)
    return ServerCall(tool=tool, arguments=arguments, once=once, seconds=seconds_of(context))


def may_repeat(context: ToolContext, effect: ToolEffect) -> bool:
    """Return whether the call may be repeated, by the settings, the registry or the server."""
    call = context.call
    if call.settings is not None and call.settings.effect is not None:
        effect = call.settings.effect
    elif call.tool is not None:
        effect = call.tool.metadata.effect
    return effect is not ToolEffect.ONCE


def seconds_of(context: ToolContext) -> float:
    """Return the timeout of the call; 30 seconds if none is set."""
    settings, tool = context.call.settings, context.call.tool
    asked = None if settings is None else settings.timeout
    if asked is None and tool is not None:
        asked = tool.metadata.timeout_seconds
    return _CALL_SECONDS if asked is None else asked
