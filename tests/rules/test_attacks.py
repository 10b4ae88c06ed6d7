"""Calls that a rule means to hold back, in every shape that a model may give them."""

import pytest
from genai_processors import streams
from genai_processors.content_api import ProcessorPart
from google.genai import types

from leonidas_tools import AdvancedToolProcessor, Tool

RULES = {
    "deny": {"tools": "send_mail", "when": {"to[*]": {"matches": "@evil"}}, "decide": "deny"},
    "equals": {"tools": "send_mail", "when": {"to[*]": {"equals": "m@evil"}}, "decide": "deny"},
    "plain": {"tools": "send_mail", "when": {"to": {"matches": "@evil$"}}, "decide": "deny"},
    "item": {"tools": "send_mail", "when": {"to": {"equals": "m@evil"}}, "decide": "deny"},
}
RECIPIENTS = [
    "m@evil",
    ["m@evil"],
    ["a@home", "m@evil"],
    "a@home, m@evil",
    "a@home;m@evil",
    "Ana <m@evil>",
    "m@evil\n",
    " m@evil ",
    "m@e\u200bvil",
    "\uff4d@\uff45vil",
    "m@\u0435vil",
    "m@ev\u0456l",
    "\u043c@\u03b5v\u0131l",
    ["a@home", "m@evi\u04cf"],
    '["a@home", "m@evil"]',
]
ONLY_INSIDE = {"a@home, m@evil", "a@home;m@evil", "Ana <m@evil>", '["a@home", "m@evil"]'}


def send_mail(to: list[str] | str, amount: float = 5, note: object = None) -> str:
    """Sends a mail."""
    return "sent"


async def outcome(rules, **arguments):
    named = [{"name": f"rule {n}", **rule} for n, rule in enumerate(rules)]
    tools = AdvancedToolProcessor(
        [Tool(send_mail, effect="once")],
        {"policies": {"risky": "allow", "rules": named}},
        builtin_tools=False,
    )
    async with tools:
        return (await tools.execute("send_mail", arguments)).status.value


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("to", RECIPIENTS, ids=repr)
async def test_a_denied_mail_does_not_go_out(name, to):
    if name == "item" and isinstance(to, str) and to in ONLY_INSIDE:
        pytest.skip("a rule for the whole text says nothing of its parts")
    if name == "plain" and to == "Ana <m@evil>":
        pytest.skip("the expression wants the end of the text")
    if name == "plain" and to == '["a@home", "m@evil"]':
        pytest.skip("the expression wants the end of the text")
    assert await outcome([RULES[name]], to=to) == "denied"


@pytest.mark.parametrize(
    "to", [["a@home, m@evil.x"], ["Eve <m@evil.x>"], "m@evil\u3002x", ["m@evil\u3002x"]], ids=repr
)
@pytest.mark.parametrize("condition", [{"equals": "m@evil.x"}, {"matches": "^m@evil\\.x$"}])
async def test_two_addresses_in_one_item_and_a_foreign_dot_hide_none(condition, to):
    rule = {"tools": "send_mail", "when": {"to[*]": condition}, "decide": "deny"}
    assert await outcome([rule], to=to) == "denied"


@pytest.mark.parametrize("to", ["a@home\uff0cm@evil", "a@home\u3001m@evil", '["m\\u0040evil"]'])
@pytest.mark.parametrize("condition", [{"equals": "m@evil"}, {"matches": "^m@evil"}])
async def test_other_commas_and_escapes_of_json_hide_no_address(condition, to):
    rule = {"tools": "send_mail", "when": {"to[*]": condition}, "decide": "deny"}
    assert await outcome([rule], to=to) == "denied"


@pytest.mark.parametrize(
    ("to", "status"),
    [
        (["a@home, b@home, c@home"], "denied"),
        (["a@home", "b@home; c@home"], "denied"),
        (["a@home", "b@home"], "ok"),
        (["a@home, b@home"], "ok"),
    ],
)
async def test_several_addresses_in_one_item_are_counted(to, status):
    rule = {"tools": "send_mail", "when": {"to": {"count_above": 2}}, "decide": "deny"}
    assert await outcome([rule], to=to) == status


