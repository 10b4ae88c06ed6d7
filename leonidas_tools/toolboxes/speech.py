"""How the agent speaks: rate, volume, voice, pauses, emphasis."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from leonidas_tools.context import ToolContext
from leonidas_tools.speech import SpeechState
from leonidas_tools.tool import Tool, tool

Voice = Literal["Kore", "Puck", "Charon", "Fenrir", "Aoede", "Leda"]


@tool(category="speech", effect="idempotent")
async def set_speech_rate(
    rate: Annotated[float, Field(ge=0.5, le=2.0)], ctx: ToolContext
) -> dict[str, float]:
    """Speaks faster or slower from now on.

    Args:
        rate: 1.0 is the usual pace, 0.5 half as fast, 2.0 twice as fast.
    """
    speech = ctx.session.get(SpeechState)
    previous = speech.current.rate
    return {"previous_rate": previous, "rate": speech.set(rate=rate).rate}


@tool(category="speech", effect="idempotent")
async def set_speech_volume(
    volume: Annotated[float, Field(ge=0.0, le=2.0)], ctx: ToolContext
) -> dict[str, float]:
    """Speaks louder or more softly from now on.

    Args:
        volume: 1.0 is the usual loudness, 0.0 is silence.
    """
    speech = ctx.session.get(SpeechState)
    previous = speech.current.volume
    return {"previous_volume": previous, "volume": speech.set(volume=volume).volume}


@tool(category="speech", effect="idempotent")
async def change_voice(voice: Voice, ctx: ToolContext) -> dict[str, str | None]:
    """Speaks with another voice from now on.

    Args:
        voice: The name of the voice.
    """
    speech = ctx.session.get(SpeechState)
    previous = speech.current.voice
    return {"previous_voice": previous, "voice": speech.set(voice=voice).voice}


@tool(category="speech", effect="idempotent")
async def pause_speech(
    ctx: ToolContext, seconds: Annotated[float, Field(gt=0, le=30)] = 2.0
) -> dict[str, float]:
    """Pauses what is being said; it goes on afterwards.

    Args:
        seconds: How long to pause.
    """
    ctx.session.get(SpeechState).pause(seconds)
    return {"paused_seconds": seconds}


@tool(category="speech", effect="idempotent")
async def resume_speech(ctx: ToolContext) -> dict[str, bool]:
    """Goes on speaking after a pause."""
    speech = ctx.session.get(SpeechState)
    was_paused = speech.paused_seconds > 0
    speech.resume()
    return {"was_paused": was_paused}


@tool(category="speech", effect="idempotent")
async def emphasize_text(text: Annotated[str, Field(min_length=1)], ctx: ToolContext) -> Any:
    """Stresses words the next time they are spoken.

    Args:
        text: The words to stress.
    """
    emphasis = ctx.session.get(SpeechState).set(emphasis=(text,)).emphasis
    return {"emphasis": list(emphasis)}


TOOLS: tuple[Tool[..., Any], ...] = (
    set_speech_rate,
    set_speech_volume,
    change_voice,
    pause_speech,
    resume_speech,
    emphasize_text,
)
