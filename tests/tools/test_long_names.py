"""Names without end from a model: the work and the answer are bounded, in a stream and without."""

import json

import pytest
from genai_processors import streams

from leonidas_tools import AdvancedToolProcessor, Tool, tool
from leonidas_tools.tools.registry import ToolRegistry
from tests.promises.faults.play import call

LONG = 100_000_000


@tool(effect="read")
async def get_weather(city: str) -> str:
    """The weather."""
    return city


@pytest.fixture
def compared(monkeypatch):
    """How long the names are that the names of tools are compared with."""
    lengths = []
    suggestions = ToolRegistry.suggestions

    def noting(self, name, *args, **kwargs):
        lengths.append(len(name))
        return suggestions(self, name, *args, **kwargs)

    monkeypatch.setattr(ToolRegistry, "suggestions", noting)
    return lengths


@pytest.mark.parametrize("letter", ["x", "get_weather", "\N{GRINNING FACE}", "\x00"])
async def test_an_unknown_name_of_100_mb_is_answered_in_a_stream(compared, letter):
    tools = AdvancedToolProcessor(tools=[get_weather])
    name = letter * (LONG // len(letter.encode()))
    parts = [part async for part in tools(streams.stream_content([call(name, {}, id="1")]))]
    (answer,) = [part.function_response for part in parts if part.function_response]
    assert answer.response["reason_code"] == "unknown_tool"
    assert max(compared) <= 256
    assert sum(len(part.part.model_dump_json()) for part in parts) < 20_000


async def test_an_unknown_name_of_100_mb_is_answered_without_a_stream(compared):
    result = await AdvancedToolProcessor(tools=[get_weather]).execute("x" * LONG, {})
    assert result.reason_code == "unknown_tool"
    assert max(compared) <= 256
    assert len(json.dumps(result.to_response())) < 10_000


SCHEMA = {
    "type": "object",
    "properties": {"unit": {"enum": ["celsius", "fahrenheit"]}},
    "additionalProperties": False,
}


@tool(effect="read")
async def place(where: dict[str, int]) -> str:
    return "there"


WEATHER = Tool.from_json_schema(
    name="weather", description="It.", parameters=SCHEMA, function=lambda **_: None
)
ENDLESS = "x" * 10_000_000


@pytest.mark.parametrize(
    ("asked", "arguments"),
    [
        (WEATHER, {ENDLESS: 1}),
        (WEATHER, {"unit": ENDLESS}),
        (get_weather, {ENDLESS: 1}),
        (get_weather, {"city": "Lisbon", ENDLESS: 1}),
        (get_weather, {"city": {ENDLESS: 1}}),
        (place, {"where": {ENDLESS: "no number"}}),
    ],
)
async def test_a_long_name_in_the_arguments_is_answered_briefly(asked, arguments):
    result = await AdvancedToolProcessor(tools=[asked]).execute(asked.name, arguments)
    assert result.status == "invalid_argument"
    assert len(json.dumps(result.to_response())) < 10_000
