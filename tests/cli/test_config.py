import json

import pytest

from leonidas_tools.cli import config

BROKEN = """\
version: 1
tools:
  get_weather:
    tiemout: 5
  roll_dice:
    timeout: soon
toolboxes: [leonidas_tools.toolboxes.demo]
"""
IDLE = """\
version: 1
toolboxes: [leonidas_tools.toolboxes.demo]
tools:
  get_wether:
    timeout: 5
  roll_dice:
    retry_attempts: 2
    effect: once
"""


MANY = """\
toolboxes: [lt_nowhere, 5, leonidas_tools.toolboxes.demo]
tols: 3
tools:
  get_wether: {tiemout: 3}
  roll_dice: {retry_attempts: 2, effect: once, fallback_tools: [rol]}
  get_weather: {cache_secnds: 3, stale_if_error: 5, fallback_tools: [roll]}
policies:
  rules:
    - {name: a, tools: send_*, decied: deny}
    - {name: b, tools: snd_money, decide: deny}
store: {enabled: maybe}
"""


@pytest.fixture
def check(invoke, tmp_path):
    file = tmp_path / "tools.yaml"

    def run(text, *options):
        file.write_text(text)
        finished = invoke(config.commands(), "check", file, *options)
        return finished.exit_code, finished.stdout.replace(str(file), "tools.yaml"), finished.stderr

    return run


def test_settings_that_are_right_say_so(check):
    code, output, _ = check("version: 1\n")
    assert (code, output) == (0, "tools.yaml: 0 errors, 0 warnings\n")


def test_one_error_is_counted_in_the_singular(check):
    code, _, errors = check("versoin: 1\n")
    assert (code, errors.rpartition(": ")[2]) == (1, "1 error, 0 warnings\n")


def test_the_file_of_the_environment_variable_is_checked(invoke, tmp_path, monkeypatch):
    file = tmp_path / "own.yaml"
    file.write_text("version: 1\n")
    monkeypatch.setenv("LEONIDAS_CONFIG", str(file))
    finished = invoke(config.commands(), "check")
    assert (finished.exit_code, finished.stdout) == (0, f"{file}: 0 errors, 0 warnings\n")


def test_every_mistake_is_reported_with_its_place(check):
    code, output, errors = check(BROKEN)
    assert code == 1
    assert output.splitlines() == [
        "tools.yaml:4: error: tools.get_weather.tiemout: is not a setting; did you mean 'timeout'?",
        (
            "tools.yaml:6: error: tools.roll_dice.timeout: 'soon' is not a duration: "
            "give seconds, or text such as '500ms', '2s', '1m'"
        ),
    ]
    assert errors.endswith("2 errors, 0 warnings\n")


def test_every_wrong_key_is_reported_in_one_run(check):
    code, output, _ = check(MANY, "--json")
    assert code == 1
    assert [(f["severity"], f["line"], f["key"]) for f in json.loads(output)] == [
        ("error", 1, "toolboxes.1"),
        ("error", 2, "tols"),
        ("error", 4, "tools.get_wether.tiemout"),
        ("error", 6, "tools.get_weather.cache_secnds"),
        ("error", 9, "policies.rules.0.decide"),
        ("error", 9, "policies.rules.0.decied"),
        ("error", 11, "store.enabled"),
    ]


def test_a_setting_without_effect_is_reported_with_its_place(check):
    code, output, _ = check(IDLE, "--json")
    assert code == 1
    assert [(f["severity"], f["line"], f["key"]) for f in json.loads(output)] == [
        ("error", 4, "tools.get_wether"),
        ("warning", 7, "tools.roll_dice.retry_attempts"),
    ]


def test_a_toolbox_without_tools_is_a_warning(check, tmp_path):
    (tmp_path / "plain_functions.py").write_text("def greet():\n    return 'hello'\n")
    code, output, errors = check("version: 1\ntoolboxes: [plain_functions]\n")
    assert (code, errors) == (0, "")
    assert "tools.yaml:2: warning: toolboxes.0: The toolbox 'plain_functions' has no" in output


