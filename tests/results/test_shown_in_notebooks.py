"""Tools and results show themselves as tables, whose text cannot become markup."""

import pytest

from leonidas_tools import Tool, ToolRegistry, ToolResult, tool
from leonidas_tools.calls.call import Media
from leonidas_tools.results.html import html_table

HOSTILE = "<script>alert(1)</script>"


@tool(effect="read")
def get_weather(city: str, unit: str = "celsius") -> dict:
    """Current weather in a city."""


def test_a_tool_shows_its_effect_and_parameters():
    assert get_weather._repr_html_() == (
        "<table><tr><th>tool</th><th>effect</th><th>parameters</th><th>description</th></tr>"
        "<tr><td>get_weather</td><td>read</td><td>city, unit?</td>"
        "<td>Current weather in a city.</td></tr></table>"
    )


def test_a_registry_shows_a_row_for_each_tool():
    other = Tool.from_json_schema(
        name="other", parameters={"type": "object", "properties": {}}, function=lambda: None
    )
    assert ToolRegistry([get_weather, other])._repr_html_().count("<tr>") == 3


def test_a_result_shows_the_envelope_that_the_model_reads():
    shown = ToolResult(result={"celsius": 21})._repr_html_()
    assert shown == (
        "<table><tr><th>status</th><th>result</th><th>retryable</th></tr>"
        "<tr><td>ok</td><td>{&quot;celsius&quot;: 21}</td><td>false</td></tr></table>"
    )


def test_a_picture_of_a_result_is_shown_below_its_table():
    shown = ToolResult(result=1, media=[Media(mime_type="image/png", data=b"0")])._repr_html_()
    assert shown.endswith('</table><p><img src="data:image/png;base64,MA=="></p>')


@pytest.mark.parametrize(
    "shown",
    [
        ToolResult(result=HOSTILE)._repr_html_(),
        ToolResult(message=HOSTILE)._repr_html_(),
        get_weather.with_options(description=HOSTILE)._repr_html_(),
        get_weather.with_options(name=HOSTILE)._repr_html_(),
        html_table([{HOSTILE: HOSTILE}]),
        ToolResult(media=[Media(mime_type=f"{{source}}{HOSTILE}", data=b"")])._repr_html_(),
        ToolResult(media=[Media(mime_type=f"image/png{HOSTILE}", data=b"")])._repr_html_(),
    ],
)
def test_no_text_becomes_markup(shown):
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown


def test_a_long_text_is_cut():
    assert len(html_table([{"text": "a" * 10_000}])) < 1000


def test_no_rows_are_an_empty_table():
    assert html_table([]) == "<table><tr></tr></table>"