@pytest.mark.parametrize(
    "note",
    [
        '{"sum": 900}',
        {"sum": 900},
        [[{"sum": 900}]],
        ['{"sum": 900}'],
        '{"sum": 1, "sum": 900}',
        '{"sum": 900,}',
        "{'sum': 900}",
        '\ufeff{"sum": 900}',
        pytest.param('{"sum": 900' + " " * 1_000_000 + "}", id="long"),
    ],
    ids=repr,
)
async def test_a_rule_for_a_member_holds_however_its_object_is_given(note):
    rule = {"tools": "send_mail", "when": {"note.sum": {"above": 100}}, "decide": "deny"}
    assert await outcome([rule], to="a@home", note=note) == "denied"


@pytest.mark.parametrize(
    "to",
    ["a@home", ["a@home"], ["a@home", "b@home"], "a@home, b@home", "\u043c\u0438\u0440 a@home"],
)
@pytest.mark.parametrize("name", RULES)
async def test_another_mail_goes_out(name, to):
    assert await outcome([RULES[name]], to=to) == "ok"


@pytest.mark.parametrize("amount", [1000, "1000", "1e3", 1000.5, "1E400"])
async def test_a_large_amount_is_denied_as_number_and_as_text(amount):
    rule = {"tools": "send_mail", "when": {"amount": {"above": 100}}, "decide": "deny"}
    assert await outcome([rule], to="a@home", amount=amount) in {"denied", "invalid_argument"}


async def test_a_default_of_the_function_is_judged_where_the_schema_has_it():
    rule = {"tools": "send_mail", "when": {"amount": {"above": 4}}, "decide": "deny"}
    assert await outcome([rule], to="a@home") == "denied"


@pytest.mark.parametrize("decide", ["deny", "ask"])
@pytest.mark.parametrize("path", ["recipient", "recipient[*]", "amount.value", "to[*].address"])
async def test_a_rule_for_an_argument_that_its_tool_lacks_applies_and_is_reported(
    decide, path, caplog
):
    rule = {"tools": "send_mail", "when": {path: {"matches": "@evil"}}, "decide": decide}
    status = {"deny": "denied", "ask": "pending_approval"}[decide]
    assert await outcome([rule], to="a@home") == status
    assert any(f"policies.rules.0.when.{path}" in message for message in caplog.messages)


async def test_a_rule_for_tools_with_an_argument_leaves_the_others_alone():
    rule = {"tools": "*", "when": {"recipient": {"matches": "@evil"}}, "decide": "deny"}
    assert await outcome([rule], to="a@home") == "ok"


async def test_what_allows_one_recipient_does_not_allow_another():
    asks = {"tools": "send_mail", "decide": "ask"}
    for path in ("to[*]", "to"):
        home = {"tools": "send_mail", "when": {path: {"matches": "^[a-z]+@home$"}}}
        allows = {**home, "decide": "allow", "priority": 200}
        assert await outcome([asks, allows], to="a@home") == "ok"
        assert await outcome([asks, allows], to=["a@home", "m@evil"]) == "pending_approval"
        assert await outcome([asks, allows], to="m@evil, a@home") == "pending_approval"
        assert await outcome([asks, allows], to=["m@evil, a@home", "a@home"]) == "pending_approval"
        assert await outcome([asks, allows], to="a@home\u200b") == "pending_approval"


@pytest.mark.parametrize("first", ["audit", "ask", "allow"])
async def test_a_rule_in_doubt_does_not_go_before_a_stricter_one_that_is_not(first):
    when = {"note": {"above": 10}}
    doubtful = {"tools": "send_mail", "when": when, "decide": first, "priority": 200}
    denies = {"tools": "send_mail", "decide": "deny"}
    assert await outcome([doubtful, denies], to="a@home", note="many") == "denied"


