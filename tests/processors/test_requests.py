"""Requests to the stages: parts in, answered in kind, and the stream goes on."""

import json

import pytest
from genai_processors.content_api import ProcessorPart

from leonidas_tools import (
    AdvancedToolProcessor,
    ConfigurationProcessor,
    MonitoringProcessor,
    ResultStatus,
    ToolRegistryProcessor,
    tool_request,
)
from tests.processors.chains import add, add_part, categories, envelopes, registry_of, statuses
from tests.promises.faults.play import audio, call, play


async def asked(chain, *requests):
    """The answers to requests, in order."""
    heard = await play(chain, [*requests, audio(1)])
    assert heard.frames == [1], "the stream goes on after a request"
    found = [part for part in heard.parts if "frame" not in part.metadata]
    assert [part.role for part in found] == ["user"] * len(requests)
    assert [part.mimetype for part in found] == ["application/json"] * len(requests)
    bodies = [json.loads(part.text) for part in found]
    assert [part.metadata["tool_answer"] for part in found] == [b["request"] for b in bodies]
    return bodies


async def test_every_stage_answers_its_requests(chain_of):
    names = [
        "list_tools", "get_configuration", "reload_configuration",
        "get_metrics", "get_history", "get_health", "get_alerts",
    ]  # fmt: skip
    bodies = await asked(chain_of(), *(tool_request(name) for name in names))
    assert [(body["request"], body["status"]) for body in bodies] == [(n, "ok") for n in names]


async def test_the_registry_lists_tools_by_category_and_in_total(chain_of):
    (body,) = await asked(chain_of(), tool_request("list_tools", category="data"))
    listed = body["result"]
    assert [one["name"] for one in listed["tools"]] == ["look_up"]
    assert listed["available"] == ["look_up"]
    assert listed["by_category"] == {"python": 1, "action": 4, "speech": 6, "data": 1}
    assert listed["total"] == 12


async def test_the_metadata_of_one_tool_can_be_asked_for(chain_of):
    (body,) = await asked(chain_of(), tool_request("get_tool", name="add"))
    described = body["result"]
    assert (described["name"], described["category"], described["effect"]) == (
        "add", "python", "read",
    )  # fmt: skip
    assert described["parameters"]["required"] == ["a", "b"]
    assert described["available"] is True


async def test_a_tool_registered_by_a_request_can_be_called_and_taken_out_again(chain_of):
    async def subtract(a: int, b: int) -> int:
        return a - b

    chain = chain_of()
    heard = await play(
        chain,
        [
            tool_request("register_tool", tool=subtract),
            call("subtract", {"a": 3, "b": 1}, id="1"),
        ],
    )
    assert envelopes(heard) == {"1": {"status": "ok", "result": 2, "retryable": False}}
    heard = await play(
        chain, [tool_request("unregister_tool", name="subtract"), call("subtract", {}, id="1")]
    )
    assert statuses(heard) == {"1": "not_found"}


async def test_a_tool_can_be_registered_by_where_it_stands(chain_of):
    chain = chain_of()
    (body,) = await asked(
        chain, tool_request("register_tool", target="leonidas_tools.toolboxes.demo:roll_dice")
    )
    assert body["result"]["name"] == "roll_dice"
    heard = await play(chain, [call("roll_dice", {"sides": 2}, id="1")])
    assert statuses(heard) == {"1": "ok"}


async def test_settings_changed_by_a_request_hold_for_the_next_call(chain_of):
    heard = await play(
        chain_of(),
        [
            add_part("before"),
            tool_request("update_configuration", changes={"tools.add.enabled": False}),
            add_part("after"),
        ],
    )
    assert statuses(heard) == {"before": "ok", "after": "disabled"}


