"""The parts that carry calls, answers and events.

Parts may be built from JSON of a stranger, metadata and all. So the metadata that our stages write
is read by type: what JSON can make (texts, numbers, lists, dictionaries) is never taken for it.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, TypeVar

from genai_processors import context as context_lib
from genai_processors.content_api import ProcessorPart
from google.genai import types
from pydantic import BaseModel

from leonidas_tools.calls.call import ToolCall
from leonidas_tools.calls.events import EventKind
from leonidas_tools.tools.metadata import Scheduling, ToolScheduling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.calls.call import Media, ToolResult
    from leonidas_tools.calls.events import ToolEvent
    from leonidas_tools.runtime.executor import Executor

M = TypeVar("M", bound=BaseModel)

TOOL_CALL = "tool_call"
"""Metadata key of the `ToolCall` that the registry attaches to a part."""
TOOL_EXECUTOR = "tool_executor"
"""Metadata key of the `Executor` that runs it."""
TOOL_CLAIM = "tool_claim"
"""Metadata key of the `Claim` on the call, which all copies of its part share."""
TOOL_EVENT = "tool_event"
"""Metadata key that marks a status part as an event of a call; only a `StatusPart` is one."""
SCHEDULING = "scheduling"
"""Metadata key of the `Scheduling` of an answer's tool, where anybody has said one."""
LATE_RESULT = "late_result"
OUTCOME = "outcome"
"""Metadata key that marks the result of a call that was answered `pending_approval`."""

_ATTACHED = (TOOL_CALL, TOOL_EXECUTOR, TOOL_CLAIM)
_NOTHING: dict[str, Any] = {}


def metadata_of(part: ProcessorPart) -> Mapping[str, Any]:
    """Return the metadata of a part; nothing where it is no dictionary."""
    metadata: object = part.metadata
    # To compare the type first is quicker, here and below: every stage asks this of every part.
    return metadata if type(metadata) is dict or isinstance(metadata, dict) else _NOTHING


def call_id(part: ProcessorPart) -> str | None:
    """Return the id the server gave the call: Live sessions put it into the metadata."""
    call = part.part.function_call
    if call is not None and call.id:
        return call.id
    identifier = metadata_of(part).get("id")
    return identifier if isinstance(identifier, str) and identifier else None


def cancelled_id(part: ProcessorPart) -> str | None:
    """Return the id of the call that the part cancels, if it cancels one."""
    if part.function_response is None:
        return None
    identifier: object = part.tool_cancellation
    return identifier if isinstance(identifier, str) and identifier else None


def attached(part: ProcessorPart) -> ToolCall | None:
    """Return the call that the registry has attached to the part."""
    call = metadata_of(part).get(TOOL_CALL)
    return call if type(call) is ToolCall or isinstance(call, ToolCall) else None


def executor_of(part: ProcessorPart) -> Executor | None:
    """Return what runs the call that the registry has attached to the part."""
    executor = metadata_of(part).get(TOOL_EXECUTOR)
    if executor is None:
        return None
    from leonidas_tools.runtime.executor import Executor

    return executor if type(executor) is Executor or isinstance(executor, Executor) else None


class Claim:
    """The claim of a stage that answers a call."""

    taken = False


def claim(part: ProcessorPart) -> bool:
    """Take the call that the registry has attached to the part, unless another stage has.

    A call is answered by the one stage that takes it. Copies of its part may go several ways, as
    upstream's parallel processors make them.
    """
    claimed = metadata_of(part).get(TOOL_CLAIM)
    if not isinstance(claimed, Claim):
        return True
    was_taken, claimed.taken = claimed.taken, True
    return not was_taken


