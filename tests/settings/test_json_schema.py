"""The schema that editors use."""

import functools
from pathlib import Path

import jsonschema
import pytest
import yaml

from leonidas_tools.settings.json_schema import schema_text, settings_schema
from leonidas_tools.settings.load import load
from leonidas_tools.settings.models import Settings
from leonidas_tools.settings.tool_configuration import ToolOverrides

CONFIG = Path(__file__).parents[2] / "config"


@functools.cache
def _validator():
    return jsonschema.Draft202012Validator(settings_schema())


def test_the_file_is_up_to_date():
    assert (CONFIG / "tools.schema.json").read_text() == schema_text(), (
        "write schema_text() to config/tools.schema.json"
    )


def test_the_demos_settings_are_good_and_name_the_schema():
    assert [each.name for each in load(CONFIG / "tools.yaml").toolboxes] == ["demo"]
    text = (CONFIG / "tools.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=tools.schema.json\n")
    jsonschema.validate(yaml.safe_load(text), settings_schema())


@pytest.mark.parametrize(
    ("settings", "good"),
    [
        ({"timeout": "5s"}, True),
        ({"timeout": 5}, True),
        ({"timeout": "${X:-5}"}, True),
        ({"timeout": "soon"}, False),
        ({"priority": "high"}, True),
        ({"priority": "HIGH"}, True),
        ({"priority": 5}, True),
        ({"priority": 6}, False),
        ({"enabled": True}, True),
        ({"enabled": "${X}"}, True),
        ({"enabled": "x"}, False),
        ({"retry_attempts": 20}, True),
        ({"retry_attempts": 21}, False),
        ({"tiemout": 5}, False),
        ({"scheduling": "when_idle"}, True),
        ({"scheduling": {"ok": "SILENT", "late": "silent"}}, True),
        ({"scheduling": {"okay": "silent"}}, False),
        ({"scheduling": {"ok": "later"}}, False),
        ({"scheduling": "later"}, False),
        ({"on_cancel": "undo"}, True),
        ({"on_cancel": "ignore"}, False),
        ({"filler_after": "median"}, True),
        ({"filler_after": "500ms"}, True),
        ({"filler_after": None}, False),
        ({"requires_approval": None}, False),
        ({"custom_parameters": {"limit": None}}, True),
        ({"filler_after": "off"}, True),
        ({"cache_seconds": False, "calls_per_turn": "off"}, True),
        ({"cache_seconds": True}, False),
        ({"timeout": "off"}, False),
        ({"filler_after": "mean"}, False),
        ({"filler_after": 0}, True),
        ({"timeout": 0}, False),
        ({"filler": "One moment."}, True),
        ({"filler": 5}, False),
        ({"repeat_after_resume": True}, True),
        ({"environment_specific": {"production": {"timeout": "1m"}}}, True),
        ({"environment_specific": {"production": {"environment_specific": {}}}}, False),
    ],
)
def test_it_accepts_what_is_accepted(settings, good):
    validator = _validator()
    assert validator.is_valid({"tools": {"t": settings}}) is good


def test_every_setting_is_described():
    schema = settings_schema()
    models = {"Settings": schema, **schema["$defs"]}
    undescribed = [
        f"{model}.{key}"
        for model, described in models.items()
        for key, value in described["properties"].items()
        if not value.get("description")
    ]
    assert undescribed == []
    assert set(schema["properties"]) == {*Settings.model_fields, "mcpServers"}
    assert set(schema["$defs"]["ToolOverrides"]["properties"]) == set(ToolOverrides.model_fields)
