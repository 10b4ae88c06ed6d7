"""From a message of the server to parts; the same as upstream's `LiveProcessor` makes, and more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genai_processors.content_api import ProcessorPart
from google.genai import types

if TYPE_CHECKING:
    from collections.abc import Iterator

_TRANSCRIPTIONS = ("input_transcription", "output_transcription", "interim_input_transcription")
_OWN_FIELDS = frozenset({"setup_complete", "server_content", "tool_call", "tool_call_cancellation"})
IN_MODEL_TURN = "in_model_turn"
"""Metadata key of a call that came as part of what the model says; it may come once more."""
_OVER = (None, "INTERACTION_STATUS_UNSPECIFIED", "IDLE")


def parts_of(message: types.LiveServerMessage) -> Iterator[ProcessorPart]:
    """Yield what the listener gets of a message.

    What the model says comes as it is; transcriptions as text in a substream of their name; a call
    with its id, in the call and in the metadata; a cancellation as upstream's part for it; all else
    as an empty part with the field in its metadata.

    `turn_complete` is true only where the whole interaction is over: models that say so by an
    `interaction_status` complete turns in pieces.

    Example:
        >>> over = types.LiveServerContent(turn_complete=True, interaction_status="IN_PROGRESS")
        >>> [part.metadata for part in parts_of(types.LiveServerMessage(server_content=over))]
        [{'turn_complete': False, 'interaction_status': 'IN_PROGRESS'}]
    """
    if message.server_content is not None:
        yield from _content(message.server_content)
    if message.tool_call is not None:
        for call in message.tool_call.function_calls or ():
            yield _call(types.Part(function_call=call))
    if message.tool_call_cancellation is not None:
        for identifier in message.tool_call_cancellation.ids or ():
            yield ProcessorPart.from_tool_cancellation(function_call_id=identifier)
    for name in type(message).model_fields:
        value = getattr(message, name)
        if value is not None and name not in _OWN_FIELDS:
            yield _about({name: value.model_dump(mode="json", exclude_none=True)})


def _call(part: types.Part, role: str = "model", **metadata: Any) -> ProcessorPart:
    """Return a part with a call, whose id is also where upstream puts it."""
    call = part.function_call
    assert call is not None
    return ProcessorPart(part, role=role, metadata={"id": call.id, **metadata})


def _content(content: types.LiveServerContent) -> Iterator[ProcessorPart]:
    turn = content.model_turn
    if turn is not None:
        for part in turn.parts or ():
            role = turn.role or "model"
            if part.function_call is None:
                yield ProcessorPart(part, role=role)
            else:
                yield _call(part, role, **{IN_MODEL_TURN: True})
    for name in _TRANSCRIPTIONS:
        said: types.Transcription | None = getattr(content, name)
        if said is not None:
            yield ProcessorPart(
                said.text or "",
                role="model",
                substream_name=name,
                metadata={"finished": True} if said.finished else {},
            )
    if flags := _flags(content):
        yield _about(flags)


def _flags(content: types.LiveServerContent) -> dict[str, Any]:
    if content.model_fields_set <= {"model_turn"}:  # the case of every audio frame
        return {}
    flags = content.model_dump(
        mode="json", exclude_none=True, exclude={"model_turn", *_TRANSCRIPTIONS}
    )
    if flags.get("turn_complete") and flags.get("interaction_status") not in _OVER:
        flags["turn_complete"] = False
    elif flags.get("interaction_status") == "IDLE":
        flags["turn_complete"] = True
    return flags


def _about(metadata: dict[str, Any]) -> ProcessorPart:
    return ProcessorPart("", role="model", metadata=metadata)
