"""The level of an error decides how it is logged."""

import logging

import pytest

from leonidas_tools import AdvancedToolProcessor, ToolSession, errors, tool
from leonidas_tools.settings.watch import WatchedSettings

LOGGED_AS = {"tool": "WARNING", "pipeline": "ERROR", "system": "CRITICAL"}
ERRORS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.LeonidasError)
]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_is_logged_at_the_level_of_its_class(kind):
    assert logging.getLevelName(errors.log_level(kind.__new__(kind))) == LOGGED_AS[kind.level]


def test_an_exception_of_others_is_logged_as_one_of_a_tool():
    assert errors.log_level(OSError()) == logging.WARNING


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (OSError("x"), "WARNING"),
        (errors.SessionValueError("x"), "WARNING"),
        (errors.ConfigurationError("x"), "ERROR"),
        (errors.StoreError("x"), "CRITICAL"),
    ],
)
async def test_what_a_tool_raises_is_logged_at_its_level(error, level, caplog):
    @tool(effect="read")
    async def look() -> None:
        """Look."""
        raise error

    await AdvancedToolProcessor([look]).execute("look", {}, session=ToolSession("ana"))
    assert {record.levelname for record in caplog.records if "look" in record.message} == {level}


def test_a_broken_file_of_settings_is_logged_as_an_error_and_is_in_the_health_report(
    tmp_path, caplog
):
    file = tmp_path / "tools.yaml"
    file.write_text("version: 1\n")
    settings = WatchedSettings(file)
    tools = AdvancedToolProcessor([], settings)
    assert tools.monitor.health()["errors"] == []
    file.write_text("version: 1\npolicies: {threads: many}\n")
    with pytest.raises(errors.ConfigurationError):
        settings.reload()
    (found,) = tools.monitor.health()["errors"]
    assert found["level"] == "pipeline"
    assert "policies.threads" in found["message"]
