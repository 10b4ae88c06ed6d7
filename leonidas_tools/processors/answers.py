"""The parts that carry answers: function responses, late results and interim answers."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

from genai_processors.content_api import ProcessorPart
from google.genai import types

from leonidas_tools.calls.events import EventKind
from leonidas_tools.processors.intake import remember
from leonidas_tools.processors.parts import EventPart, copy_with, made_part
from leonidas_tools.settings.effective import scheduling_of
from leonidas_tools.tools.metadata import Scheduling, ToolScheduling

if TYPE_CHECKING:
    from leonidas_tools.calls.call import Media, ToolCall, ToolResult
    from leonidas_tools.calls.events import Sink, ToolEvent
    from leonidas_tools.runtime.executor import Executor

SCHEDULING = "scheduling"
"""Metadata key of the `Scheduling` of an answer's tool, where anybody has said one."""
LATE_RESULT = "late_result"
"""Metadata key that marks the result of a call that was answered `pending_approval`."""
OUTCOME = "outcome"
"""Metadata key that marks the newest outcome of a call, told if the model makes it again."""


def settled_parts(
    executor: Executor, call: ToolCall, result: ToolResult, sinks: tuple[Sink, ...]
) -> tuple[ProcessorPart, ...]:
    """End a call that does not begin, and return its events and its answer as parts."""
    events: list[ProcessorPart] = []
    remember(call, result)
    result = executor.settle(call, result, (*sinks, lambda event: events.append(EventPart(event))))
    return (*events, response_part(call, result))


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
    inner = copy_with(answer, {**answer.__dict__, "response": response})
    return ProcessorPart(
        copy_with(part.part, {"function_response": inner}),
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
    answer = copy_with(part, {"function_response": copy_with(response, fields)})
    metadata = {} if plan is None else {SCHEDULING: plan}
    return made_part(answer, mimetype, role="user", metadata=metadata)


@functools.cache
def _templates() -> tuple[types.FunctionResponse, types.Part, str]:
    response = types.FunctionResponse(id="", name="", response={})
    part = types.Part(function_response=response)
    return response, part, ProcessorPart(part).mimetype


def _media_part(media: Media) -> types.FunctionResponsePart:
    blob = types.FunctionResponseBlob(mime_type=media.mime_type, data=media.data)
    return types.FunctionResponsePart(inline_data=blob)
