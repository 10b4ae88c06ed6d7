"""Answers and interim answers: what they carry, and when the model is to speak of them."""

import pytest
from genai_processors.content_api import ProcessorPart
from google.genai import types

from leonidas_tools import Tool, ToolCall, ToolContext, ToolResult
from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.processors.answers import progress_part, response_part
from leonidas_tools.settings.models import ToolConfiguration
from leonidas_tools.tools.tool import Scheduling, ToolScheduling
from tests.policies.runs import tools_of
from tests.promises.faults.play import call as call_part
from tests.promises.faults.play import play

PLAN = {"ok": "when_idle", "error": "interrupt", "late": "silent", "progress": "silent"}


def call(own=None, said=None, **fields) -> ToolCall:
    settings = None if said is None else ToolConfiguration(scheduling=said)
    tool = Tool(len, name="search", scheduling=own)
    return ToolCall(
        name="search", id="1", called_as="search_1", tool=tool, settings=settings, **fields
    )


OK = ToolResult(result=1)
NOTHING = ToolResult.no_results("Nothing.")
FAILED = ToolResult.failed("No.")


@pytest.mark.parametrize(
    ("own", "said", "result", "scheduling"),
    [
        (None, None, OK, None),
        ("when_idle", None, OK, "WHEN_IDLE"),
        ("when_idle", None, FAILED, "WHEN_IDLE"),
        (PLAN, None, OK, "WHEN_IDLE"),
        (PLAN, None, NOTHING, "WHEN_IDLE"),
        (PLAN, None, FAILED, "INTERRUPT"),
        (PLAN, {"error": "silent"}, FAILED, "SILENT"),
        (None, {"error": "silent"}, FAILED, "SILENT"),
        (None, {"error": "silent"}, OK, None),
        ({"progress": "silent"}, None, OK, None),
    ],
)
def test_an_answer_is_scheduled_by_how_the_call_ended(own, said, result, scheduling):
    given = response_part(call(own, said), result).part.function_response

    assert given == types.FunctionResponse(
        id="1", name="search_1", response=result.to_response(), scheduling=scheduling
    )


@pytest.mark.parametrize("own", [None, PLAN])
def test_an_answer_is_the_part_that_upstream_makes_of_a_function_response(own):
    given = response_part(call(own), OK)

    made = ProcessorPart(given.part, role="user", metadata=dict(given.metadata))
    assert type(given) is ProcessorPart
    assert vars(given) == vars(made)
    sent = types.Part(function_response=types.FunctionResponse(**dict(given.function_response)))
    assert given.part.model_dump() == sent.model_dump()
    assert given.part.model_copy(deep=True) == given.part


def test_an_answer_brings_the_whole_plan_for_late_delivery():
    part = response_part(call(PLAN), OK)

    assert part.metadata == {
        "scheduling": Scheduling(
            ok=ToolScheduling.WHEN_IDLE,
            error=ToolScheduling.INTERRUPT,
            late=ToolScheduling.SILENT,
            progress=ToolScheduling.SILENT,
        )
    }
    assert response_part(call(), OK).metadata == {}


def test_an_answer_to_an_unknown_tool_is_not_scheduled():
    part = response_part(ToolCall(name="x", id="1"), FAILED)

    assert part.part.function_response.scheduling is None


def event(call: ToolCall, kind: EventKind = EventKind.PROGRESS, **data) -> ToolEvent:
    return ToolEvent(kind=kind, call=call, data=data)


@pytest.mark.parametrize(
    ("data", "response"),
    [
        ({}, {"status": "running"}),
        ({"message": "Asking"}, {"status": "running", "message": "Asking"}),
        (
            {"message": "Asking", "fraction": 0.5, "asked": "TAP"},
            {
                "status": "running",
                "message": "Asking",
                "fraction": 0.5,
                "result": {"asked": "TAP"},
            },
        ),
        ({"value": {"eur": 640}}, {"status": "running", "result": {"eur": 640}}),
        (
            {"value": 1, "more": 2},
            {"status": "running", "result": {"value": 1, "more": 2}},
        ),
    ],
)
def test_progress_makes_an_interim_answer(data, response):
    part = progress_part(event(call(PLAN), **data))

    assert part.part.function_response == types.FunctionResponse(
        id="1", name="search_1", response=response, will_continue=True, scheduling="SILENT"
    )
    assert (part.role, part.substream_name) == ("user", "")
    assert part.metadata["scheduling"].late is ToolScheduling.SILENT


@pytest.mark.parametrize(
    "unheard",
    [
        event(call(), message="Asking"),
        event(call("when_idle"), message="Asking"),
        event(call(PLAN), EventKind.RETRY, attempt=1),
        event(ToolCall(name="x"), message="Asking"),
    ],
)
def test_unscheduled_progress_makes_no_part(unheard):
    assert progress_part(unheard) is None


async def test_a_stream_schedules_answers_as_the_settings_say():
    async def search(ctx: ToolContext) -> str:
        ctx.progress("Asking")
        return "found"

    tools = tools_of(
        Tool(search, scheduling={"progress": "silent"}),
        tools={"search": {"scheduling": "interrupt"}},
    )
    heard = await play(tools, [call_part("search", id="c1")])

    answers = [p for p in heard.parts if p.part.function_response is not None]
    [answer] = [p for p in answers if not p.get_metadata("tool_event")]
    assert answer.part.function_response.scheduling is types.FunctionResponseScheduling.INTERRUPT
    [progress] = [
        part
        for each in heard.parts
        if each.get_metadata("tool_event") and (part := progress_part(each.event)) is not None
    ]
    assert progress.part.function_response.will_continue is True
