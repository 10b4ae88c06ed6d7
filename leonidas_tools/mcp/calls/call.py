"""One call of an MCP tool: its options, and its errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leonidas_tools.errors import RetryableError, ToolError
from leonidas_tools.results.texts import MessageText, join, say
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


def server_down(name: str, reason: str) -> RetryableError:
    """Return the error of a call that was not sent, because its server was not connected."""
    return RetryableError(
        say("mcp_server_down", server=name, reason=reason),
        status="unavailable",
        reason_code="mcp_server_down",
    )


def server_lost(name: str, reason: str, *, once: bool) -> ToolError:
    """Return the error of a call during which the connection was lost."""
    message = say("mcp_server_lost", server=name, reason=reason)
    return _gone(message, "mcp_server_lost", once=once)


def malformed_answer(name: str, tool: str, *, once: bool) -> ToolError:
    """Return the error of a call whose result does not match the tool's description."""
    message = say("mcp_malformed_answer", tool=tool, server=name)
    return _ended(message, "mcp_malformed_answer", once=once)


def too_long_answer(name: str, tool: str, size: str) -> ToolError:
    """Return the error of a call whose result is longer than allowed."""
    message = say("mcp_answer_too_long", tool=tool, server=name, size=size)
    return ToolError(message, reason_code="mcp_answer_too_long")


def asks_without_end(name: str, tool: str, rounds: int, *, once: bool) -> ToolError:
    """Return the error of a call for which the server kept requesting input."""
    message = say("mcp_asks_without_end", tool=tool, server=name, rounds=rounds)
    return _ended(message, "mcp_asks_without_end", once=once)


def _gone(said: MessageText, reason_code: str, *, once: bool) -> ToolError:
    """Return the error of a call that can be retried, unless its effect must not happen twice."""
    if once:
        return _unknown(said, reason_code)
    return ToolError(said, status="unavailable", retryable=True, reason_code=reason_code)


def _ended(said: MessageText, reason_code: str, *, once: bool) -> ToolError:
    return _unknown(said, reason_code) if once else ToolError(said, reason_code=reason_code)


def _unknown(said: MessageText, reason_code: str) -> ToolError:
    message = join(said, say("mcp_effect_unknown"))
    return ToolError(message, status="unknown_outcome", reason_code=reason_code)
