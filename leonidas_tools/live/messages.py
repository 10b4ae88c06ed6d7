"""Convert parts to the messages that the client sends."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from google.genai import types

from leonidas_tools.live.input_buffer import REALTIME
from leonidas_tools.live.sound_frames import send_sound

if TYPE_CHECKING:
    from genai_processors.content_api import ProcessorPart
    from google.genai.live import AsyncSession

    from leonidas_tools.live.profiles import ModelProfile

Message: TypeAlias = Callable[["AsyncSession"], Awaitable[None]]
"""A function that sends one message on a session."""


class UnsendableError(ValueError):
    """Raised for a part that cannot be sent; the text does not quote the part."""


def is_input(part: ProcessorPart) -> bool:
    """Return whether a part is in a substream that the model reads."""
    return part.substream_name in ("", REALTIME)


def expects_reply(part: ProcessorPart) -> bool:
    """Return whether the model will reply to this input."""
    if part.substream_name == REALTIME:
        signals = part.get_metadata("activity_start") or part.get_metadata("activity_end")
        return bool(part.part.text or signals)
    return part.get_metadata("turn_complete") is not False


def input_message(part: ProcessorPart, *, takes_content: bool) -> Message:
    """Return the message for a part of the user's input.

    In the substream `realtime`: audio, video, text, and the signals `audio_stream_end`,
    `activity_start` and `activity_end` in the metadata. In the default substream: content, with
    `turn_complete` in the metadata.
    """
    if takes_content and part.substream_name != REALTIME:
        return _content(part)
    return _realtime(part)


def answers_message(responses: Sequence[types.FunctionResponse]) -> Message:
    """Return one message with all these function responses."""
    return lambda session: session.send_tool_response(function_responses=responses)


def tools_message(tools: Sequence[types.Tool]) -> Message:
    """Return a message that declares other tools for the rest of the session."""
    declared: list[Any] = list(tools)
    return lambda session: session.send_context_update(tools=declared)


def outcomes_message(
    outcomes: Sequence[types.FunctionResponse],
    profile: ModelProfile,
    *,
    heading: str,
    silent: bool,
) -> Message:
    """Return a message with results of calls unknown to the connection, as conversation text."""

    async def send(session: AsyncSession) -> None:
        lines = [
            json.dumps({"id": o.id, "name": o.name, "response": o.response}, ensure_ascii=False)
            for o in outcomes
        ]
        text = "\n".join([heading, *lines])
        if not profile.client_content:
            await session.send_realtime_input(text=text)
            return
        media = [part for outcome in outcomes for part in _media(outcome)]
        content = types.Content(role="user", parts=[types.Part(text=text), *media])
        await session.send_client_content(turns=content, turn_complete=not silent)

    return send


def _media(outcome: types.FunctionResponse) -> list[types.Part]:
    """Return the images and the audio of a result."""
    blobs = [part.inline_data for part in outcome.parts or () if part.inline_data is not None]
    return [
        types.Part(inline_data=types.Blob(data=blob.data, mime_type=blob.mime_type))
        for blob in blobs
    ]


def _realtime(part: ProcessorPart) -> Message:
    if part.get_metadata("audio_stream_end"):
        return lambda session: session.send_realtime_input(audio_stream_end=True)
    if part.get_metadata("activity_start"):
        return lambda session: session.send_realtime_input(activity_start=types.ActivityStart())
    if part.get_metadata("activity_end"):
        return lambda session: session.send_realtime_input(activity_end=types.ActivityEnd())
    blob = part.part.inline_data
    if blob is None:
        return _text(part.part.text)
    if (blob.mime_type or "").startswith("image/"):
        return lambda session: session.send_realtime_input(video=blob)
    return lambda session: send_sound(session, blob)


def _text(text: str | None) -> Message:
    async def send(session: AsyncSession) -> None:
        if not text:
            raise UnsendableError("an input part has no text, audio or image")
        await session.send_realtime_input(text=text)

    return send


def _content(part: ProcessorPart) -> Message:
    if part.part.text == "":  # only the end of a turn: an empty part would be a turn of its own
        return lambda session: session.send_client_content(turn_complete=True)
    content = types.Content(parts=[part.part], role=part.role or "user")
    complete = part.get_metadata("turn_complete") is not False
    return lambda session: session.send_client_content(turns=content, turn_complete=complete)
