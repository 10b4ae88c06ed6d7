import contextlib
import json
import os
import pty
import re
import subprocess

import pytest

from leonidas_tools.cli import tools
from leonidas_tools.errors import LeonidasError


@pytest.fixture
def run(invoke, settings):
    def run(*arguments):
        return invoke(tools.commands(), *arguments, "--config", settings)

    return run


def names(finished):
    return [tool["name"] for tool in json.loads(finished.stdout)]


def test_the_list_has_the_tools_of_the_settings_and_the_built_in_ones(run):
    finished = run("list")
    assert finished.exit_code == 0
    lines = finished.stdout.splitlines()
    assert lines[0].split() == ["tool", "category", "effect", "status", "description"]
    assert any(line.split()[:4] == ["roll_dice", "python", "read", "active"] for line in lines)
    assert any(line.split()[:2] == ["think", "action"] for line in lines)


def test_the_list_can_be_of_one_category(run):
    assert names(run("list", "--json", "--category", "python")) == [
        "get_weather",
        "roll_dice",
        "search_flights",
        "offer_coin",
        "read_log",
        "send_money",
    ]


def test_the_list_can_be_searched(run):
    assert names(run("list", "--json", "--query", "dice")) == ["roll_dice"]


def test_an_unknown_category_is_an_error_with_those_there_are(run):
    with pytest.raises(
        LeonidasError, match=r"There is no category 'pyton': did you mean 'python'\?"
    ):
        run("list", "--category", "pyton")


def test_a_tool_is_shown_with_its_parameters(run):
    shown = json.loads(run("show", "roll_dice", "--json").stdout)
    assert shown["effect"] == "read"
    assert list(shown["parameters"]["properties"]) == ["sides", "count"]
    assert '"maximum": 100' in run("show", "roll_dice").stdout


def test_a_tool_is_shown_as_it_is_in_effect_with_the_line_that_says_so(run, settings):
    with settings.open("a") as file:
        file.write("tools:\n  roll_dice:\n    timeout: 2s\n    effect: once\n")
    shown = json.loads(run("show", "roll_dice", "--json").stdout)
    assert shown["timeout_seconds"] == 2.0
    assert shown["effect"] == "once"
    assert shown["effective"]["timeout"] == {
        "value": 2.0,
        "source": "settings",
        "key": "tools.roll_dice.timeout",
        "file": str(settings),
        "line": 5,
    }
    text = " ".join(run("show", "roll_dice").stdout.split())
    assert "tools.roll_dice.timeout" in text
    assert "tools.yaml:5" in text.replace(" ", "")


@pytest.mark.parametrize(
    "arguments", [["city=Lisbon", "unit=celsius"], ['{"city": "Lisbon", "unit": "celsius"}']]
)
def test_a_call_prints_the_answer(run, arguments):
    finished = run("call", "get_weather", *arguments, "--json")
    assert finished.exit_code == 0
    assert finished.stdout.count("\n") == 1
    assert json.loads(finished.stdout) == {
        "status": "ok",
        "result": {"city": "Lisbon", "sky": "foggy", "degrees": 9, "unit": "celsius"},
        "retryable": False,
    }


def test_digits_become_numbers(run):
    finished = run("call", "roll_dice", "sides=2", "count=3")
    assert len(json.loads(finished.stdout)["result"]["rolls"]) == 3


def test_a_call_that_is_refused_ends_with_1(run):
    finished = run("call", "roll_dice", "sides=many")
    assert finished.exit_code == 1
    assert json.loads(finished.stdout)["status"] == "invalid_argument"


@pytest.mark.parametrize("argument", ["Lisbon", "=Lisbon", '{"city": '])
def test_arguments_that_are_neither_json_nor_pairs_are_wrong_usage(run, argument):
    finished = run("call", "get_weather", argument)
    assert finished.exit_code == 2
    assert finished.stdout == ""
    assert "Invalid value" in finished.stderr


def test_progress_is_shown_beside_the_answer(run, tmp_path, monkeypatch, settings):
    (tmp_path / "slow_tools.py").write_text(
        "from leonidas_tools import ToolContext, tool\n"
        "@tool\n"
        "async def dig(ctx: ToolContext) -> str:\n"
        "    ctx.progress('Digging', fraction=0.5)\n"
        "    return 'gold'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    settings.write_text("version: 1\ntoolboxes: [slow_tools]\n")
    finished = run("call", "dig")
    assert finished.stderr == "dig: Digging, 50%\n"
    assert json.loads(finished.stdout)["result"] == "gold"


def test_the_list_marks_tools_that_do_not_say_what_they_change(tmp_path, invoke):
    (tmp_path / "mine.py").write_text(
        "from leonidas_tools import tool\n"
        "@tool\ndef silent() -> str:\n    '''Silent.'''\n    return 'x'\n"
        "@tool\ndef said() -> str:\n    '''Said.'''\n    return 'x'\n"
    )
    config = tmp_path / "tools.yaml"
    config.write_text("toolboxes: [mine]\ntools: {said: {effect: read}}\n")
    listed = invoke(tools.commands(), "list", "--category", "python", "--config", config)
    lines = [line for line in listed.stdout.splitlines() if line.strip()]
    assert [line.split()[:4] for line in lines[1:]] == [
        ["said", "python", "read", "active"],
        ["silent", "python", "once", "(undeclared)"],
    ]
    all_lines = invoke(tools.commands(), "list", "--config", config).stdout.splitlines()
    marked = [line.split()[0] for line in all_lines if "(undeclared)" in line]
    assert marked == ["silent"]  # no tool that ships


def test_a_narrow_terminal_shows_whole_names(command, environment, settings):
    ours, theirs = pty.openpty()
    options = command({**environment, "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "50"})
    options["args"] += ["tools", "list", "--config", str(settings)]
    with subprocess.Popen(**options, stdout=theirs) as process, os.fdopen(ours) as terminal:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # a terminal ends so
            while some := os.read(terminal.fileno(), 4096):
                shown += some
        assert process.wait(30) == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
    assert re.search(r"^tool +set_speech_volume\b", plain, re.MULTILINE)
    assert re.search(r"^effect +idempotent\b", plain, re.MULTILINE)
    assert max(map(len, plain.splitlines())) <= 50
