"""What can be set, and what is refused."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.settings.effective import repeats_after_resume, scheduling_of
from leonidas_tools.settings.load import load
from leonidas_tools.settings.models import (
    AlertRule,
    MCPServerSettings,
    MonitoringSettings,
    Settings,
    ToolConfiguration,
)
from leonidas_tools.tools.metadata import ToolOrigin
from leonidas_tools.tools.tool import (
    OnCancel,
    Scheduling,
    Tool,
    ToolBehavior,
    ToolEffect,
    ToolPriority,
    ToolScheduling,
    ToolStatus,
)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (5, 5.0),
        (0.25, 0.25),
        ("500ms", 0.5),
        ("2s", 2.0),
        ("1.5m", 90.0),
        ("1h", 3600.0),
        (" 3 s ", 3.0),
        ("7", 7.0),
        (".5", 0.5),
        (None, None),
    ],
)
def test_a_duration_is_a_number_of_seconds_or_text_with_a_unit(written, seconds):
    configuration = ToolConfiguration(timeout=written, deadline=written, retry_delay=written)
    assert (configuration.timeout, configuration.deadline, configuration.retry_delay) == (
        seconds,
        seconds,
        seconds,
    )


@pytest.mark.parametrize(
    "written",
    [-1, True, "", "soon", "1d", "-1s", "1:30", float("inf"), float("nan"), "9" * 400],
)
@pytest.mark.parametrize("key", ["timeout", "deadline", "retry_delay", "cache_seconds"])
def test_what_is_not_a_duration_is_refused(key, written):
    with pytest.raises(ValidationError):
        ToolConfiguration(**{key: written})


@given(st.floats(min_value=0.001, max_value=1e9, allow_nan=False))
def test_a_duration_survives_being_dumped_and_loaded(seconds):
    settings = Settings(
        defaults={"timeout": seconds},
        tools={"t": {"deadline": f"{seconds:f}s", "retry_delay": seconds}},
        policies={"default_timeout": seconds},
    )
    assert load(settings.model_dump(mode="json", exclude_unset=True)) == settings
    assert load(settings.model_dump()) == settings


@pytest.mark.parametrize("written", ["High", "HIGH", "high", 2, "2", ToolPriority.HIGH])
def test_a_priority_is_a_number_or_a_name_in_any_case(written):
    assert ToolConfiguration(priority=written).priority is ToolPriority.HIGH


def test_other_choices_are_names_in_any_case():
    configuration = ToolConfiguration(
        status="Maintenance", effect="READ", behavior="non_blocking", on_cancel="Undo"
    )
    assert (
        configuration.status,
        configuration.effect,
        configuration.behavior,
        configuration.on_cancel,
    ) == (
        ToolStatus.MAINTENANCE,
        ToolEffect.READ,
        ToolBehavior.NON_BLOCKING,
        OnCancel.UNDO,
    )


IDLE, SILENT, INTERRUPT = (
    ToolScheduling.WHEN_IDLE,
    ToolScheduling.SILENT,
    ToolScheduling.INTERRUPT,
)


@pytest.mark.parametrize(
    ("written", "own", "holds"),
    [
        (None, None, None),
        (None, Scheduling(ok=IDLE), Scheduling(ok=IDLE)),
        ("When_Idle", None, Scheduling(ok=IDLE, error=IDLE, late=IDLE)),
        (SILENT, None, Scheduling(ok=SILENT, error=SILENT, late=SILENT)),
        ({}, Scheduling(ok=IDLE), Scheduling(ok=IDLE)),
        ({"error": "INTERRUPT"}, None, Scheduling(error=INTERRUPT)),
        (
            {"error": "interrupt", "late": None},
            Scheduling(ok=IDLE, error=IDLE, late=SILENT, progress=SILENT),
            Scheduling(ok=IDLE, error=INTERRUPT, late=SILENT, progress=SILENT),
        ),
        (
            "silent",
            Scheduling(ok=IDLE, progress=IDLE),
            Scheduling(ok=SILENT, error=SILENT, late=SILENT, progress=IDLE),
        ),
        (Scheduling(late=SILENT), None, Scheduling(late=SILENT)),
    ],
)
def test_scheduling_is_one_word_or_one_for_each_answer(written, own, holds):
    tool = Tool(len, scheduling=own)
    assert scheduling_of(tool, ToolConfiguration(scheduling=written)) == holds


@pytest.mark.parametrize(
    ("written", "after"),
    [
        (2, 2.0),
        ("500ms", 0.5),
        ("Median", "median"),
        (" median ", "median"),
        (None, None),
        ("off", False),
    ],
)
def test_silence_is_filled_after_a_while_or_the_usual_time(written, after):
    assert ToolConfiguration(filler_after=written).filler_after == after


@pytest.mark.parametrize("off", [False, 0, "0", "off", " OFF ", "false", "no"])
@pytest.mark.parametrize(
    "key",
    [
        "deadline", "concurrency", "filler_after", "cache_seconds", "stale_if_error",
        "calls_per_turn", "calls_per_minute", "calls_per_session", "max_result_tokens",
    ],
)  # fmt: skip
def test_what_the_defaults_have_set_is_switched_off_for_one_tool(key, off):
    settings = Settings(defaults={key: 5}, tools={"t": {key: off}})
    assert getattr(settings.for_tool("t"), key) is False
    assert getattr(settings.for_tool("u"), key) == 5
    assert Settings(**settings.model_dump(mode="json")) == settings


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("said", [None, False, True])
def test_a_repeated_call_runs_again_where_anybody_says_so_last(own, said):
    tool = Tool(len, repeat_after_resume=own)
    settings = ToolConfiguration(repeat_after_resume=said)
    assert repeats_after_resume(tool, settings) is (own if said is None else said)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("priority", True),
        ("priority", 6),
        ("status", False),
        ("retry_attempts", True),
        ("retry_attempts", -1),
        ("retry_attempts", 21),
        ("retry_attempts", 1.5),
        ("concurrency", -1),
        ("max_result_bytes", 0),
        ("enabled", "perhaps"),
        ("lane", ""),
        ("fallback_tools", "other"),
        ("fallback_tools", [""]),
        ("tags", [1]),
        ("timeout_seconds", 5),
        ("scheduling", "later"),
        ("scheduling", True),
        ("scheduling", ["silent"]),
        ("scheduling", {"okay": "silent"}),
        ("scheduling", {"ok": "later"}),
        ("on_cancel", "ignore"),
        ("on_cancel", True),
        ("timeout", False),
        ("cache_seconds", True),
        ("calls_per_turn", "on"),
        ("filler_after", "mean"),
        ("filler_after", True),
        ("filler_after", float("inf")),
        ("filler_after", [1]),
        ("filler", ""),
        ("filler", 5),
        ("repeat_after_resume", "perhaps"),
        ("environment_specific", {"production": {"environment_specific": {}}}),
        ("environment_specific", {"production": {"timeout": -1}}),
    ],
)
def test_what_makes_no_sense_is_refused(key, value):
    with pytest.raises(ValidationError):
        ToolConfiguration(**{key: value})


def test_default_settings_are_equal_and_share_nothing_that_can_be_changed():
    one, other = Settings(), Settings()
    one.defaults.custom_parameters["key"] = "value"
    one.policies.always["answer"] = None
    assert other == Settings() == Settings(defaults={}, policies={}) != one
    assert other.model_dump(exclude_unset=True) == {}


def test_settings_cannot_be_changed_in_place():
    with pytest.raises(ValidationError):
        Settings().environment = "production"  # type: ignore[misc]  # that is the test


class TestForTool:
    """`Settings.for_tool`."""

    def test_gives_the_identical_object_each_time(self):
        settings = Settings(tools={"a": {"timeout": 1}})
        assert settings.for_tool("a") is settings.for_tool("a")
        assert settings.for_tool("unknown") is settings.for_tool("another")

    def test_lays_the_tool_over_the_defaults_and_the_environment_over_both(self):
        settings = Settings(
            environment="production",
            defaults={
                "timeout": 1,
                "deadline": 10,
                "retry_attempts": 1,
                "environment_specific": {"production": {"retry_attempts": 2, "lane": "d"}},
            },
            tools={
                "a": {
                    "timeout": 2,
                    "concurrency": 5,
                    "environment_specific": {
                        "production": {"concurrency": 7, "lane": "a"},
                        "testing": {"timeout": 99},
                    },
                }
            },
        )
        assert settings.for_tool("a") == ToolConfiguration(
            timeout=2, deadline=10, retry_attempts=2, concurrency=7, lane="a"
        )
        assert settings.for_tool("b") == ToolConfiguration(
            timeout=1, deadline=10, retry_attempts=2, lane="d"
        )

    def test_merges_custom_parameters_by_key(self):
        settings = Settings(
            environment="production",
            defaults={"custom_parameters": {"a": 1, "b": 1, "c": 1}},
            tools={
                "t": {
                    "custom_parameters": {"b": 2, "c": 2},
                    "environment_specific": {"production": {"custom_parameters": {"c": 3}}},
                }
            },
        )
        assert settings.for_tool("t").custom_parameters == {"a": 1, "b": 2, "c": 3}

    def test_merges_scheduling_by_what_is_scheduled(self):
        settings = Settings(
            environment="production",
            defaults={
                "scheduling": {"ok": "silent", "progress": "silent"},
                "environment_specific": {"production": {"scheduling": {"late": "silent"}}},
            },
            tools={
                "a": {"scheduling": "when_idle"},
                "b": {"scheduling": {"ok": None, "error": "interrupt"}},
                "c": {"scheduling": None},
            },
        )
        held = {name: scheduling_of(Tool(len), settings.for_tool(name)) for name in "abcd"}
        assert held == {
            "a": Scheduling(ok=IDLE, error=IDLE, late=SILENT, progress=SILENT),
            "b": Scheduling(error=INTERRUPT, late=SILENT, progress=SILENT),
            "c": Scheduling(late=SILENT),
            "d": Scheduling(ok=SILENT, late=SILENT, progress=SILENT),
        }

    def test_an_explicit_null_gives_a_tool_its_own_value_back(self):
        settings = Settings(defaults={"timeout": 1}, tools={"t": {"timeout": None}})
        assert settings.for_tool("t").timeout is None

    def test_a_tool_switched_off_by_default_can_be_switched_on(self):
        settings = Settings(defaults={"enabled": False}, tools={"t": {"enabled": True}, "u": {}})
        assert settings.for_tool("t").enabled
        assert not settings.for_tool("u").enabled

    def test_a_changed_copy_is_resolved_again(self):
        settings = Settings(
            tools={"t": {"environment_specific": {"production": {"timeout": 1}}}},
        )
        assert settings.for_tool("t").timeout is None
        copied = settings.model_copy(update={"environment": "production"})
        assert copied.for_tool("t").timeout == 1
        assert settings.for_tool("t").timeout is None

    def test_of_a_server_reach_exactly_its_tool_under_any_local_name(self):
        own = {"now": {"timeout": 2, "lane": "l", "name": "clock", "arguments": {"zone": "UTC"}}}
        settings = Settings(
            tools={"now": {"timeout": 1}},
            mcp_servers={"time": {"command": "x", "tools": own}, "other": {"command": "y"}},
        )
        now = ToolOrigin(server="time", tool="now")
        assert settings.for_tool("now") == ToolConfiguration(timeout=1)
        assert settings.for_tool("now", now) == ToolConfiguration(timeout=1, lane="l")
        for called in ("clock", "time__now"):
            held = settings.for_tool(called, now)
            assert held == ToolConfiguration(timeout=2, lane="l")
            assert held is settings.for_tool(called, now)
            assert settings.for_tool(called) == ToolConfiguration()
        for origin in (ToolOrigin(server="other", tool="now"), ToolOrigin(server="x", tool="now")):
            assert settings.for_tool("now", origin) == ToolConfiguration(timeout=1)
            assert settings.for_tool("clock", origin) == ToolConfiguration()

    def test_of_a_servers_tool_are_resolved_again_in_a_copy(self):
        servers = {"time": {"command": "x", "tools": {"now": {"lane": "l"}}}}
        settings, now = Settings(mcp_servers=servers), ToolOrigin(server="time", tool="now")
        assert settings.for_tool("now", now).timeout is None
        copied = settings.model_copy(update={"defaults": ToolConfiguration(timeout=3)})
        assert copied.for_tool("now", now) == ToolConfiguration(timeout=3, lane="l")
        assert settings == Settings(mcp_servers=servers)


class TestMCPServerSettings:
    """`MCPServerSettings`."""

    @pytest.mark.parametrize(
        ("written", "transport"),
        [
            ({"command": "server"}, "stdio"),
            ({"url": "http://localhost/mcp"}, "http"),
            ({"url": "https://localhost/sse"}, "sse"),
            ({"url": "https://localhost/sse/?key=1"}, "sse"),
            ({"url": "https://localhost/sse", "transport": "http"}, "http"),
        ],
    )
    def test_guesses_the_transport(self, written, transport):
        assert MCPServerSettings(**written).transport == transport

    @pytest.mark.parametrize(
        "written",
        [
            {},
            {"command": ""},
            {"command": "a", "url": "http://localhost"},
            {"command": "a", "transport": "http"},
            {"url": "http://localhost", "transport": "stdio"},
            {"url": "localhost:80"},
            {"command": "a", "headers": {"X": "1"}},
            {"url": "http://localhost", "env": {"X": "1"}},
            {"url": "http://localhost", "args": ["x"]},
            {"url": "http://localhost", "cwd": "/"},
            {"url": 5},
        ],
    )
    def test_refuses_what_contradicts_itself_or_does_nothing(self, written):
        with pytest.raises(ValidationError):
            MCPServerSettings(**written)

    @pytest.mark.parametrize(
        "command", ["no-such-program --token hunter2", ["a", "--token", "hunter2"]]
    )
    def test_the_words_of_a_command_line_are_arguments(self, command):
        server = MCPServerSettings(command=command)
        assert server.args == ("--token", "hunter2")
        assert "hunter2" in server.secrets()

    def test_shows_no_secret(self):
        server = MCPServerSettings(command="a", env={"TOKEN": "hunter2"})
        assert "hunter2" not in repr(Settings(mcp_servers={"s": server}))
        assert server.model_dump(mode="json", exclude_unset=True) == {
            "command": "a",
            "env": {"TOKEN": "***"},
            "transport": "stdio",
        }


def test_an_alert_is_taken_back_no_higher_than_it_is_raised():
    AlertRule(name="a", metric="error_rate", above=0.5, clear_below=0.5)
    with pytest.raises(ValidationError, match="clear_below must not be more than above"):
        AlertRule(name="a", metric="error_rate", above=0.5, clear_below=0.6)


def test_alerts_have_names_of_their_own():
    rule = AlertRule(name="a", metric="active", above=1)
    with pytest.raises(ValidationError, match="the same name"):
        MonitoringSettings(alerts=(rule, rule))


def test_settings_can_be_used_in_any_event_loop():
    settings = Settings(tools={"a": {}})

    async def look() -> ToolConfiguration:
        return settings.for_tool("a")

    assert asyncio.run(look()) is asyncio.run(look())


@pytest.mark.parametrize("entry", [5, None, ["shop"], {"shop": {}, "demo": {}}])
def test_an_entry_of_toolboxes_that_is_none_says_what_to_write(entry):
    with pytest.raises(ConfigurationError, match="should be the name of a toolbox, or its name"):
        load({"toolboxes": [entry]})
