"""What is wrong with a client's message, apart from which calls it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from leonidas_tools.live.simulator.wire import CLIENT_FIELDS, Message, fields, is_base64, objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

INVALID: Final = 1007
POLICY: Final = 1008
TOO_BIG: Final = 1009
MEBIBYTE: Final = 1 << 20

_REALTIME_FIELDS: Final = frozenset(
    {
        "activityEnd",
        "activityStart",
        "audio",
        "audioStreamEnd",
        "mediaChunks",
        "text",
        "video",
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Quirks:
    """How a particular server behaves; the defaults are the plain one.

    Args:
        audio_blocked_while_pending: Microphone audio while a BLOCKING call is unanswered closes
            the connection with 1008, as reported of some models.
        refuse_media_chunks: The deprecated `mediaChunks` is refused, as 3.1 does. Upstream
            `LiveProcessor` sends it.
        max_message_bytes: The longest client message; None for no limit. The client's own limit
            for server messages is 1 MiB by default.
        text_frames: Send text frames instead of binary ones.
        default_behavior: What a declaration without `behavior` means: BLOCKING up to Gemini 3.1,
            NON_BLOCKING from 3.8 on.
    """

    audio_blocked_while_pending: bool = False
    refuse_media_chunks: bool = False
    max_message_bytes: int | None = None
    text_frames: bool = False
    default_behavior: str = "BLOCKING"


def field_of(message: Message) -> tuple[str, Message]:
    """The one top-level field of a client's message, and what it holds.

    Raises:
        ValueError: There is not exactly one, or it is unknown, or not an object.

    Example:
        >>> field_of({"tool_response": {"function_responses": []}})
        ('toolResponse', {'functionResponses': []})
    """
    if len(message) != 1:
        names = ", ".join(map(repr, message)) or "none"
        raise ValueError(f"a message has exactly one top-level field; this one has {names}")
    (name, body) = next(iter(message.items()))
    if camel_name(name) not in CLIENT_FIELDS:
        raise ValueError(f"unknown top-level field {name!r}; known are {', '.join(CLIENT_FIELDS)}")
    if not isinstance(body, dict):
        text = f"{name!r} holds an object, not {type(body).__name__}"
        raise ValueError(text)  # noqa: TRY004 -- one kind of error for whatever the wire brings
    return camel_name(name), fields(body)


def camel_name(name: str) -> str:
    """The camel-case name of one field."""
    return next(iter(fields({name: None})))


def complaints(kind: str, body: Message, quirks: Quirks) -> Iterator[str]:
    """What is wrong with the body of a message, one sentence each."""
    if kind == "realtimeInput":
        yield from _realtime_complaints(body, quirks)
    elif kind == "clientContent":
        yield from _content_complaints(body)
    elif kind == "toolResponse" and not objects(body.get("functionResponses")):
        yield "a tool response without functionResponses"


def setup_complaint(body: Message) -> str | None:
    """What is wrong with the setup, if anything."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        return "the setup names no model"
    return None


def response_complaint(response: Message) -> str | None:
    """What is wrong with the form of one function response, if anything.

    Example:
        >>> response_complaint({"id": "c1", "name": "f", "response": [1]})
        "the response to call 'c1' is an object, not list"
    """
    call_id, name = response.get("id"), response.get("name")
    if not isinstance(call_id, str) or not call_id:
        return f"a function response of {name!r} has no id"
    if not isinstance(name, str) or not name:
        return f"the function response to call {call_id!r} has no name"
    if not isinstance(response.get("response"), dict):
        kind = type(response.get("response")).__name__
        return f"the response to call {call_id!r} is an object, not {kind}"
    return None


def _realtime_complaints(body: Message, quirks: Quirks) -> Iterator[str]:
    for name in body.keys() - _REALTIME_FIELDS:
        yield f"unknown field {name!r} in realtimeInput"
    if quirks.refuse_media_chunks and "mediaChunks" in body:
        yield "mediaChunks is deprecated: send audio, video or text"
    for name in ("audio", "video", "mediaChunks"):
        for blob in objects(body.get(name)):
            if not is_base64(blob.get("data")):
                yield f"the data of realtimeInput.{name} is not base64"


def _content_complaints(body: Message) -> Iterator[str]:
    for turn in objects(body.get("turns")):
        parts = objects(turn.get("parts"))
        if all(part.keys() <= {"text", "thought"} and not part.get("text") for part in parts):
            yield "an empty turn: its parts say nothing, yet it interrupts the model"
        for part in parts:
            blob = fields(part.get("inlineData"))
            if blob and not is_base64(blob.get("data")):
                yield "the data of an inlineData part is not base64"


def declarations(tools: Any) -> Mapping[str, str | None]:
    """The functions declared in a list of tools, each with its behavior if it has one.

    Example:
        >>> declarations([{"function_declarations": [{"name": "f", "behavior": "NON_BLOCKING"}]}])
        {'f': 'NON_BLOCKING'}
    """
    return {
        str(function.get("name")): function.get("behavior")
        for tool in objects(tools)
        for function in objects(tool.get("functionDeclarations"))
    }