class CallPart(ProcessorPart):
    """A copy of a function-call part that carries its `ToolCall`, and its id where that belongs.

    Args:
        part: A part with a function call.
        call: The call it stands for.
        executor: What runs it.
    """

    def __init__(self, part: ProcessorPart, call: ToolCall, executor: object) -> None:
        self._original = part.part
        given = metadata_of(part)
        claimed = given.get(TOOL_CLAIM)
        if not isinstance(claimed, Claim):  # else a copy of a part that has one
            claimed = Claim()
        attached = {TOOL_CALL: call, TOOL_EXECUTOR: executor, TOOL_CLAIM: claimed}
        self._metadata = {**given, **attached}
        self._mimetype = part.mimetype
        self._role = part.role
        self._substream_name = part.substream_name

    def pin(self, call: ToolCall) -> None:
        """Put the call in the place of the one it carries."""
        self._metadata[TOOL_CALL] = call

    @functools.cached_property
    def _part(self) -> types.Part:  # type: ignore[override]  # a field of the parent, read lazily
        """Return the part with the id in the call; made when somebody outside our stages looks."""
        call = self._metadata[TOOL_CALL]
        identifier = call.given_id or call.id
        function_call = self._original.function_call
        assert function_call is not None
        if function_call.id == identifier:
            return self._original
        restored = function_call.model_copy(update={"id": identifier})
        return self._original.model_copy(update={"function_call": restored})


def without_call(part: ProcessorPart) -> ProcessorPart:
    """Return the part without what the stages attach to one another's parts."""
    metadata = {k: v for k, v in metadata_of(part).items() if k not in _ATTACHED}
    return ProcessorPart(
        part.part, role=part.role, substream_name=part.substream_name, metadata=metadata
    )


def response_part(call: ToolCall, result: ToolResult) -> ProcessorPart:
    """Return the answer to a call: a function response with its id and the name that was called.

    Its scheduling goes with it, whether or not the model will wait for the
    answer: that depends on the model.
    """
    fields: dict[str, Any] = {"response": result.to_response()}
    if result.media:
        fields["parts"] = [_media_part(media) for media in result.media]
    plan = _plan(call)
    if plan is None:
        return _answer(call, fields)
    return _answer(call, fields, plan, plan.ok if result.ok else plan.error)


def _plan(call: ToolCall) -> Scheduling | None:
    """Return when the model is to hear of a call, where anybody has said it."""
    from leonidas_tools.settings.effective import scheduling_of

    return scheduling_of(call.tool, call.settings) if call.tool is not None else None


def late_result_part(call: ToolCall, result: ToolResult) -> ProcessorPart:
    """Return what has become of a call that was answered `pending_approval`.

    It is no answer, for the call has had its one; it is marked by `late_result` in the metadata. A
    question without an answer in time is not announced.
    """
    part = response_part(call, result)
    part.metadata[LATE_RESULT] = True
    if result.reason_code == "approval_expired":
        part.metadata[SCHEDULING] = Scheduling(late=ToolScheduling.SILENT)
    return part


def outcome_part(call: ToolCall, result: ToolResult) -> ProcessorPart:
    """Return the newest outcome of a call, which is told only if the model makes the call again."""
    part = response_part(call, result)
    assert part.part.function_response is not None
    part.part.function_response.scheduling = types.FunctionResponseScheduling.SILENT
    part.metadata[OUTCOME] = True
    return part


def late_result_text(part: ProcessorPart) -> ProcessorPart:
    """Return the same as text, for a model that takes no results of calls that were answered."""
    response = part.part.function_response
    assert response is not None
    told = json.dumps({"name": response.name, **(response.response or {})}, ensure_ascii=False)
    text = f"A tool call that was answered before has another outcome now: {told}"
    return ProcessorPart(text, role="user", metadata={LATE_RESULT: True})


def progress_part(event: ToolEvent) -> ProcessorPart | None:
    """Return the interim answer of a progress event, where the tool's progress is scheduled.

    Its body is `{"status": "running", "message": …, "fraction": …, "result": …}`: `result` holds
    what else the tool has said of its progress, or the value that a generator has yielded. With
    `dropped`, so many before it were dropped, since they came faster than they were read.

    Returns:
        The part, or `None` where the model is to hear nothing of it.
    """
    call = event.call
    if event.kind is not EventKind.PROGRESS:
        return None
    plan = _plan(call)
    if plan is None or plan.progress is None:
        return None
    response = _running(dict(event.data))
    if event.dropped:
        response["dropped"] = event.dropped
    fields = {"response": response, "will_continue": True}
    return _answer(call, fields, plan, plan.progress)


