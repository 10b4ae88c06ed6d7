import json

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
    with pytest.raises(LeonidasError, match="'pyton' is not a ToolCategory; choose one of"):
        run("list", "--category", "pyton")


def test_a_tool_is_shown_with_its_parameters(run):
    shown = json.loads(run("show", "roll_dice", "--json").stdout)
    assert shown["effect"] == "read"
    assert list(shown["parameters"]["properties"]) == ["sides", "count"]
    assert '"maximum": 100' in run("show", "roll_dice").stdout


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


def test_progress_is_told_beside_the_answer(run, tmp_path, monkeypatch, settings):
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
