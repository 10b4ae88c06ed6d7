import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import leonidas_tools
from leonidas_tools.cli.app import program
from leonidas_tools.errors import ConfigurationError

PAGES = sorted((Path(leonidas_tools.__file__).parent / "reference").glob("*.md"))

RULES = {
    "version": 1,
    "toolboxes": ["leonidas_tools.toolboxes.demo"],
    "policies": {
        "rules": [
            {
                "name": "much",
                "tools": "send_money",
                "decide": "ask",
                "when": {"amount": {"above": 100}},
            },
            {"name": "ben", "users": "ben", "decide": "deny", "priority": 500},
        ]
    },
}


@pytest.fixture
def policy(tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text(yaml.safe_dump(RULES))

    def run(*arguments):
        return CliRunner().invoke(program(), ["policy", *arguments, "--config", str(file)])

    return run


def test_the_rules_are_listed_the_strongest_first(policy):
    listed = json.loads(policy("list", "--json").stdout)
    assert [(rule["name"], rule["tier"], rule["decide"]) for rule in listed] == [
        ("ben", "file", "deny"),
        ("much", "file", "ask"),
        ("confirming", "builtin", "allow"),
        ("read_only", "builtin", "deny"),
        ("requires_approval", "builtin", "ask"),
        ("risks", "builtin", "ask"),
        ("program_files", "builtin", "ask"),
        ("autonomous", "builtin", "audit"),
        ("autonomous_risks", "builtin", "audit"),
    ]
    assert listed[1]["when"] == {"amount": {"above": 100.0}}
    told = policy("list").stdout
    assert 'tools ["send_money"]; when' in told
    assert told.endswith("Sessions begin in the mode 'ask'.\n")


@pytest.mark.parametrize(
    ("options", "decide", "by"),
    [
        (["amount=500"], "ask", "much"),
        (["amount=5"], "ask", "requires_approval"),
        (["amount=500", "--mode", "autonomous"], "ask", "much"),
        (["amount=5", "--mode", "autonomous"], "audit", "autonomous"),
        (["amount=5", "--mode", "read_only"], "deny", "read_only"),
        (["amount=5", "--user", "ben"], "deny", "ben"),
    ],
)
def test_it_is_said_which_rule_decides(policy, options, decide, by):
    told = json.loads(policy("explain", "send_money", "to=Ana", *options, "--json").stdout)
    assert told["decide"] == decide
    assert [each["rule"] for each in told["rules"] if each["decides"]] == [by]


def test_the_reasons_are_reported_in_order(policy):
    lines = policy("explain", "send_money", "to=Ana", "amount=5").stdout.splitlines()
    assert lines[0] == "send_money asks the user first: rule 'requires_approval', mode 'ask'"
    assert [line.split()[-3:] for line in lines[2:4]] == [
        ["the", "user", "None"],
        ["with", "this", "'amount'"],
    ]
    assert "→  requires_approval" in lines[5]


def test_a_risky_tool_says_how_not_to_ask(tmp_path):
    (tmp_path / "risky_tools.py").write_text(
        "from leonidas_tools import tool\n"
        + "".join(
            f"@tool\ndef {name}(paths: list[str]) -> None:\n    'Act.'\n"
            for name in ("send_report", "move_files")
        )
    )
    file = tmp_path / "tools.yaml"
    file.write_text("toolboxes: [risky_tools]")

    def explained(name, paths):
        call = [name, f"paths={json.dumps(paths)}", "--config", str(file)]
        return CliRunner().invoke(program(), ["policy", "explain", *call]).stdout.splitlines()

    assert explained("send_report", ["a"])[1] == (
        "It asks by default, for its risky name 'send'; "
        "`tools.send_report.requires_approval: false` switches that off."
    )
    assert explained("move_files", ["a"] * 11)[1] == (
        "It asks by default, for its name and number of items; "
        "`tools.move_files.requires_approval: false` switches that off."
    )
    assert "by default" not in "".join(explained("move_files", ["a"] * 10))


def test_a_tool_without_rules_is_allowed(policy):
    told = policy("explain", "get_weather", "city=Lisbon", "--json").stdout
    assert json.loads(told)["decide"] == "allow"
    told = policy("explain", "get_weather", "city=Lisbon").stdout
    assert told.startswith("get_weather runs: no rule, mode 'ask'\n")


def reference(*arguments):
    return CliRunner().invoke(program(), ["policy", "reference", *arguments])


def test_the_pages_of_the_reference_are_listed_with_what_they_are_about():
    lines = reference().stdout.splitlines()
    names = [line.split()[0] for line in lines[1:] if not line.startswith("  ")]
    assert names == [page.stem for page in PAGES]
    assert any(
        line.startswith(" timeout ") and "takes no longer than its timeout" in line
        for line in lines
    )


def test_a_page_of_the_reference_is_markdown_where_there_is_no_terminal():
    page = next(page for page in PAGES if page.stem == "cache")
    assert reference("cache").stdout == page.read_text()


def test_a_page_that_is_not_there_is_reported_with_the_closest():
    finished = reference("cach")
    assert isinstance(finished.exception, ConfigurationError)
    assert str(finished.exception) == "There is no page 'cach': did you mean 'cache'?"
