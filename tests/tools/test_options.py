"""The options of a tool are declared once, and everything else follows from that."""

import dataclasses

import pytest

from leonidas_tools.errors import SchemaError
from leonidas_tools.settings.effective import EffectiveOptions, effective_options
from leonidas_tools.settings.models import Settings
from leonidas_tools.settings.tool_configuration import ToolOverrides
from leonidas_tools.tools import metadata
from leonidas_tools.tools.metadata import OPTIONS, ToolMetadata, ToolOptions
from leonidas_tools.tools.tool import Tool

SAMPLES = {
    metadata.parse_backoff: (3, 0.5),
    metadata.parse_category: ("billing", "?"),
    metadata.parse_count: (7, 0),
    metadata.parse_count_or_off: (7, -1),
    metadata.parse_delay: (0.5, -1),
    metadata.parse_failures: (["timeout"], ["denied"]),
    metadata.parse_filler_after: ("median", "mean"),
    metadata.parse_flag: (True, "maybe"),
    metadata.parse_name: ("one", 5),
    metadata.parse_names: (("one", "two"), "one"),
    metadata.parse_resources: ({"num_cpus": 2}, {"num_cpus": -1}),
    metadata.parse_retries: (4, -1),
    metadata.parse_scheduling: ("silent", "later"),
    metadata.parse_seconds: (5, 0),
    metadata.parse_seconds_or_off: (5, -1),
    metadata.parse_text: ("one", 5),
    metadata.parse_timeout: (5, "off"),
}
"""A good and a wrong value for each way to parse an option."""
SETTABLE = [option for option in OPTIONS.values() if option.key]


def search(query: str):
    """Search."""
    yield query


def _good(option):
    if isinstance(option.read, type):
        return next(each.name for each in option.read if each is not option.default)
    return SAMPLES[option.read][0]


def _effective(tool, settings):
    made = Settings.model_validate({"tools": {"search": settings}})
    return effective_options(tool, made.for_tool("search"), made.policies)


def test_no_other_class_declares_an_option():
    names = OPTIONS.keys() | {option.key for option in SETTABLE}
    for other in (ToolMetadata, EffectiveOptions, *ToolOverrides.__mro__[1:]):
        assert not names & vars(other).get("__annotations__", {}).keys()
    assert [each.name for each in dataclasses.fields(ToolOptions)] == list(OPTIONS)
    assert {option.key for option in SETTABLE} < ToolOverrides.model_fields.keys()


@pytest.mark.parametrize("option", SETTABLE, ids=lambda option: option.name)
def test_settings_and_decorator_mean_the_same(option):
    value = _good(option)
    declared = _effective(Tool(search, **{option.name: value}), {})
    configured = _effective(Tool(search), {option.key: value})
    plain = _effective(Tool(search), {})
    assert getattr(declared, option.name) == getattr(configured, option.name)
    assert getattr(declared, option.name) != getattr(plain, option.name)


@pytest.mark.parametrize("option", SETTABLE, ids=lambda option: option.name)
def test_settings_override_the_decorator(option):
    tool = Tool(search, **{option.name: _good(option)})
    off = "off" if option.is_limit else None
    assert (getattr(_effective(tool, {option.key: off}), option.name) is None) is option.is_limit


@pytest.mark.parametrize("option", SETTABLE, ids=lambda option: option.name)
def test_settings_and_decorator_refuse_the_same(option):
    wrong = "no such word" if isinstance(option.read, type) else SAMPLES[option.read][1]
    with pytest.raises(SchemaError):
        Tool(search, **{option.name: wrong})
    with pytest.raises(ValueError, match=option.key):
        Settings.model_validate({"tools": {"search": {option.key: wrong}}})