@pytest.mark.parametrize(
    ("request_part", "status"),
    [
        (tool_request("no_such_request"), "not_found"),
        (tool_request("get_tool", name="ad"), "not_found"),
        (tool_request("get_tool", name=["add"]), "invalid_argument"),
        (tool_request("get_tool"), "invalid_argument"),
        (tool_request("get_tool", nome="add"), "invalid_argument"),
        (tool_request("list_tools", query=5), "invalid_argument"),
        (tool_request("list_tools", category="none"), "ok"),
        (tool_request("unregister_tool", name="nobody"), "not_found"),
        (tool_request("register_tool"), "invalid_argument"),
        (tool_request("register_tool", tool=5), "invalid_argument"),
        (tool_request("register_tool", tool=add), "invalid_argument"),
        (tool_request("register_tool", target="no.such.module:f"), "invalid_argument"),
        (tool_request("register_tool", target="json"), "invalid_argument"),
        (tool_request("register_tool", target="json:nothing"), "invalid_argument"),
        (tool_request("register_tool", target="tests.processors.broken:f"), "invalid_argument"),
        (tool_request("register_tool", target=7), "invalid_argument"),
        (tool_request("update_configuration", changes="tools"), "invalid_argument"),
        (tool_request("update_configuration", changes={"tolls": 1}), "invalid_argument"),
        (tool_request("update_configuration", changes=None), "invalid_argument"),
        (tool_request("get_configuration", tool=["x"]), "invalid_argument"),
        (tool_request("get_metrics", tool=["x"]), "invalid_argument"),
        (tool_request("get_history", limit=-1), "invalid_argument"),
        (tool_request("get_history", status=["ok"]), "invalid_argument"),
        (tool_request("get_health", all=True), "invalid_argument"),
    ],
)
async def test_a_bad_request_is_answered_and_the_stream_goes_on(chain_of, request_part, status):
    (body,) = await asked(chain_of(), request_part)
    assert body["status"] == status, body
    if status != "ok":
        assert body["message"]


async def test_history_of_a_status_that_is_none_is_an_error_with_those_there_are(chain_of):
    (body,) = await asked(chain_of(), tool_request("get_history", status="nonsense"))
    options = [status.value for status in ResultStatus]
    assert (body["status"], body["reason_code"]) == ("invalid_argument", "unknown_status")
    assert "There is no status 'nonsense'" in body["message"]
    assert body["valid_options"] == options
    (good,) = await asked(chain_of(), tool_request("get_history", status="timeout"))
    assert (good["status"], good["result"]) == ("ok", [])


def json_request(text):
    return ProcessorPart(text, mimetype="application/json", metadata={"tool_request": True})


@pytest.fixture(params=["ready-made", "by hand"])
def reading_json(request):
    """A chain that may be asked in JSON."""
    if request.param == "ready-made":
        return AdvancedToolProcessor(registry=registry_of(), json_requests=True)
    first = ToolRegistryProcessor(registry_of(), json_requests=True)
    return first + ConfigurationProcessor() + categories() + MonitoringProcessor()


async def test_a_request_in_json_is_answered_where_that_is_allowed(reading_json):
    names = [
        "list_tools", "get_configuration", "get_metrics", "get_history", "get_health", "get_alerts",
    ]  # fmt: skip
    texts = ['{"request": "get_tool", "name": "add"}', *(f'{{"request": "{n}"}}' for n in names)]
    bodies = await asked(reading_json, *map(json_request, texts))
    assert [(body["request"], body["status"]) for body in bodies] == [
        (name, "ok") for name in ("get_tool", *names)
    ]
    assert bodies[0]["result"]["name"] == "add"


async def test_a_request_in_json_is_a_part_like_any_other_where_it_is_not_allowed(chain_of):
    part = json_request('{"request": "get_tool", "name": "add"}')
    heard = await play(chain_of(), [part])
    assert heard.parts == [part]


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "5", "null", '{"name": "add"}', '{"request": null}', '{"request": {}}',
        "[" * 4000, '{"request": "list_tools", "query": "' + "x" * 5000 + '"}',
    ],
)  # fmt: skip
async def test_json_that_is_no_request_is_answered(reading_json, text):
    (body,) = await asked(reading_json, json_request(text))
    assert body["status"] == "not_found"


async def test_a_request_mark_on_a_part_without_text_is_answered(reading_json):
    part = ProcessorPart(b"\0", mimetype="audio/pcm", metadata={"tool_request": True})
    (body,) = await asked(reading_json, part)
    assert body["status"] == "not_found"


@pytest.mark.parametrize(
    ("request_", "options"),
    [
        (tool_request("get_tool", nome="add"), ["name"]),
        (tool_request("get_metrics", tol="add"), ["tool"]),
    ],
)
async def test_a_request_with_wrong_arguments_names_those_there_are(request_, options):
    tools = AdvancedToolProcessor(tools=[add])
    (answer,) = [json.loads(part.text) async for part in tools([request_])]
    assert (answer["status"], answer["valid_options"]) == ("invalid_argument", options)
    assert answer["message"] == (
        f"The request {answer['request']!r} cannot be answered with these arguments."
    )