def test_a_function_without_the_decorator_is_a_warning_beside_tools(check, tmp_path):
    (tmp_path / "lt_half_tools.py").write_text(
        "from leonidas_tools import tool\n"
        "def price(item: str) -> int:\n    return _stock(item)\n"
        "def _stock(item):\n    return amount(item)\n"
        "def amount(item):\n    return 4\n"
        "@tool\ndef buy(item: str) -> int:\n    'Buy.'\n    return 1\n"
    )
    code, output, _ = check("version: 1\ntoolboxes: [lt_half_tools]\n")
    assert code == 0
    assert "The toolbox 'lt_half_tools' does not offer 'price': write @tool above" in output
    assert output.count("warning: ") == 1


def test_a_toolbox_without_the_brackets_is_shown_with_them(check):
    code, output, _ = check("version: 1\ntoolboxes: shop\n")
    assert code == 1
    assert output.endswith("'shop' should be a list: write `toolboxes: [shop]`\n")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("lt_shop_tools.py", "write 'lt_shop_tools'"),
        ("./lt_shop_tools.py", "write 'lt_shop_tools'"),
        ("lt_shop_tool", "did you mean 'lt_shop_tools'?"),
    ],
)
def test_a_toolbox_that_is_named_wrongly_is_suggested(check, tmp_path, name, advice):
    (tmp_path / "lt_shop_tools.py").touch()
    code, output, _ = check(f"version: 1\ntoolboxes: [{name}]\n")
    assert code == 1
    assert advice in output


def test_a_toolbox_that_is_missing_is_reported(check):
    code, output, _ = check("version: 1\ntoolboxes: [no_such_module]\n")
    assert code == 1
    assert output.startswith("tools.yaml:2: error: toolboxes.0: ")
    assert "'no_such_module'" in output


def test_the_shipped_settings_are_right(invoke, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    finished = invoke(config.commands(), "check", "--json")
    assert (finished.exit_code, json.loads(finished.stdout)) == (0, [])


def test_the_schema_is_a_json_schema(invoke):
    schema = json.loads(invoke(config.commands(), "schema").stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "mcp_servers" in schema["properties"]


def test_a_tool_without_a_description_is_a_warning(check, tmp_path):
    (tmp_path / "quiet_tools.py").write_text(
        "from leonidas_tools import tool\n\n\n@tool\ndef hum() -> str:\n    return ''\n"
    )
    code, output, _ = check("version: 1\ntoolboxes: [quiet_tools]\n")
    assert code == 0
    assert "warning: tools.hum.description: has no description for the model" in output


def test_what_each_toolbox_can_reach_is_shown_with_its_line(check, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    code, output, _ = check(
        f"toolboxes:\n  - demo\n  - files: {{roots: [{notes}], writable: false}}\n"
        "  - code: {read_only: [/etc/hostname], backend: landlock}\n"
    )
    assert code == 0
    files, python, count = output.splitlines()
    assert files == f"tools.yaml:3: info: toolboxes.1: 'files' can reach: reads {notes}; no network"
    assert python == (
        f"tools.yaml:4: info: toolboxes.2: 'code' can reach: reads and writes {tmp_path}/workspace "
        "(made when it is first used); reads /etc/hostname; runs programs in the sandbox "
        "(backend 'landlock'); no network"
    )
    assert count == "tools.yaml: 0 errors, 0 warnings"


def test_a_root_that_holds_the_settings_is_an_error_with_its_line(check, tmp_path):
    code, output, _ = check(f"version: 1\ntoolboxes:\n  - files:\n      roots: [{tmp_path}]\n")
    assert code == 1
    (line,) = output.splitlines()
    assert line.startswith("tools.yaml:4: error: toolboxes.0.files.roots: ")
    assert "holds, or would hold, the settings file" in line
