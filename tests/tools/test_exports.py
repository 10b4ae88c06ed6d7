"""Tool definitions for whoever is not Gemini."""

import json
import re
from enum import StrEnum
from typing import Literal

from leonidas_tools import AdvancedToolProcessor, Tool, ToolRegistry, tool
from leonidas_tools.tools.exports import describe, openai_names, openai_tools, prompt_text


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@tool(
    effect="read",
    priority="high",
    tags=["home"],
    timeout_seconds=2,
    fallback_tools=["dim"],
    behavior="non_blocking",
    scheduling={"ok": "silent", "progress": "when_idle"},
    on_cancel="finish",
)
async def light(colour: Colour, room: int | str, kind: Literal["led"] = "led") -> None:
    """Sets a light.

    Args:
        colour: The colour.
        room: Its number or name.
    """


def odd(name):
    return Tool.from_json_schema(
        name=name,
        description="Odd.",
        parameters={
            "type": "object",
            "properties": {"user-id": {"type": ["integer", "null"]}, "any": {}},
            "required": ["user-id"],
        },
        function=lambda **_: None,
    )


def test_all_that_is_known_of_a_tool_is_plain_json():
    registry = ToolRegistry([light])
    described = describe(registry, light)
    assert json.loads(json.dumps(described)) == described
    parameters = described.pop("parameters")
    assert sorted(parameters["properties"]) == ["colour", "kind", "room"]
    assert described == {
        "name": "light",
        "declared_name": "light",
        "description": "Sets a light.",
        "category": "python",
        "priority": "high",
        "effect": "read",
        "status": "active",
        "timeout_seconds": 2,
        "deadline_seconds": None,
        "retry_attempts": None,
        "fallback_tools": ["dim"],
        "dependencies": [],
        "tags": ["home"],
        "behavior": "non_blocking",
        "scheduling": {"ok": "silent", "progress": "when_idle"},
        "on_cancel": "finish",
        "filler_after_seconds": None,
        "filler": None,
        "repeat_after_resume": False,
    }


def test_openai_definitions_have_names_and_parameters_that_openai_takes():
    registry = ToolRegistry([light, odd("a.b/c")])
    definitions = openai_tools(registry, registry)
    assert json.loads(json.dumps(definitions)) == definitions
    assert [d["type"] for d in definitions] == ["function"] * 2
    functions = [d["function"] for d in definitions]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", f["name"]) for f in functions)
    assert functions[0]["parameters"] == light.metadata.parameters
    assert functions[1] == {
        "name": "a_b_c",
        "description": "Odd.",
        "parameters": {
            "type": "object",
            "properties": {"user_id": {"type": ["integer", "null"]}, "any": {}},
            "required": ["user_id"],
        },
    }


def test_openai_names_are_unique_and_lead_back_to_their_tools():
    registry = ToolRegistry([odd("a.b"), odd("a_b"), odd("c.d"), odd("e")])
    found = [d["function"]["name"] for d in openai_tools(registry, registry)]
    assert len(set(found)) == 4
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in found)
    assert [openai_names(registry)[name] for name in found] == ["a.b", "a_b", "c.d", "e"]
    assert found[1:] == ["a_b", "c_d", "e"]


async def test_a_call_by_its_openai_name_is_executed():
    async def now() -> str:
        return "noon"

    tools = AdvancedToolProcessor(tools=[Tool(now, name="clock.now")])
    names = [d["function"]["name"] for d in tools.openai_tools()]
    assert "clock_now" in names
    assert (await tools.execute("clock_now")).result == "noon"


def test_the_text_for_a_prompt_names_each_parameter():
    registry = ToolRegistry([light, odd("odd")])
    assert prompt_text(registry, registry) == (
        "light: Sets a light.\n"
        "  - colour (one of 'red', 'blue', required): The colour.\n"
        "  - room (integer or string, required): Its number or name.\n"
        "  - kind ('led', optional, default \"led\")\n"
        "\n"
        "odd: Odd.\n"
        "  - user_id (integer or null, required)\n"
        "  - any (any, optional)"
    )


def test_the_text_for_a_prompt_has_parameters_that_allow_all_or_nothing():
    parameters = {"properties": {"a": True, "b": {"anyOf": [True, False]}}}
    free = Tool.from_json_schema(
        name="free", description="", parameters=parameters, function=lambda **_: None
    )
    registry = ToolRegistry([free])
    text = "free:\n  - a (any, optional)\n  - b (any or none, optional)"
    assert prompt_text(registry, registry) == text


def test_nothing_is_exported_of_no_tools():
    registry = ToolRegistry()
    assert (openai_tools(registry, registry), prompt_text(registry, registry)) == ([], "")