async def test_an_expression_that_gives_up_holds_back():
    when = {"to": {"matches": r"(a*)*\1b"}}
    rule = {"tools": "send_mail", "when": when, "decide": "deny"}
    assert await outcome([rule], to="a" * 100 + "!") == "denied"
    assert await outcome([rule], to="x") == "ok"


DENIES = {"decide": "deny", "tools": "send_mail"}


async def sent(arguments, when, *, tool=send_mail, parameters=None, **settings):
    """The status of a call by the name and the arguments that Gemini knows."""
    made = Tool(tool, effect="once")
    if parameters is not None:
        made = Tool.from_json_schema(
            name="send_mail", description="Sends.", parameters=parameters, function=lambda **_: "ok"
        )
    policies = {"risky": "allow", "rules": [{**DENIES, "name": "r", "when": when}]}
    rules = {"policies": policies, **settings}
    async with AdvancedToolProcessor([made], rules, builtin_tools=False) as tools:
        return (await tools.execute("send_mail", arguments)).status.value


NESTED = {
    "type": "object",
    "properties": {
        "mails": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "to": {"type": "array", "items": {"type": "object", "properties": {"a": {}}}}
                },
            },
        }
    },
}


@pytest.mark.parametrize("path", ["mails[*].to[*].a", "mails[*].to", "mails", "mails[*].to[1].a"])
@pytest.mark.parametrize("given", [list, repr], ids=["array", "json"])
async def test_a_rule_finds_what_is_deep_in_arrays_of_objects(path, given):
    def shape(address):
        mails = [{"to": []}, {"to": [{"a": "a@home"}, {"a": address}]}]
        return {"mails": given(mails).replace("'", '"') if given is repr else mails}

    when = {path: {"matches": "@evil"}}
    assert await sent(shape("m@evil"), when, parameters=NESTED) == "denied"
    assert await sent(shape("b@home"), when, parameters=NESTED) == "ok"


async def answer(tools, **arguments):
    """The status of a call as a model makes it."""
    called = types.Part(function_call=types.FunctionCall(id="1", name="send_mail", args=arguments))
    parts = [part async for part in tools(streams.stream_content([ProcessorPart(called)]))]
    (told,) = [part.function_response for part in parts if part.function_response]
    return told.response["status"]


@pytest.mark.parametrize("path", ["e-mail", "['e-mail']"])
async def test_a_rule_is_about_an_argument_that_gemini_knows_by_another_name(path):
    mail = Tool.from_json_schema(
        name="send_mail",
        description="Sends a mail.",
        parameters={"type": "object", "properties": {"e-mail": {"type": "string"}}},
        function=lambda **_: "sent",
    )
    rule = {**DENIES, "name": "r", "when": {path: {"matches": "@evil"}}}
    config = {"policies": {"risky": "allow", "rules": [rule]}}
    async with AdvancedToolProcessor([mail], config, builtin_tools=False) as tools:
        assert await answer(tools, e_mail="m@evil") == "denied"
        assert await answer(tools, e_mail="a@home") == "ok"


async def test_a_fallback_is_judged_by_rules_of_its_own():
    ran = []

    def look(to: str) -> str:
        """Looks."""
        raise RuntimeError("down")

    def send(to: str) -> str:
        """Sends."""
        ran.append(to)
        return "sent"

    rule = {"name": "r", "tools": "send", "when": {"to": {"matches": "@evil"}}, "decide": "deny"}
    tools = [Tool(look, effect="read", fallback_tools=["send"]), Tool(send, effect="read")]
    async with AdvancedToolProcessor(
        tools, {"policies": {"risky": "allow", "rules": [rule]}}
    ) as processor:
        await processor.execute("look", {"to": "m@evil"})
        assert ran == []
        await processor.execute("look", {"to": "a@home"})
        assert ran == ["a@home"]
