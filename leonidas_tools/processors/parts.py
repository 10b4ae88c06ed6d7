"""The parts that carry calls, answers and events."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, TypeVar

from genai_processors import context as context_lib
from genai_processors.content_api import ProcessorPart
from google.genai import types
from pydantic import BaseModel

from leonidas_tools.tool import ToolBehavior

if TYPE_CHECKING:
    from leonidas_tools.calls import Media, ToolCall, ToolResult
    from leonidas_tools.events import ToolEvent

M = TypeVar("M", bound=BaseModel)

TOOL_CALL = "tool_call"
"""Metadata key of the `ToolCall` that the registry attaches to a part."""
TOOL_EXECUTOR = "tool_executor"
"""Metadata key of the `Executor` that runs it."""
TOOL_EVENT = "tool_event"
"""Metadata key that marks a status part as an event of a call."""


def call_id(part: ProcessorPart) -> str | None:
    """The id the server gave the call: Live sessions put it into the metadata."""
    call = part.part.function_call
    return (call.id if call is not None else None) or part.metadata.get("id")


def attached(part: ProcessorPart) -> ToolCall | None:
    """The call that the registry has attached to the part."""
    return part.metadata.get(TOOL_CALL)


class CallPart(ProcessorPart):
    """A copy of a function-call part that carries its `ToolCall`, and its id where that belongs.

    Args:
        part: A part with a function call.
        call: The call it stands for.
        executor: What runs it.
    """

    def __init__(self, part: ProcessorPart, call: ToolCall, executor: object) -> None:
        self._original = part.part
        self._metadata = {**part.metadata, TOOL_CALL: call, TOOL_EXECUTOR: executor}
        self._mimetype = part.mimetype
        self._role = part.role
        self._substream_name = part.substream_name

    def pin(self, call: ToolCall) -> None:
        """Puts the call in the place of the one it carries."""
        self._metadata[TOOL_CALL] = call

    @functools.cached_property
    def _part(self) -> types.Part:  # type: ignore[override]  # a field of the parent, read lazily
        """The part with the id in the call; made when somebody outside our stages looks."""
        identifier = self._metadata[TOOL_CALL].id
        function_call = self._original.function_call
        assert function_call is not None
        if function_call.id == identifier:
            return self._original
        restored = function_call.model_copy(update={"id": identifier})
        return self._original.model_copy(update={"function_call": restored})


def without_call(part: ProcessorPart) -> ProcessorPart:
    """The part without what the stages attach to one another's parts."""
    metadata = {k: v for k, v in part.metadata.items() if k not in (TOOL_CALL, TOOL_EXECUTOR)}
    return ProcessorPart(
        part.part, role=part.role, substream_name=part.substream_name, metadata=metadata
    )


def response_part(call: ToolCall, result: ToolResult) -> ProcessorPart:
    """The answer to a call: a function response with its id and the name that was called."""
    response, part = _templates()
    fields: dict[str, Any] = {
        "id": call.id,
        "name": call.called_as or call.name,
        "response": result.to_response(),
    }
    if result.media:
        fields["parts"] = [_media_part(media) for media in result.media]
    scheduling = _scheduling(call)
    if scheduling is not None:
        fields["scheduling"] = scheduling
    answer = _like(response, fields)
    return ProcessorPart(_like(part, {"function_response": answer}), role="user")


@functools.cache
def _templates() -> tuple[types.FunctionResponse, types.Part]:
    response = types.FunctionResponse(id="", name="", response={})
    return response, types.Part(function_response=response)


def _like(template: M, fields: dict[str, Any]) -> M:
    """A copy of a model with other values, which are right already.

    A new model would check them again, for six times as long; `model_copy` copies what is
    replaced here.
    """
    kind = type(template)
    copy = kind.__new__(kind)
    object.__setattr__(copy, "__dict__", {**template.__dict__, **fields})
    object.__setattr__(copy, "__pydantic_fields_set__", {*fields})
    object.__setattr__(copy, "__pydantic_extra__", None)
    object.__setattr__(copy, "__pydantic_private__", None)
    return copy


def _media_part(media: Media) -> types.FunctionResponsePart:
    blob = types.FunctionResponseBlob(mime_type=media.mime_type, data=media.data)
    return types.FunctionResponsePart(inline_data=blob)


def _scheduling(call: ToolCall) -> types.FunctionResponseScheduling | None:
    """When the model shall speak of the answer; it is ignored where the model waits for it."""
    if call.tool is None:
        return None
    metadata, settings = call.tool.metadata, call.settings
    behavior = (settings.behavior if settings is not None else None) or metadata.behavior
    if behavior is not ToolBehavior.NON_BLOCKING:
        return None
    scheduling = (settings.scheduling if settings is not None else None) or metadata.scheduling
    return None if scheduling is None else types.FunctionResponseScheduling(scheduling.value)


class EventPart(ProcessorPart):
    """An event of a call in the substream `status`; its JSON is written when somebody reads it.

    Args:
        event: What happened.
    """

    # What every reader asks of every part; answered without writing the JSON.
    function_call = None
    function_response = None
    tool_cancellation = None

    def __init__(self, event: ToolEvent) -> None:  # the parent's would build the part at once
        self.event = event
        self._metadata = {TOOL_EVENT: True}
        self._mimetype = "application/json"
        self._role = "user"
        self._substream_name = context_lib.STATUS_STREAM

    @functools.cached_property
    def _part(self) -> types.Part:  # type: ignore[override]  # a field of the parent, read lazily
        return types.Part(text=json.dumps(self.event.to_json(), default=str))
