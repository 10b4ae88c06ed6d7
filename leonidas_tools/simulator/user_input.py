"""Read the user's input from the messages that carry it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from leonidas_tools.simulator.wire import Message, decoded, fields, objects

if TYPE_CHECKING:
    from collections.abc import Iterator

InputKind: TypeAlias = Literal["text", "audio", "video", "activity"]


@dataclass(frozen=True, kw_only=True, slots=True)
class UserInput:
    """Something the user sent.

    Args:
        kind: What it is.
        text: What it says; for an activity its name on the wire, such as `activityStart`.
        data: The bytes of audio or video.
        mime_type: What the bytes are.
        source: The message that brought it.
        role: Whose it is, where the message says so.
    """

    kind: InputKind
    text: str = ""
    data: bytes = field(default=b"", repr=False)
    mime_type: str = ""
    source: Literal["realtimeInput", "clientContent"] = "realtimeInput"
    role: str | None = None


def inputs_in(kind: str, body: Message) -> Iterator[UserInput]:
    """Yield what the user sent with one message.

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
    whose: dict[str, Any] = {"source": "clientContent", "role": role}
    if text := part.get("text"):
        yield UserInput(kind="text", text=str(text), **whose)
    if blob := fields(part.get("inlineData")):
        yield UserInput(**_media(blob), **whose)


def _media(blob: dict[str, Any]) -> dict[str, Any]:
    mime_type = str(blob.get("mimeType", "audio/"))
    kind = "audio" if mime_type.startswith("audio/") else "video"
    return {"kind": kind, "data": decoded(blob.get("data")) or b"", "mime_type": mime_type}
