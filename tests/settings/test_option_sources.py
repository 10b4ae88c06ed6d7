"""What is effective for a tool is shown with its source, and is what runs."""

import json
from typing import Annotated

import pytest

from leonidas_tools import AdvancedToolProcessor, Secret, Tool, ToolContext, ToolMetadata
from leonidas_tools.settings.load import load
from leonidas_tools.settings.option_sources import effective
from leonidas_tools.tools.metadata import ToolCategory, ToolEffect, ToolOrigin


def search(query: str) -> str:
    """Search."""


def values_of(tool=None, settings=None, **options):
    tool = tool or Tool(search, **options)
    return {each.name: each for each in effective(tool, load(settings or {}))}


def said(value):
    return value.value, value.source, value.key


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (30.0, "default", None)),
        ({"policies": {"default_timeout": 9}}, (9.0, "settings", "policies.default_timeout")),
        ({"defaults": {"timeout": 8}}, (8.0, "settings", "defaults.timeout")),
        (
            {"defaults": {"timeout": 8}, "tools": {"search": {"timeout": 7}}},
            (7.0, "settings", "tools.search.timeout"),
        ),
        (
            {
                "environment": "production",
                "tools": {
                    "search": {
                        "timeout": 7,
                        "environment_specific": {"production": {"timeout": 6}},
                    }
                },
            },
            (6.0, "settings", "tools.search.environment_specific.production.timeout"),
        ),
        (
            {"tools": {"search": {"environment_specific": {"production": {"timeout": 6}}}}},
            (30.0, "default", None),
        ),
    ],
)
def test_the_last_section_that_says_something_is_the_source(settings, expected):
    assert said(values_of(settings=settings)["timeout"]) == expected


def test_the_decorator_is_below_the_settings():
    assert said(values_of(timeout_seconds=5)["timeout"]) == (5, "decorator", None)
    both = values_of(settings={"defaults": {"timeout": 8}}, timeout_seconds=5)
    assert said(both["timeout"]) == (8.0, "settings", "defaults.timeout")


def test_a_limit_that_is_switched_off_is_none_and_says_where():
    settings = {"tools": {"search": {"deadline": "off", "timeout": 3}}}
    values = values_of(settings=settings, deadline_seconds=9)
    assert said(values["deadline"]) == (None, "settings", "tools.search.deadline")


def test_calls_without_a_lane_are_not_shown_as_taking_turns():
    assert values_of()["lane"].note == "calls run one after another"
    assert values_of(effect="read")["lane"].note == "reads run in parallel"
    assert values_of(lane="off")["lane"].note == "calls wait for none"
    assert values_of(settings={"defaults": {"lane": "off"}})["lane"].note == "calls wait for none"


def test_a_cache_that_keeps_nothing_is_not_shown_as_one():
    cached = values_of(settings={"tools": {"search": {"cache_seconds": 60}}})["cache_seconds"]
    assert cached.value is None
    assert cached.note == "nothing is cached, because the effect is 'once'"
    assert values_of(effect="read", cache_seconds=60)["cache_seconds"].value == 60


def test_limits_do_not_hold_for_what_is_critical():
    settings = {"tools": {"search": {"calls_per_turn": 2}}}
    assert values_of(settings=settings)["calls_per_turn"].value == 2
    assert values_of(settings=settings, priority="critical")["calls_per_turn"].value is None


@pytest.mark.parametrize(
    ("policies", "options", "decides"),
    [
        ({}, {}, "runs"),
        ({}, {"requires_approval": True}, "asks first"),
        ({"mode": "read_only"}, {}, "is denied"),
        ({"mode": "read_only"}, {"effect": "read"}, "runs"),
        ({"rules": [{"name": "no", "tools": "search", "decide": "deny"}]}, {}, "is denied"),
        (
            {"rules": [{"name": "a", "tools": "search", "when": {"query": {"equals": "x"}},
                        "decide": "ask"}]},
            {},
            "depends on the arguments or the user",
        ),
    ],
)  # fmt: skip
def test_approval_is_what_the_rules_decide(policies, options, decides):
    assert values_of(settings={"policies": policies}, **options)["approval"].value == decides


def test_secrets_are_shown_by_name_only(monkeypatch):
    def unlock(door: str, code: Annotated[str, Secret], ctx: ToolContext) -> str: ...

    monkeypatch.setenv("WHERE_TO", "x9-Kq77-plmnbvcx")
    parameters = {"api_key": "hunter2hunter2", "floor": 3, "where": "${WHERE_TO}"}
    settings = {"tools": {"unlock": {"custom_parameters": parameters}}}
    values = values_of(Tool(unlock, secrets=["pin"]), settings)
    assert values["secrets"].value == ["code", "pin", "api_key", "where"]
    assert values["custom_parameters"].value == {
        "api_key": "***",
        "floor": 3,
        "where": "${WHERE_TO}",
    }
    shown = json.dumps([each.to_json() for each in values.values()])
    assert "hunter2" not in shown
    assert "x9-Kq77" not in shown


def test_where_a_tool_runs():
    async def wait() -> None: ...

    assert values_of(Tool(wait))["runs"].value == "on the event loop"
    assert values_of()["runs"].value == "in a thread"
    assert values_of(Tool(json.dumps, cpu_bound=True))["runs"].value == "in a process of its own"


def mcp_tool(effect):
    return Tool.from_json_schema(
        name="files__find",
        parameters={"type": "object", "properties": {}},
        function=search,
        category=ToolCategory.MCP,
        effect=effect,
        lane="mcp:files",
        origin=ToolOrigin(server="files", tool="find"),
    )


def test_an_mcp_tool_has_its_effect_from_an_annotation_unless_the_settings_say_another():
    server = {"command": "x", "tools": {"find": {"timeout": 4}}}
    settings = {"mcp_servers": {"files": server}}
    values = values_of(mcp_tool(ToolEffect.READ), settings)
    assert said(values["effect"]) == ("read", "mcp annotation", None)
    assert said(values["timeout"]) == (4.0, "settings", "mcp_servers.files.tools.find.timeout")
    assert values["runs"].value == "on the MCP server 'files'"
    assert values_of(mcp_tool(ToolEffect.ONCE))["effect"].source == "default"
    settings["tools"] = {"files__find": {"effect": "idempotent"}}
    values = values_of(mcp_tool(ToolEffect.READ), settings)
    assert said(values["effect"]) == ("idempotent", "settings", "tools.files__find.effect")


def test_the_code_of_an_mcp_tool_is_not_shown_to_run_on_an_engine():
    settings = {"defaults": {"runs_on": "ray"}}
    assert values_of(mcp_tool(ToolEffect.READ), settings)["runs_on"].value == "here"
    assert values_of(settings=settings)["runs_on"].value == "ray"


def test_every_value_is_plain_json_for_every_built_in_tool():
    for tool in AdvancedToolProcessor().registry:
        json.dumps([each.to_json() for each in effective(tool, load({}))])


def test_every_setting_of_a_tool_is_shown_somewhere():
    from leonidas_tools.settings.tool_configuration import ToolOverrides

    options = {"cache_seconds": 9, "filler_after_seconds": 2, "polling": True, "effect": "read"}
    shown = set(values_of(**options))
    assert set(ToolOverrides.model_fields) - shown == {"enabled"}  # a part of the status
    assert isinstance(Tool(search).metadata, ToolMetadata)
