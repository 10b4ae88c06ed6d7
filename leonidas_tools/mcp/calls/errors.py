"""What a call of an MCP tool ends with when its server is not there."""

from __future__ import annotations

from leonidas_tools.errors import RetryableError, ToolError
from leonidas_tools.results.texts import say


def server_down(name: str, reason: str) -> RetryableError:
    """The server was not there when it was called: nothing happened.

    Args:
        name: The server's name.
        reason: Why, in a few words.
    """
    return RetryableError(
        say("mcp_server_down", server=name, reason=reason),
        status="unavailable",
        reason_code="mcp_server_down",
    )


def server_lost(name: str, reason: str, *, once: bool) -> ToolError:
    """The server was lost during a call.

    Args:
        name: The server's name.
        reason: Why, in a few words.
        once: Whether the call may change what must not change twice.
    """
    lost = f"The MCP server {name!r} was lost during the call: {reason}"
    if once:
        return _not_known(
            f"{lost}. It is not known whether the call took effect.", "mcp_server_lost"
        )
    return ToolError(
        f"{lost}.", status="unavailable", retryable=True, reason_code="mcp_server_lost"
    )


def malformed_answer(name: str, tool: str, *, once: bool) -> ToolError:
    """The answer to a call cannot be read, or is not what the tool's description says.

    Args:
        name: The server's name.
        tool: The tool's name.
        once: Whether the call may change what must not change twice.
    """
    said = (
        f"The tool {tool!r} of the MCP server {name!r} has run, but answered with something that "
        "its own description does not allow."
    )
    if once:
        return _not_known(f"{said} It is not known what it has done.", "mcp_malformed_answer")
    return ToolError(said, reason_code="mcp_malformed_answer")


def too_long_answer(name: str, tool: str, what: str) -> ToolError:
    """The answer to a call is longer than allowed.

    Args:
        name: The server's name.
        tool: The tool's name.
        what: How long it is.
    """
    return ToolError(
        f"The tool {tool!r} of the MCP server {name!r} has run, but answered with {what}, which is "
        "too long to read. Ask for less of it.",
        reason_code="mcp_answer_too_long",
    )


def task_lost(name: str, tool: str, why: str, *, once: bool) -> ToolError:
    """The server does not know the task any more as which it ran a call.

    Args:
        name: The server's name.
        tool: The tool's name.
        why: What the server says.
        once: Whether the call may change what must not change twice.
    """
    lost = f"The MCP server {name!r} has lost the call of {tool!r}, which it ran as a task: {why}"
    if once:
        return _not_known(f"{lost}. It is not known whether the call took effect.", "mcp_task_lost")
    return ToolError(f"{lost}.", status="unavailable", retryable=True, reason_code="mcp_task_lost")


def task_cancelled(name: str, tool: str, why: str, *, once: bool) -> ToolError:
    """The server has cancelled the task as which it ran a call.

    Args:
        name: The server's name.
        tool: The tool's name.
        why: What the server says, if anything.
        once: Whether the call may change what must not change twice.
    """
    said = f"The MCP server {name!r} has cancelled the call of {tool!r}"
    said = f"{said}: {why}" if why else f"{said}."
    if once:
        return _not_known(
            f"{said.removesuffix('.')}. It is not known what it has done until then.",
            "mcp_task_cancelled",
        )
    return ToolError(said, reason_code="mcp_task_cancelled")


def asks_without_end(name: str, tool: str, rounds: int, *, once: bool) -> ToolError:
    """The server wanted to know more, and more again, instead of answering.

    Args:
        name: The server's name.
        tool: The tool's name.
        rounds: How often it was told.
        once: Whether the call may change what must not change twice.
    """
    said = (
        f"The tool {tool!r} of the MCP server {name!r} has not answered: {rounds} times it was "
        "told what it wanted to know, and it wants to know more still"
    )
    if once:
        return _not_known(f"{said}. It is not known what it has done.", "mcp_asks_without_end")
    return ToolError(f"{said}.", reason_code="mcp_asks_without_end")


def _not_known(said: str, reason_code: str) -> ToolError:
    """Nobody can say what a call has done that must not happen twice."""
    return ToolError(said, status="unknown_outcome", reason_code=reason_code)
