"""Tools of the agent about itself: think, change state, stay silent, shut down."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field

from leonidas_tools.calls.context import ToolContext
from leonidas_tools.errors import ToolValidationError
from leonidas_tools.results.texts import say
from leonidas_tools.session.speech import SpeechState
from leonidas_tools.session.state import AgentState
from leonidas_tools.tools.tool import Tool, tool

_MAX_SILENCE_SECONDS = 60.0

Thought = Annotated[str, Field(min_length=1)]


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


@tool(category="action", effect="idempotent", after_untrusted="allow")
async def think(analysis: Thought, reasoning: Thought, plan: Thought) -> dict[str, str]:
    """Think a problem through before acting: use it for anything with more than one step.

    Args:
        analysis: What is asked, and what is known.
        reasoning: What follows from that, and what speaks against it.
        plan: The steps to take, in order.
    """
    thought = {"analysis": analysis, "reasoning": reasoning, "plan": plan}
    for name, text in thought.items():
        if not text.strip():
            raise ToolValidationError(say("empty_thought", name=name), reason_code="empty_text")
    return {**thought, "timestamp": _timestamp(time.time())}


@tool(category="action", effect="once", after_untrusted="allow")
async def change_state(new_state: str, reason: str, ctx: ToolContext) -> dict[str, Any]:
    """Change what the agent is doing, such as `listening`, `thinking` or `working`.

    Args:
        new_state: The state to go to.
        reason: Why, in a few words.
    """
    state = ctx.session.get(AgentState)
    allowed = ctx.parameters.get("allowed_states")
    if allowed:
        state.states = tuple(allowed)
    change = state.change(new_state, reason)
    ctx.undo(state.roll_back)
    return {
        "previous_state": change.previous,
        "new_state": change.new,
        "reason": change.reason,
        "timestamp": _timestamp(change.at),
    }


@tool(category="action", effect="read", lane="off", timeout_seconds=90, polling=True)
async def wait_in_silence(
    ctx: ToolContext,
    seconds: Annotated[float, Field(gt=0, le=_MAX_SILENCE_SECONDS)] = 5.0,
    reason: str = "",
) -> dict[str, Any]:
    """Say nothing for a while, such as when the user wants a moment.

    Args:
        seconds: How long to stay silent.
        reason: Why, in a few words.
    """
    speech = ctx.session.get(SpeechState)
    speech.pause(seconds)
    try:
        await asyncio.sleep(seconds)
    finally:
        speech.resume()
    return {"waited_seconds": seconds, "reason": reason}


@tool(category="action", effect="once", priority="critical")
async def shutdown_system(reason: str, ctx: ToolContext) -> dict[str, Any]:
    """End the session after a last sentence. Only when the user clearly asks for it.

    Args:
        reason: Why the session ends.
    """
    change = ctx.session.get(AgentState).shut_down(reason)
    return {"previous_state": change.previous, "new_state": change.new, "reason": reason}


TOOLS: tuple[Tool[..., Any], ...] = (think, change_state, wait_in_silence, shutdown_system)
