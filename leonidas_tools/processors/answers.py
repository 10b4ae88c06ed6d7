"""Parts with the results of calls: function responses, late results and interim responses."""

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
"""Metadata key of the `Scheduling` of the tool that was called, if one is set."""
LATE_RESULT = "late_result"
"""Metadata key that marks the result of a call that has a response already."""
OUTCOME = "outcome"
"""Metadata key that marks the newest result of a call, sent if the model repeats the call."""


def settled_parts(
    executor: Executor, call: ToolCall, result: ToolResult, sinks: tuple[Sink, ...]
) -> tuple[ProcessorPart, ...]:
    """Finish a call that does not run, and return its events and its response as parts."""
    events: list[ProcessorPart] = []
    remember(call, result)
    result = executor.end_unstarted(
        call, result, (*sinks, lambda event: events.append(EventPart(event)))
    )
    return (*events, response_part(call, result))


def response_part(call: ToolCall, result: ToolResult) -> ProcessorPart:
    """Return the function response of a call, with its id and the name that was called.

    It has the tool's scheduling, whether or not the model waits for the response.
    """
    fields: dict[str, Any] = {"response": result.to_response()}
    if result.media:
        fields["parts"] = [_media_part(media) for media in result.media]
    tool = call.tool
    plan = None if tool is None else scheduling_of(tool, call.settings)
    if plan is None:
        return _answer(call, fields)
    return _answer(call, fields, plan, plan.ok if result.ok else plan.error)


def _plan(call: ToolCall) -> Scheduling | None:
    """Return the scheduling of a call's tool, if one is set."""
    return scheduling_of(call.tool, call.settings) if call.tool is not None else None


def late_result_part(call: ToolCall, result: ToolResult) -> ProcessorPart:
    """Return the late result of a call that has a response already, such as `pending_approval`.

    `late_result` in the metadata marks this part. The model does not announce an expired approval,
    because that result is scheduled SILENT.
    """
    part = response_part(call, result)
    part.metadata[LATE_RESULT] = True
    if result.reason_code == "approval_expired":
        part.metadata[SCHEDULING] = Scheduling(late=ToolScheduling.SILENT)
    return part


def outcome_part(call: ToolCall, result: ToolResult) -> ProcessorPart:
    """Return the newest result of a call, which is sent only if the model repeats the call."""
    part = response_part(call, result)
    assert part.part.function_response is not None
    part.part.function_response.scheduling = types.FunctionResponseScheduling.SILENT
    part.metadata[OUTCOME] = True
    return part


def late_result_text(part: ProcessorPart) -> ProcessorPart:
    """Return a late result as text, for a model that accepts no late results."""
    response = part.part.function_response
    assert response is not None
    told = json.dumps({"name": response.name, **(response.response or {})}, ensure_ascii=False)
    text = f"A tool call that was answered before now has a new result: {told}"
    return ProcessorPart(text, role="user", metadata={LATE_RESULT: True})


def progress_part(event: ToolEvent) -> ProcessorPart | None:
    """Return the interim response of a progress event, if the tool's progress is scheduled.

    Its body is `{"status": "running", "message": …, "fraction": …, "result": …}`: `result` has the
    other data of the progress, or the value that a generator has yielded. `dropped` is the number
    of events dropped before it, because events came faster than they were read.
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
    """Return an interim response with the number of responses dropped before it."""
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
