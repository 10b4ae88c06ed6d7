"""The user's input in the messages of a client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from leonidas_tools.simulator.wire import Message, decoded, fields, objects

if TYPE_CHECKING:
    from collections.abc import Iterator

InputKind: TypeAlias = Literal["text", "audio", "video", "activity"]


@dataclass(frozen=True, kw_only=True, slots=True)
class UserInput:
    """One input of the user.

    Args:
        kind: The kind of input.
        text: The text; for an activity its name in the protocol, such as `activityStart`.
        data: The bytes of audio or video.
        mime_type: The format of the bytes.
        source: The kind of message that contained it.
        role: The role of the speaker, if the message has one.
    """

    kind: InputKind
    text: str = ""
    data: bytes = field(default=b"", repr=False)
    mime_type: str = ""
    source: Literal["realtimeInput", "clientContent"] = "realtimeInput"
    role: str | None = None


def inputs_in(kind: str, body: Message) -> Iterator[UserInput]:
    """Yield the user's input in one message.

    Example:
        >>> [(each.kind, each.text) for each in inputs_in("realtimeInput", {"text": "Hello"})]
        [('text', 'Hello')]
    """
    if kind == "realtimeInput":
        yield from _realtime_inputs(body)
    elif kind == "clientContent":
        for turn in objects(body.get("turns")):
            for part in objects(turn.get("parts")):
                yield from _part_inputs(part, turn.get("role"))


def _realtime_inputs(body: Message) -> Iterator[UserInput]:
    if text := body.get("text"):
        yield UserInput(kind="text", text=str(text))
    for name in ("audio", "video", "mediaChunks"):
        for blob in objects(body.get(name)):
            yield UserInput(**_media(blob))
    for name in ("activityStart", "activityEnd", "audioStreamEnd"):
        if name in body:
            yield UserInput(kind="activity", text=name)


def _part_inputs(part: Message, role: Any) -> Iterator[UserInput]:
    origin: dict[str, Any] = {"source": "clientContent", "role": role}
    if text := part.get("text"):
        yield UserInput(kind="text", text=str(text), **origin)
    if blob := fields(part.get("inlineData")):
        yield UserInput(**_media(blob), **origin)


def _media(blob: dict[str, Any]) -> dict[str, Any]:
    mime_type = str(blob.get("mimeType", "audio/"))
    kind = "audio" if mime_type.startswith("audio/") else "video"
    return {"kind": kind, "data": decoded(blob.get("data")) or b"", "mime_type": mime_type}
