"""Reading settings: every bad file gets a clear answer."""

import itertools
import sys
from pathlib import Path

import pytest

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.settings.load import load
from leonidas_tools.settings.models import Settings, ToolConfiguration
from leonidas_tools.tools.metadata import OPTIONS

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

MERGES = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: *{before}, {name}: [*{before}, *{before}]}}\n"
    for before, name in itertools.pairwise("abcdefghijklmnop")
)


def tool(lines: str) -> str:
    return "tools:\n  search:\n" + "".join(f"    {line}\n" for line in lines.splitlines())


BAD_FILES = {
    "empty": ("", None, None, "is empty"),
    "only white space": ("\n  \n", None, None, "is empty"),
    "only comments": ("# nothing\n", None, None, "is empty"),
    "null": ("null\n", None, None, "is empty"),
    "a list": ("- tools\n", None, None, "should be a mapping"),
    "text": ("tools\n", None, None, "should be a mapping"),
    "a binary file": ("\x00\x01", None, None, "is not YAML"),
    "a tab": ("tools:\n\tsearch: {}\n", 2, None, "indent with spaces"),
    "a tab in the first line": ("\ttools: {}\n", 1, None, "indent with spaces"),
    "an open bracket": ("tools: {search: {timeout: 5\n", 2, None, "'{' is not closed"),
    "an open quote": (
        "tools:\n  search:\n    lane: 'x\n",
        4,
        None,
        "a quotation mark is not closed; it begins on line 3",
    ),
    "a variable between brackets": (
        "tools:\n  search: {timeout: ${WAIT}}\n",
        2,
        None,
        "put '${WAIT}' in quotes",
    ),
    "a colon in a text": ("tools:\n  search: a: b\n", 2, None, "put the text in quotes"),
    "another indentation": ("tools:\n  search: {}\n find: {}\n", 3, None, "indented differently"),
    "half a line": ("tools:\n  search:\n    timeo", 2, "tools.search", "should be a mapping"),
    "two documents": ("version: 1\n---\nversion: 1\n", 2, None, "several documents"),
    "an unknown alias": ("tools: *nothing\n", 1, None, "begins with '*'"),
    "an alias to itself": ("tools: &a {x: *a}\n", 1, None, "refers to itself"),
    "aliases that multiply": (BOMB, None, None, "when its aliases are expanded"),
    "merges that multiply": (MERGES, None, None, "when its aliases are expanded"),
    "too deep": ("[" * 200_000, 1, None, "levels deep"),
    "deeper than brackets": ("- " * 60_000, 1, None, "levels deep"),
    "variables that do not end": ("[${A" * 50_000, 1, None, "is not closed"),
    "a Python object": ("tools: !!python/name:os.system {}\n", 1, "tools", "has no meaning here"),
    "a key twice": ("tools: {}\nversion: 1\ntools: {}\n", 3, "tools", "defined twice"),
    "a tool twice": ("tools:\n  a: {}\n  a: {}\n", 3, "tools.a", "defined twice"),
    "a number for a key": ("tools:\n  1: {}\n", 2, "tools", "put it in quotes"),
    "a list for a key": ("tools:\n  [a]: {}\n", 2, "tools", "keys are text"),
    "an unknown section": ("tool: {}\n", 1, "tool", "did you mean 'tools'?"),
    "an unlike section": ("xyz: {}\n", 1, "xyz", "choose from 'defaults', 'environment'"),
    "a misspelt key": (tool("tiemout: 5"), 3, "tools.search.tiemout", "did you mean 'timeout'?"),
    "the name it has in Python": (
        tool("timeout_seconds: 5"),
        3,
        "tools.search.timeout_seconds",
        "did you mean 'timeout'?",
    ),
    "a misspelt answer to schedule": (
        tool("scheduling:\n  errror: silent"),
        4,
        "tools.search.scheduling.errror",
        "did you mean 'error'?",
    ),
    "an unknown word for an answer": (
        tool("scheduling:\n  ok: later"),
        4,
        "tools.search.scheduling.ok",
        "'later' is not one of 'silent', 'when_idle', 'interrupt'",
    ),
    "an unknown word for all answers": (
        tool("scheduling: later"),
        3,
        "tools.search.scheduling",
        "'later' is not one of 'silent', 'when_idle', 'interrupt'",
    ),
    "an unknown end of a cancelled call": (
        tool("on_cancel: ignore"),
        3,
        "tools.search.on_cancel",
        "'ignore' is not one of 'stop', 'finish', 'undo'",
    ),
    "a filler after no time": (
        tool("filler_after: mean"),
        3,
        "tools.search.filler_after",
        "'mean' is neither a duration, such as 2 or '500ms', nor 'median'",
    ),
    "a misspelt key of an environment": (
        tool("environment_specific:\n  production:\n    enable: true"),
        5,
        "tools.search.environment_specific.production.enable",
        "did you mean 'enabled'?",
    ),
    "nested environments": (
        tool("environment_specific:\n  production:\n    environment_specific: {}"),
        5,
        "tools.search.environment_specific.production.environment_specific",
        "is not a setting",
    ),
    "a list of tools": ("tools: [search]\n", 1, "tools", "should be a mapping"),
    "a tool that is text": ("tools:\n  a: 5s\n", 2, "tools.a", "should be a mapping"),
    "no duration": (tool("timeout: soon"), 3, "tools.search.timeout", "'soon' is not a duration"),
    "a boolean duration": (tool("timeout: true"), 3, "tools.search.timeout", "not a duration"),
    "a negative duration": (tool("timeout: -1"), 3, "tools.search.timeout", "greater than 0"),
    "an endless duration": (tool("timeout: .inf"), 3, "tools.search.timeout", "finite"),
    "too many retries": (tool("retry_attempts: 21"), 3, "tools.search.retry_attempts", "20"),
    "a wrong effect": (
        tool("effect: write"),
        3,
        "tools.search.effect",
        "'write' is not one of 'read', 'idempotent', 'once'",
    ),
    "text for a list": (tool("tags: a"), 3, "tools.search.tags", "should be a list"),
    "a wrong item": (tool("tags:\n  - a\n  - 5"), 5, "tools.search.tags.1", "put it in quotes"),
    "nothing for a number": ("policies:\n  threads:\n", 2, "policies.threads", "is empty"),
    "another version": ("version: 2\n", 1, "version", "write 1"),
    "a wrong boolean": (tool("enabled: maybe"), 3, "tools.search.enabled", "neither true nor"),
    "a server without anything": (
        "mcp_servers:\n  time: {}\n",
        2,
        "mcp_servers.time",
        "either a command to start or a url",
    ),
    "a misspelt key of a server": (
        "mcp_servers:\n  time:\n    comand: x\n",
        3,
        "mcp_servers.time.comand",
        "did you mean 'command'?",
    ),
    "a number for a header": (
        "mcp_servers:\n  a:\n    url: http://localhost\n    headers:\n      X: 1\n",
        5,
        "mcp_servers.a.headers.X",
        "put it in quotes",
    ),
    "an incomplete alert": (
        "monitoring:\n  alerts:\n    - name: a\n      metric: active\n",
        3,
        "monitoring.alerts.0.above",
        "is missing",
    ),
    "a wrong metric": (
        "monitoring:\n  alerts:\n    - {name: a, metric: errors, above: 1}\n",
        3,
        "monitoring.alerts.0.metric",
        "'errors' is not one of 'error_rate'",
    ),
    "a variable that is not set": (
        tool("lane: ${LEONIDAS_TEST_NOTHING}"),
        3,
        "tools.search.lane",
        "environment variable 'LEONIDAS_TEST_NOTHING' is not set",
    ),
    "an open variable": (tool("lane: ${OPEN"), 3, "tools.search.lane", "$${ for a plain"),
}


