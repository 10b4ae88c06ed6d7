"""Which silence a tool has filled: the settings say it, else the tool, else nobody."""

import pytest

from leonidas_tools import AdvancedToolProcessor, ToolCall, ToolResult, tool
from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.live.tool_options import Filler, filler_for


@tool(name="look/up")
def plain(key: str) -> str:
    return key


@tool(filler_after_seconds=3, filler="Still looking.")
def patient(key: str) -> str:
    return key


def tools(**settings):
    return AdvancedToolProcessor(
        tools=[plain, patient],
        config={"tools": {"look/up": settings, "patient": settings}},
        builtin_tools=False,
    )


def took(chain, *seconds, kind=EventKind.COMPLETE):
    """Calls that have ended, as the monitor hears of them."""
    for number, each in enumerate(seconds):
        call = ToolCall(name="look/up", tool=plain, id=str(number), number=number)
        chain.monitor(ToolEvent(kind=EventKind.START, call=call))
        chain.monitor(ToolEvent(kind=kind, call=call, result=ToolResult(), seconds=each))


def test_nothing_is_filled_unless_somebody_says_so():
    assert filler_for(tools(), "look_up") is None
    assert filler_for(tools(), "no_such_tool") is None


def test_a_tool_may_say_it():
    assert filler_for(tools(), "patient") == Filler(after_seconds=3, sentence="Still looking.")


def test_a_tool_may_say_that_its_median_counts():
    chain = AdvancedToolProcessor(tools=[plain.with_options(filler_after_seconds="median")])
    took(chain, 4)
    assert filler_for(chain, "look_up") == Filler(after_seconds=4)


@pytest.mark.parametrize("name", ["look_up", "look/up", "patient"])
def test_the_settings_say_it_of_any_tool(name):
    chain = tools(filler_after="1500ms", filler="One moment.")
    assert filler_for(chain, name) == Filler(after_seconds=1.5, sentence="One moment.")


def test_each_setting_stands_alone():
    assert filler_for(tools(filler_after=1), "patient") == Filler(
        after_seconds=1, sentence="Still looking."
    )
    assert filler_for(tools(filler_after=1), "look_up") == Filler(after_seconds=1)


def test_a_reload_holds_at_once():
    chain = tools(filler_after=1)
    chain.settings.update({"tools": {"look/up": {"filler_after": 2}}})
    assert filler_for(chain, "look_up") == Filler(after_seconds=2)


def test_the_median_before_the_first_call_is_two_seconds():
    assert filler_for(tools(filler_after="median"), "look_up") == Filler(after_seconds=2)


def test_the_median_is_that_of_the_calls_that_ran():
    chain = tools(filler_after="median")
    took(chain, 1.5, 4, 30)
    took(chain, 0, 0, 0, 0, 0, kind=EventKind.ERROR)
    took(chain, 0, 0, 0, 0, 0, kind=EventKind.CANCEL)
    assert chain.monitor.median_seconds("look/up") == 4
    assert chain.monitor.median_seconds("patient") is None
    assert filler_for(chain, "look_up") == Filler(after_seconds=4)


def test_the_median_of_a_quick_tool_is_a_second_at_least():
    chain = tools(filler_after="median")
    took(chain, 0.01, 0.02, 0.03)
    assert filler_for(chain, "look_up") == Filler(after_seconds=1)


def test_a_sentence_without_a_time_is_never_said():
    assert filler_for(tools(filler="One moment."), "look_up") is None
