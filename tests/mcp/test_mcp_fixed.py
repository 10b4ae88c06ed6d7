"""Arguments that the settings fix: rules and questions are about the call as it runs."""

import json

import pytest

from leonidas_tools import AdvancedToolProcessor
from leonidas_tools.approvals.request import Decision
from tests.mcp.bench import described

SCHEMA = {
    "type": "object",
    "properties": {"sql": {"type": "string"}, "region": {"type": "string"}},
    "additionalProperties": True,
}
STRICT = {**SCHEMA, "additionalProperties": False}
PROD, ANY = {"region": "prod"}, {"mode": "autonomous"}


def rules(*said, **more):
    return {**ANY, "rules": [{"name": f"r{n}", **each} for n, each in enumerate(said)], **more}


def rule(decide, **when):
    return {"tools": ["a__query"], "decide": decide, "when": when}


ATTACKS = {
    "says nothing": (rules(rule("deny", region={"equals": "prod"})), {}),
    "says another": (rules(rule("deny", region={"equals": "prod"})), {"region": "test"}),
    "says none": (rules(rule("deny", region={"equals": "prod"})), {"region": None}),
    "by a pattern": (rules(rule("deny", region={"matches": "^pr"})), {"region": "test"}),
}


@pytest.mark.parametrize(("policies", "said"), ATTACKS.values(), ids=ATTACKS)
async def test_no_rule_is_got_around_by_a_fixed_argument(bench, policies, said):
    fixed = {"query": {"arguments": PROD}}
    bench.server("a", described("query", inputSchema=SCHEMA), tools=fixed)
    async with bench.processor(policies=policies):
        await bench.ready()
        refused = await bench.call("query", sql="DROP", **said)
        assert (refused.status, refused.reason_code) == ("denied", "denied_by_rule")


@pytest.mark.parametrize("schema", [SCHEMA, STRICT])
async def test_a_question_shows_what_is_fixed_and_hides_what_is_secret(bench, monkeypatch, schema):
    monkeypatch.setenv("QUERY_SPACE", "space-4711-tenant")
    names = ("sql", "region", "password", "space", "pin_code")
    schema = {**schema, "properties": {name: {"type": "string"} for name in names}}
    fixed = {**PROD, "password": "hunter2hunter2", "space": "${QUERY_SPACE}"}
    bench.server("a", described("query", inputSchema=schema), tools={"query": {"arguments": fixed}})
    asked = []

    async def person(request):
        asked.append(request)
        return Decision.approve()

    policies = rules({"tools": ["a__*"], "decide": "ask"}, mode="ask")
    config = {**bench.settings, "policies": policies}
    bench.tools = AdvancedToolProcessor(config=config, approval=person, builtin_tools=False)
    async with bench.tools:
        await bench.ready()
        assert (await bench.call("query", sql="DROP"))["region"] == "prod"
    (request,) = asked
    assert request.details["region"] == "prod"
    assert request.details["sql"] == "DROP"
    shown = str(request.to_json())
    assert "prod" in request.title
    assert [each for each in ("hunter2hunter2", "space-4711") if each in shown] == []


@pytest.mark.parametrize(
    ("edited", "status"),
    [
        ({"sql": "SELECT"}, "ok"),
        ({"sql": "SELECT", "region": "prod"}, "ok"),
        ({"sql": "SELECT", "region": "test"}, "denied"),
    ],
)
async def test_what_is_fixed_is_not_edited_in_an_answer(bench, edited, status):
    bench.server("a", described("query", inputSchema=STRICT), tools={"query": {"arguments": PROD}})

    async def person(request):
        return Decision.edit(edited)

    policies = rules({"tools": ["a__*"], "decide": "ask"}, mode="ask")
    config = {**bench.settings, "policies": policies}
    bench.tools = AdvancedToolProcessor(config=config, approval=person, builtin_tools=False)
    async with bench.tools:
        await bench.ready()
        answer = await bench.tools.execute("query", {"sql": "DROP"})
    assert answer.status == status
    if answer.ok:
        assert json.loads(answer.result["result"]) == {"sql": "SELECT", "region": "prod"}
        assert answer.message == (
            "The user has changed the arguments: sql is SELECT instead of DROP."
        )