@pytest.mark.parametrize(("text", "line", "key", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_refused_with_its_place(tmp_path, text, line, key, message):
    path = tmp_path / "tools.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    error = caught.value
    assert error.file == str(path)
    assert error.key == key
    assert message in str(error)
    if line is not None:
        assert error.line == line
        assert str(error).startswith(f"{path}:{line}: ")


class TestUnreadable:
    """Files that cannot be read at all."""

    def refused(self, path: Path) -> str:
        with pytest.raises(ConfigurationError) as caught:
            load(path)
        assert caught.value.file == str(path)
        return caught.value.message

    def test_a_missing_file(self, tmp_path):
        assert "there is no such file" in self.refused(tmp_path / "none.yaml")

    def test_a_directory(self, tmp_path):
        assert "is a directory" in self.refused(tmp_path)

    def test_a_path_through_a_file(self, tmp_path):
        (tmp_path / "file").write_text("")
        assert "there is no such file" in self.refused(tmp_path / "file" / "tools.yaml")

    def test_a_link_to_itself(self, tmp_path):
        (tmp_path / "tools.yaml").symlink_to(tmp_path / "tools.yaml")
        assert "cannot be read" in self.refused(tmp_path / "tools.yaml")

    def test_a_file_without_permission(self, tmp_path, permissions_bind):
        path = tmp_path / "tools.yaml"
        path.write_text("version: 1")
        path.chmod(0)
        assert "cannot be read" in self.refused(path)

    def test_another_encoding(self, tmp_path):
        path = tmp_path / "tools.yaml"
        path.write_bytes(b"version: 1\nenvironment: caf\xe9\n")
        with pytest.raises(ConfigurationError, match="is not UTF-8") as caught:
            load(path)
        assert caught.value.line == 2

    def test_a_huge_file(self, tmp_path):
        path = tmp_path / "tools.yaml"
        path.write_bytes(b"#" * 5_000_000)
        assert "is larger than" in self.refused(path)


def test_all_problems_are_reported_together_in_the_order_of_the_file():
    text = tool("timeout: soon\neffect: write") + "version: 3\nmcp_servers:\n  x: {}\n"
    with pytest.raises(ConfigurationError) as caught:
        load_text(text)
    assert (caught.value.line, caught.value.key) == (3, "tools.search.timeout")
    assert [line.split(": ")[1] for line in str(caught.value).splitlines()] == [
        "tools.search.timeout",
        "tools.search.effect",
        "version",
        "mcp_servers.x",
    ]


def load_text(text: str) -> Settings:
    from leonidas_tools.settings.load import read_settings

    return read_settings(text, Path("tools.yaml"))


class TestVariables:
    """`${NAME}` in values."""

    @pytest.fixture(autouse=True)
    def _variables(self, monkeypatch):
        monkeypatch.setenv("LEONIDAS_TEST", "value")
        monkeypatch.setenv("LEONIDAS_NUMBER", "7")
        monkeypatch.setenv("LEONIDAS_EMPTY", "")
        monkeypatch.delenv("LEONIDAS_NOTHING", raising=False)

    @pytest.mark.parametrize(
        ("written", "lane"),
        [
            ("${LEONIDAS_TEST}", "value"),
            ("a-${LEONIDAS_TEST}-${LEONIDAS_NUMBER}", "a-value-7"),
            ("${LEONIDAS_NOTHING:-other}", "other"),
            ("${LEONIDAS_EMPTY:-other}", "other"),
            ("x${LEONIDAS_EMPTY}", "x"),
            ("${LEONIDAS_TEST:-other}", "value"),
            ("$${LEONIDAS_TEST}", "${LEONIDAS_TEST}"),
            ("$LEONIDAS_TEST", "$LEONIDAS_TEST"),
        ],
    )
    def test_are_replaced_by_the_environment(self, written, lane):
        assert load({"tools": {"t": {"lane": written}}}).for_tool("t").lane == lane

    def test_fill_numbers_durations_choices_and_booleans(self):
        configuration = load(
            {
                "tools": {
                    "t": {
                        "timeout": "${LEONIDAS_NUMBER}",
                        "deadline": "${LEONIDAS_NUMBER}m",
                        "retry_attempts": "${LEONIDAS_NUMBER}",
                        "enabled": "${LEONIDAS_NOTHING:-off}",
                        "priority": "${LEONIDAS_NOTHING:-low}",
                        "concurrency": "${LEONIDAS_EMPTY:-off}",
                        "requires_approval": "${LEONIDAS_NOTHING:-true}",
                        "custom_parameters": {"text": "${LEONIDAS_NUMBER}"},
                    }
                }
            }
        ).for_tool("t")
        assert configuration == ToolConfiguration(
            timeout=7,
            deadline=420,
            retry_attempts=7,
            enabled=False,
            priority="low",
            concurrency=False,
            requires_approval=True,
            custom_parameters={"text": "7"},
        )

    def test_are_not_replaced_in_keys(self):
        assert "${X}" in load({"tools": {"${X}": {}}}).tools

    def test_the_interpreter_is_the_running_one_unless_set(self, monkeypatch):
        source = {"mcp_servers": {"s": {"command": "${LEONIDAS_PYTHON}"}}}
        monkeypatch.delenv("LEONIDAS_PYTHON", raising=False)
        assert load(source).mcp_servers["s"].command == sys.executable
        monkeypatch.setenv("LEONIDAS_PYTHON", "other")
        assert load(source).mcp_servers["s"].command == "other"

    @pytest.mark.parametrize(
        "settings",
        [
            {"tools": {"t": {key: "${LEONIDAS_SECRET}"}}}
            for key in (
                "timeout", "retry_attempts", "priority", "enabled", "effect", "tags", "status",
                "concurrency", "custom_parameters",
            )
        ]
        + [
            {"version": "${LEONIDAS_SECRET}"},
            {"tools": "${LEONIDAS_SECRET}"},
            {"monitoring": {"prometheus_port": "${LEONIDAS_SECRET}"}},
            {"monitoring": {"alerts": [{"name": "a", "metric": "${LEONIDAS_SECRET}", "above": 1}]}},
            {"mcp_servers": {"s": {"url": "${LEONIDAS_SECRET}"}}},
            {"mcp_servers": {"s": {"command": "a", "headers": {"A": "${LEONIDAS_SECRET}"}}}},
            {"mcp_servers": {"s": {"command": "a", "transport": "${LEONIDAS_SECRET}"}}},
        ],
    )  # fmt: skip
    def test_an_error_never_shows_a_value_of_the_environment(self, settings, monkeypatch):
        monkeypatch.setenv("LEONIDAS_SECRET", "hunter2")
        with pytest.raises(ConfigurationError) as caught:
            load(settings)
        assert "hunter2" not in str(caught.value)
        assert caught.value.__context__ is None
        assert caught.value.__cause__ is None


class TestSources:
    """What settings can be read from."""

    def test_nothing_gives_the_defaults(self):
        assert load(None) == Settings()

    def test_settings_are_taken_as_they_are(self):
        settings = Settings(environment="testing")
        assert load(settings) is settings

    def test_a_file_with_a_byte_order_mark_and_windows_line_ends(self, tmp_path):
        path = tmp_path / "tools.yaml"
        path.write_bytes(b"\xef\xbb\xbfversion: 1\r\nenvironment: caf\xc3\xa9\r\n")
        assert load(str(path)) == Settings(environment="café")

    def test_leonidas_env_overrides_the_environment(self, monkeypatch):
        monkeypatch.setenv("LEONIDAS_ENV", "production")
        source = {
            "environment": "development",
            "defaults": {"environment_specific": {"production": {"timeout": 1}}},
        }
        assert load(source).environment == "production"
        assert load(source).for_tool("any").timeout == 1
        assert load(None).environment == "production"
        monkeypatch.setenv("LEONIDAS_ENV", "")
        assert load(source).environment == "development"

    def test_a_mapping_stays_as_it_was(self, monkeypatch):
        monkeypatch.setenv("LEONIDAS_ENV", "production")
        source = {"tools": {"t": {"lane": "$${x}"}}}
        load(source)
        assert source == {"tools": {"t": {"lane": "$${x}"}}}

    def test_a_mapping_may_hold_models(self):
        configuration = ToolConfiguration(timeout=1)
        assert load({"tools": {"t": configuration}}).for_tool("t").timeout == 1


def test_yaml_is_read_as_version_1_2():
    text = (
        "tools:\n  on:\n    custom_parameters: {a: no, b: 1:30, c: 2020-01-01, d: 010, e: 0x1f}\n"
    )
    assert load_text(text).for_tool("on").custom_parameters == {
        "a": "no",
        "b": "1:30",
        "c": "2020-01-01",
        "d": 10,
        "e": 31,
    }


EMPTY = [
    "tools",
    "policies",
    "policies.rules",
    "policies.rules.0.tools",
    "policies.rules.0.when.amount.equals",
    "policies.always",
    "tools.pay",
    "tools.pay.enabled",
    "tools.pay.requires_approval",
    "tools.pay.environment_specific.development",
    "tools.pay.custom_parameters.limit",
    "toolboxes",
    "toolboxes.0.files",
    "toolboxes.0.files.roots",
    "toolboxes.0.files.roots.0",
    "mcp_servers.mail",
    "mcp_servers.mail.exclude",
    "mcp_servers.mail.tools.send.arguments",
    "mcpServers.mail.args",
    "texts.disabled",
]


@pytest.mark.parametrize("key", EMPTY)
@pytest.mark.parametrize("value", ["", "~", "null"])
def test_an_empty_value_is_refused_with_its_line(key, value):
    if value and key.endswith(("equals", "limit")):
        return  # any value is one, also none
    text, indent = "version: 1\n", ""
    for step in key.split("."):
        text += f"{indent}-\n" if step.isdigit() else f"{indent}{step}:\n"
        indent += "  "
    with pytest.raises(ConfigurationError) as caught:
        load_text(text.rstrip("\n") + f" {value}\n")
    found = [(each.key, each.line, each.message) for each in caught.value.problems]
    message = "is empty: give it a value, or remove the line"
    assert (key, text.count("\n"), message) in [(k, n, m.split("\n")[0]) for k, n, m in found]


@pytest.mark.parametrize("matched", ["tools: []", "users: []", "when: {}"])
def test_a_rule_without_conditions_names_none(matched):
    with pytest.raises(ConfigurationError, match="is empty: name at least one"):
        load_text(f"policies: {{rules: [{{name: a, decide: allow, {matched}}}]}}\n")


@pytest.mark.parametrize("bound", ["above", "below", "count_above"])
def test_an_empty_bound_is_refused(monkeypatch, bound):
    monkeypatch.setenv("LT_MOST", "")
    when = f"{{amount: {{equals: 1, {bound}: '${{LT_MOST}}'}}}}"
    with pytest.raises(ConfigurationError, match=f"{bound}: .*is empty"):
        load_text(f"policies: {{rules: [{{name: a, decide: allow, when: {when}}}]}}\n")


OPTIONAL = [
    *(f"tools.pay.{key}" for key in ToolConfiguration.model_fields if key != "description"),
    "defaults.calls_per_session",
    "tools.pay.environment_specific.production.after_untrusted",
    "mcp_servers.mail.max_tools",
    "mcp_servers.mail.tools.send.effect",
    "policies.after_untrusted",
    "policies.calls.at_once",
    "policies.calls.per_session",
    "policies.concurrency",
    "store.url",
    "usage.session.tokens",
    "usage.user_day.cost",
]


@pytest.mark.parametrize("key", OPTIONAL)
def test_an_empty_variable_sets_and_unsets_nothing(monkeypatch, key):
    monkeypatch.setenv("LT_EMPTY", "")
    data = "${LT_EMPTY}"
    for step in reversed(key.split(".")):
        data = {step: data}
    with pytest.raises(ConfigurationError) as caught:
        load(data)
    assert key in [each.key for each in caught.value.problems]


EMPTY_VALUES = {
    "[]": {"retry_on", "fallback_tools", "tags"},
    "{}": {"resources", "scheduling"},
    '""': {"description"},
}


@pytest.mark.parametrize("value", ["[]", "{}", '""', "~", "-1", ".nan"])
def test_a_value_that_is_none_is_refused_with_its_line(value):
    options = {each.key for each in OPTIONS.values() if each.key}
    for key in options - EMPTY_VALUES.get(value, set()):
        with pytest.raises(ConfigurationError) as caught:
            load_text(f"tools:\n  pay:\n    {key}: {value}\n")
        assert (caught.value.key, caught.value.line) == (f"tools.pay.{key}", 3)


def test_null_is_a_value_where_any_value_is():
    settings = load_text(
        "tools: {pay: {custom_parameters: {limit: null}}}\n"
        "policies: {rules: [{name: a, decide: deny, when: {to: {equals: null}}}]}\n"
    )
    assert settings.for_tool("pay").custom_parameters == {"limit": None}
    assert settings.policies.rules[0].when["to"].equals is None


def test_merge_keys_and_anchors_work():
    text = (
        "tools:\n  a: &a\n    timeout: 1\n    lane: x\n"
        "  b:\n    <<: *a\n    timeout: 2\n  c:\n    <<: [{timeout: 3}, *a]\n  d: *a\n"
    )
    settings = load_text(text)
    assert {name: (t.timeout, t.lane) for name, t in settings.tools.items()} == {
        "a": (1, "x"),
        "b": (2, "x"),
        "c": (3, "x"),
        "d": (1, "x"),
    }


def test_a_merge_of_something_else_is_refused():
    with pytest.raises(ConfigurationError, match="'<<' must be a mapping"):
        load_text("tools:\n  b:\n    <<: 5\n")
