"""What the user sent, read from the messages that carry it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from leonidas_tools.live.simulator.wire import Message, fields, objects

if TYPE_CHECKING:
    from collections.abc import Iterator

InputKind: TypeAlias = Literal["text", "audio", "video", "activity"]


@dataclass(frozen=True, kw_only=True, slots=True)
class UserInput:
    """Something the user sent.

    Args:
        kind: What it is.
        text: What it says; for an activity its name on the wire, such as `activityStart`.
    """

    kind: InputKind
    text: str = ""


def inputs_in(kind: str, body: Message) -> Iterator[UserInput]:
    """What the user sent with one message.

    Example:
        >>> list(inputs_in("realtimeInput", {"text": "Hello"}))
        [UserInput(kind='text', text='Hello')]
    """
    if kind == "realtimeInput":
        yield from _realtime_inputs(body)
    elif kind == "clientContent":
        for turn in objects(body.get("turns")):
            for part in objects(turn.get("parts")):
                yield from _part_inputs(part)


def _realtime_inputs(body: Message) -> Iterator[UserInput]:
    if text := body.get("text"):
        yield UserInput(kind="text", text=str(text))
    for name in ("audio", "video", "mediaChunks"):
        for blob in objects(body.get(name)):
            yield _media(blob)
    for name in ("activityStart", "activityEnd", "audioStreamEnd"):
        if name in body:
            yield UserInput(kind="activity", text=name)


def _part_inputs(part: Message) -> Iterator[UserInput]:
    if text := part.get("text"):
        yield UserInput(kind="text", text=str(text))
    if blob := fields(part.get("inlineData")):
        yield _media(blob)


def _media(blob: dict[str, Any]) -> UserInput:
    is_audio = str(blob.get("mimeType", "audio/")).startswith("audio/")
    return UserInput(kind="audio" if is_audio else "video")
