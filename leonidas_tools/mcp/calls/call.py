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
    """Return the call for a server, with the effect and the timeout of the settings, else its own.

    `effect` is that of the server's hints, for a tool that is not registered.
    """
    settings, registered = context.call.settings, context.call.tool
    seconds = _CALL_SECONDS
    if registered is not None:
        effect = registered.metadata.effect
        seconds = registered.metadata.timeout_seconds or seconds
    if settings is not None:
        effect, seconds = settings.effect or effect, settings.timeout or seconds
    once = effect is ToolEffect.ONCE
    return ServerCall(tool=tool, arguments=arguments, once=once, seconds=seconds)


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
    return _build_error(message, "mcp_server_lost", once=once, status="unavailable", retryable=True)


def malformed_answer(name: str, tool: str, *, once: bool) -> ToolError:
    """Return the error of a call whose result does not match the tool's description."""
    message = say("mcp_malformed_answer", tool=tool, server=name)
    return _build_error(message, "mcp_malformed_answer", once=once)


def too_long_answer(name: str, tool: str, size: str) -> ToolError:
    """Return the error of a call whose result is longer than allowed."""
    message = say("mcp_answer_too_long", tool=tool, server=name, size=size)
    return ToolError(message, reason_code="mcp_answer_too_long")


def asks_without_end(name: str, tool: str, rounds: int, *, once: bool) -> ToolError:
    """Return the error of a call for which the server kept requesting input."""
    message = say("mcp_asks_without_end", tool=tool, server=name, rounds=rounds)
    return _build_error(message, "mcp_asks_without_end", once=once)


def _build_error(
    message: MessageText, reason_code: str, *, once: bool, **details: Any
) -> ToolError:
    """Return an error with these details; with `once`, the effect of the call is unknown."""
    if once:
        message = join(message, say("mcp_effect_unknown"))
        details = {"status": "unknown_outcome"}
    return ToolError(message, reason_code=reason_code, **details)
