"""Rules beside the tools there are."""

import pytest

from leonidas_tools import Tool
from leonidas_tools.settings.check import check_rules
from leonidas_tools.settings.load import load


def send(to: str, amount: float, files: list[str]) -> None: ...
def look(query: str) -> None: ...


TOOLS = {
    "send": Tool(send, tags=["money"]),
    "look": Tool(look, effect="read"),
}


def found(*rules, **more):
    settings = load({**more, "policies": {"rules": list(rules), **more.pop("policies", {})}})
    return [
        (each.severity, each.key, each.message)
        for each in check_rules(settings, TOOLS, more_may_come=bool(settings.mcp_servers))
    ]


def rule(name="r", decide="ask", **more):
    return {"name": name, "decide": decide, **more}


def test_rules_that_can_decide_are_good():
    rules = [
        rule("a", tools="send", when={"amount": {"above": 10}, "files[*]": {"matches": "x"}}),
        rule("b", "deny", tags="money", users="ana"),
        rule("c", "audit", tools="*", message="Send {amount} to {to}, {files.count} files?"),
    ]
    assert found(*rules) == []


@pytest.mark.parametrize(
    ("names", "key", "message"),
    [
        ({"tools": "sned"}, "tools", "there is no tool 'sned'; did you mean 'send'?"),
        ({"tools": ["look", "x_*"]}, "tools", "there is no tool 'x_*'"),
        ({"tags": "mony"}, "tags", "there is no tool with the tag 'mony'; did you mean 'money'?"),
        ({"servers": "files"}, "servers", "there is no MCP server 'files'"),
        (
            {"tools": "send", "when": {"amuont": {"above": 1}}},
            "when.amuont",
            "none of its tools has a parameter 'amuont'; did you mean 'amount'?",
        ),
    ],
)
def test_a_name_of_nothing_is_an_error(names, key, message):
    assert found(rule(**names)) == [("error", f"policies.rules.0.{key}", message)]


def test_a_name_that_a_server_may_bring_is_a_warning():
    server = {"files": {"url": "http://localhost:1"}}
    assert found(rule(tools="delete"), mcp_servers=server) == [
        ("warning", "policies.rules.0.tools", "there is no tool 'delete'")
    ]


def test_a_rule_that_no_tool_fits_is_an_error():
    (finding,) = found(rule(tools="look", tags="money"))
    assert finding[:2] == ("error", "policies.rules.0")


def test_a_place_for_no_parameter_is_a_warning():
    (finding,) = found(rule(tools="send", message="Send {amuont}?"))
    assert finding[:2] == ("warning", "policies.rules.0.message")


def test_a_rule_that_another_always_goes_before_is_a_warning():
    shadow = rule("all", "allow", tags="money", priority=500)
    assert found(shadow, rule("asks", tools="send", when={"amount": {"above": 9}})) == [
        (
            "warning",
            "policies.rules.1",
            "it never applies, since 'all' decides first: raise its priority or remove one of them",
        )
    ]
    for partial in ({"modes": "ask"}, {"users": "ana"}, {"when": {"to": {"equals": "a"}}}):
        assert found({**shadow, **partial}, rule("asks", tools="send")) == []


def test_always_names_a_rule():
    always = {"x": {"tools": "send", "question": "lage"}}
    assert found(rule("large", tools="send"), policies={"always": always}) == [
        (
            "error",
            "policies.always.x.question",
            "there is no rule 'lage'; did you mean 'large'?",
        )
    ]
