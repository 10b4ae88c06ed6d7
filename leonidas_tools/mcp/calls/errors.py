"""The errors of calls of MCP tools."""

from __future__ import annotations

from leonidas_tools.errors import RetryableError, ToolError
from leonidas_tools.results.texts import MessageText, join, say


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


def task_lost(name: str, tool: str, why: str, *, once: bool) -> ToolError:
    """Return the error of a call whose task no longer exists at the server."""
    message = say("mcp_task_lost", server=name, tool=tool, reason=why)
    return _gone(message, "mcp_task_lost", once=once)


def task_cancelled(name: str, tool: str, why: str, *, once: bool) -> ToolError:
    """Return the error of a call whose task the server cancelled."""
    message = say("mcp_task_cancelled", server=name, tool=tool)
    if why:
        message = say("mcp_task_cancelled_because", server=name, tool=tool, reason=why)
    return _ended(message, "mcp_task_cancelled", once=once)


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