def with_dropped(part: ProcessorPart, count: int) -> ProcessorPart:
    """Return an interim answer that says that so many before it were dropped."""
    answer = part.part.function_response
    assert answer is not None
    response = {**(answer.response or {}), "dropped": count}
    inner = _like(answer, {**answer.__dict__, "response": response})
    return ProcessorPart(
        _like(part.part, {"function_response": inner}),
        role=part.role,
        substream_name=part.substream_name,
        metadata=dict(part.metadata),
    )


def _running(said: dict[str, Any]) -> dict[str, Any]:
    response: dict[str, Any] = {"status": "running"}
    response |= {key: said.pop(key) for key in ("message", "fraction") if key in said}
    if said:
        response["result"] = said["value"] if said.keys() == {"value"} else said
    return response


def _answer(
    call: ToolCall,
    fields: dict[str, Any],
    plan: Scheduling | None = None,
    when: ToolScheduling | None = None,
) -> ProcessorPart:
    response, part, mimetype = _templates()
    fields["id"] = call.given_id or call.id
    fields["name"] = call.called_as or call.name
    if when is not None:
        fields["scheduling"] = types.FunctionResponseScheduling(when.value)
    answer = _like(part, {"function_response": _like(response, fields)})
    metadata = {} if plan is None else {SCHEDULING: plan}
    return _processor_part(answer, metadata, mimetype)


@functools.cache
def _templates() -> tuple[types.FunctionResponse, types.Part, str]:
    response = types.FunctionResponse(id="", name="", response={})
    part = types.Part(function_response=response)
    return response, part, ProcessorPart(part).mimetype


def _processor_part(part: types.Part, metadata: dict[str, Any], mimetype: str) -> ProcessorPart:
    """Return a part without the type checks of `ProcessorPart`'s constructor."""
    made = object.__new__(ProcessorPart)
    made._part, made._metadata, made._mimetype = part, metadata, mimetype
    made._role, made._substream_name = "user", ""
    return made


def _like(template: M, fields: dict[str, Any]) -> M:
    """Return a copy of a model with other values, which are right already.

    A new model would check them again, for six times as long; `model_copy` copies what is
    replaced here.
    """
    copy = object.__new__(type(template))
    values = template.__dict__.copy()
    values.update(fields)
    _set(copy, "__dict__", values)
    _set(copy, "__pydantic_fields_set__", set(fields))
    _set(copy, "__pydantic_extra__", None)
    _set(copy, "__pydantic_private__", None)
    return copy


_set = object.__setattr__  # a model's own checks what it is given


def _media_part(media: Media) -> types.FunctionResponsePart:
    blob = types.FunctionResponseBlob(mime_type=media.mime_type, data=media.data)
    return types.FunctionResponsePart(inline_data=blob)


class StatusPart(ProcessorPart):
    """A part that tells what happens, made by this library.

    Its metadata can be believed: a part that is built from JSON is never of this class.
    """


def asks_nothing(part: ProcessorPart) -> bool:
    """Return whether a part surely carries no call and no request, which few parts do."""
    return type(part) is EventPart or not part.metadata


class EventPart(StatusPart):
    """An event of a call in the substream `status`; its JSON is written when somebody reads it.

    Args:
        event: What happened.
    """

    # What every reader asks of every part; answered without writing the JSON.
    function_call = None
    function_response = None
    tool_cancellation = None

    _mimetype = "application/json"
    _role = "user"
    _substream_name = context_lib.STATUS_STREAM

    def __init__(self, event: ToolEvent) -> None:  # the parent's would build the part at once
        self.event = event
        self._metadata = {TOOL_EVENT: True}

    def with_dropped(self, count: int) -> EventPart:
        """Return the part of an event that says that so many before it were dropped."""
        return EventPart(self.event.with_dropped(count))

    @functools.cached_property
    def _part(self) -> types.Part:  # type: ignore[override]  # a field of the parent, read lazily
        return types.Part(text=json.dumps(self.event.to_json(), default=str))
