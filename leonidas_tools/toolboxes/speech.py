"""Tools for speech: rate, volume, voice, pauses, emphasis."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from leonidas_tools.calls.call import ToolResult
from leonidas_tools.calls.context import ToolContext
from leonidas_tools.results.texts import say
from leonidas_tools.session.speech import SpeechState
from leonidas_tools.tools.tool import Tool, tool

Voice = Literal["Kore", "Puck", "Charon", "Fenrir", "Aoede", "Leda"]


def _result(speech: SpeechState, setting: str, **result: Any) -> ToolResult:
    """Return the result, with a message for the model if the change has no audible effect."""
    return ToolResult(result=result, message=None if speech.is_heard(setting) else say("not_heard"))


@tool(category="speech", effect="idempotent", after_untrusted="allow")
async def set_speech_rate(
    rate: Annotated[float, Field(ge=0.5, le=2.0)], ctx: ToolContext
) -> ToolResult:
    """Speak faster or slower from now on.

    Args:
        rate: 1.0 is the usual pace, 0.5 half as fast, 2.0 twice as fast.
    """
    speech = ctx.session.get(SpeechState)
    previous = speech.current.rate
    return _result(speech, "rate", previous_rate=previous, rate=speech.set(rate=rate).rate)


@tool(category="speech", effect="idempotent", after_untrusted="allow")
async def set_speech_volume(
    volume: Annotated[float, Field(ge=0.0, le=2.0)], ctx: ToolContext
) -> ToolResult:
    """Speak louder or more softly from now on.

    Args:
        volume: 1.0 is the usual loudness, 0.0 is silence.
    """
    speech = ctx.session.get(SpeechState)
    previous = speech.current.volume
    now = speech.set(volume=volume).volume
    return _result(speech, "volume", previous_volume=previous, volume=now)


@tool(category="speech", effect="idempotent", after_untrusted="allow")
async def change_voice(voice: Voice, ctx: ToolContext) -> ToolResult:
    """Speak with another voice from now on.

    Args:
        voice: The name of the voice.
    """
    speech = ctx.session.get(SpeechState)
    previous = speech.current.voice
    return _result(speech, "voice", previous_voice=previous, voice=speech.set(voice=voice).voice)


@tool(category="speech", effect="idempotent", after_untrusted="allow")
async def pause_speech(
    ctx: ToolContext, seconds: Annotated[float, Field(gt=0, le=30)] = 2.0
) -> ToolResult:
    """Pause the speech; it continues afterwards.

    Args:
        seconds: How long to pause.
    """
    speech = ctx.session.get(SpeechState)
    speech.pause(seconds)
    return _result(speech, "paused_until", paused_seconds=seconds)


@tool(category="speech", effect="idempotent", after_untrusted="allow")
async def resume_speech(ctx: ToolContext) -> dict[str, bool]:
    """Continue speaking after a pause."""
    speech = ctx.session.get(SpeechState)
    was_paused = speech.paused_seconds > 0
    speech.resume()
    return {"was_paused": was_paused}


@tool(category="speech", effect="idempotent", after_untrusted="allow")
async def emphasize_text(text: Annotated[str, Field(min_length=1)], ctx: ToolContext) -> ToolResult:
    """Emphasize words the next time they are spoken.

    Args:
        text: The words to emphasize.
    """
    speech = ctx.session.get(SpeechState)
    return _result(speech, "emphasis", emphasis=list(speech.set(emphasis=(text,)).emphasis))


TOOLS: tuple[Tool[..., Any], ...] = (
    set_speech_rate,
    set_speech_volume,
    change_voice,
    pause_speech,
    resume_speech,
    emphasize_text,
)
