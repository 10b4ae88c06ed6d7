"""Which rule decides about a call."""

import pytest

from leonidas_tools import SessionPolicy, Settings, Tool
from leonidas_tools.rules.conditions import Condition
from leonidas_tools.rules.engine import Circumstances, RuleBook, explain
from leonidas_tools.rules.rule import Decide, Mode, Rule, Tier
from leonidas_tools.rules.subject import Subject, subject_of
from leonidas_tools.tools.metadata import ToolCategory, ToolEffect, ToolOrigin


def subject(name="send", **more):
    own = {"category": "python", "tags": frozenset({"money"}), "effect": ToolEffect.ONCE}
    return Subject(names=(name,), **{**own, **more})


def decided(*rules, about=None, mode=Mode.ASK, user=None, more=(), **arguments):
    book = RuleBook(rules).for_tool(about or subject())
    verdict = book.decide(Circumstances(arguments=arguments, mode=mode, user=user), more)
    return verdict.decide.value, verdict.rule.name if verdict.rule else None


def rule(name, decide, tier=Tier.FILE, **more):
    return Rule(name=name, decide=Decide(decide), tier=tier, **more)


def test_without_rules_a_call_is_allowed():
    assert decided() == ("allow", None)


@pytest.mark.parametrize(
    ("about", "fits"),
    [
        ({"tools": ["send"]}, True),
        ({"tools": ["other", "se*"]}, True),
        ({"tools": ["Send"]}, False),
        ({"tools": ["send_all"]}, False),
        ({"categories": ["python"]}, True),
        ({"categories": ["mcp"]}, False),
        ({"tags": ["money", "other"]}, True),
        ({"tags": ["other"]}, False),
        ({"effects": [ToolEffect.ONCE]}, True),
        ({"effects": [ToolEffect.READ]}, False),
        ({"servers": ["bank"]}, False),
        ({"modes": [Mode.ASK]}, True),
        ({"modes": [Mode.AUTONOMOUS]}, False),
        ({"users": ["ana"]}, True),
        ({"users": ["ben"]}, False),
        ({"tools": ["send"], "tags": ["other"]}, False),
        ({"when": {"amount": Condition(above=10)}}, True),
        ({"when": {"amount": Condition(above=20)}}, False),
        ({"when": {"amount": Condition(above=10), "to": Condition(equals="ben")}}, False),
        ({"when": {"missing": Condition(above=10)}}, False),
    ],
)
def test_a_rule_holds_where_all_that_it_names_is_so(about, fits):
    denied = decided(rule("no", "deny", **about), user="ana", amount=11, to="ana")
    assert denied == (("deny", "no") if fits else ("allow", None))


def test_a_higher_tier_goes_first_then_priority_then_severity():
    low = rule("low", "deny", priority=999)
    assert decided(low, rule("user", "allow", Tier.USER, priority=0)) == ("allow", "user")
    assert decided(low, rule("high", "allow", priority=999)) == ("deny", "low")
    one = [rule(each, each) for each in ("allow", "audit", "ask", "deny")]
    assert decided(*one) == ("deny", "deny")
    assert decided(*one[:3]) == ("ask", "ask")
    assert decided(*one[:2]) == ("audit", "audit")


def test_rules_of_the_session_go_before_all_others():
    session = rule("session", "deny", Tier.SESSION, priority=0)
    assert decided(rule("file", "allow", priority=999), more=[session]) == ("deny", "session")
    elsewhere = rule("session", "deny", Tier.SESSION, tools=["other"])
    assert decided(rule("file", "audit"), more=[elsewhere]) == ("audit", "file")


def test_a_word_by_itself_is_one_and_not_its_letters():
    alone = Rule(name="money", decide="deny", tools="pay_*", modes="ask", users="ana")
    assert alone == Rule(
        name="money", decide=Decide.DENY, tools=["pay_*"], modes=[Mode.ASK], users=["ana"]
    )
    assert decided(alone, about=subject("look"), user="ana") == ("allow", None)
    assert decided(alone, about=subject("pay_bill"), user="ana") == ("deny", "money")


@pytest.mark.parametrize(
    "wrong", [{"decide": "forbid"}, {"modes": "aks"}, {"effects": ["writes"]}, {"when": {"a[": 1}}]
)
def test_a_rule_that_could_never_hold_is_refused(wrong):
    with pytest.raises(ValueError, match=r"forbid|aks|writes|a\["):
        Rule(**{"name": "r", "decide": "deny", **wrong})


def test_each_session_and_mode_has_its_own_verdict():
    rules = RuleBook([rule("file", "audit")]).for_tool(subject())

    def verdict(*more, mode=Mode.ASK):
        said = rules.decide(Circumstances(arguments={}, mode=mode), more).rule
        return None if said is None else said.name

    strict, lax = rule("strict", "deny", Tier.SESSION), rule("lax", "allow", Tier.SESSION)
    planning = rule("planning", "ask", Tier.SESSION, modes=[Mode.AUTONOMOUS])
    for _ in range(2):
        assert verdict(strict) == "strict"
        assert verdict(lax) == "lax"
        assert verdict(planning) == "file"
        assert verdict(planning, mode=Mode.AUTONOMOUS) == "planning"
        assert verdict() == "file"


def test_rules_of_sessions_that_python_finds_equal_are_kept_apart():
    rules = RuleBook().for_tool(subject())
    about = Circumstances(arguments={"all": True}, mode=Mode.ASK)
    for said, decides in ((1, "allow"), (True, "deny")) * 2:
        no = rule("no", "deny", Tier.SESSION, when={"all": Condition(equals=said)})
        assert rules.decide(about, [no]).decide == decides


def test_a_rule_cannot_be_changed_under_those_who_have_read_it():
    tools, when = ["send"], {"amount": Condition(above=10)}
    no = rule("no", "deny", tools=tools, when=when)
    tools.clear()
    when.clear()
    assert no == rule("no", "deny", tools=["send"], when={"amount": Condition(above=10)})
    with pytest.raises(TypeError):
        no.when["amount"] = Condition(above=20)
    with pytest.raises(AttributeError):
        no.tools.append("mail")


def test_a_rule_that_means_nothing_is_not_made():
    with pytest.raises(ValueError, match=r"'a\.\.b' is not a path"):
        Rule(name="no", decide=Decide.DENY, when={"a..b": Condition(equals=1)})
    with pytest.raises(ValueError, match="no decide 'maybe': choose from 'allow'"):
        Rule(name="no", decide="maybe")
    with pytest.raises(ValueError, match="no mode 'autonom': did you mean 'autonomous'"):
        SessionPolicy("autonom")
    assert Rule(name="no", decide="deny").decide is Decide.DENY


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (Mode.ASK, ("ask", "requires_approval")),
        (Mode.AUTONOMOUS, ("audit", "autonomous")),
        (Mode.READ_ONLY, ("deny", "read_only")),
    ],
)
def test_a_tool_that_requires_approval_is_asked_about_unless_the_session_is_autonomous(
    mode, expected
):
    assert decided(about=subject(requires_approval=True), mode=mode) == expected


def test_a_rule_exempts_operations_from_autonomy():
    exempt = rule("large", "ask", when={"amount": Condition(above=100)})
    about = subject(requires_approval=True)
    autonomous = Mode.AUTONOMOUS
    assert decided(exempt, about=about, mode=autonomous, amount=500) == ("ask", "large")
    assert decided(exempt, about=about, mode=autonomous, amount=5) == ("audit", "autonomous")


def test_a_read_only_session_may_read():
    reads = subject(effect=ToolEffect.READ)
    assert decided(about=reads, mode=Mode.READ_ONLY) == ("allow", None)


@pytest.mark.parametrize("decide", ["allow", "ask", "audit"])
@pytest.mark.parametrize("tier", [Tier.FILE, Tier.USER, Tier.SESSION])
def test_only_a_rule_that_names_the_mode_lets_a_change_through_where_nothing_may_be_changed(
    decide, tier
):
    everywhere = rule("all", decide, tier)
    assert decided(everywhere, mode=Mode.READ_ONLY) == ("deny", "read_only")
    named = rule("this", decide, tier, modes=[Mode.READ_ONLY])
    assert decided(named, mode=Mode.READ_ONLY) == (decide, "this")


def test_always_answers_the_question_of_one_rule_and_lifts_nothing_else():
    asks = rule("large", "ask", when={"amount": Condition(above=100)})
    other = rule("abroad", "ask", when={"to": Condition(equals="abroad")}, priority=50)
    denies = rule("never", "deny", when={"to": Condition(equals="thief")})
    always = Rule(
        name="send large", decide=Decide.ALLOW, tools=["send"], tier=Tier.USER, lifts="large"
    )
    rules = (asks, other, denies, always)
    assert decided(*rules, amount=500, to="ana") == ("audit", "large")
    assert decided(*rules, amount=5, to="abroad") == ("ask", "abroad")
    assert decided(*rules, amount=500, to="thief") == ("deny", "never")
    assert decided(*rules, about=subject("other"), amount=500) == ("ask", "large")


def test_an_unknown_condition_matches_only_where_the_rule_lets_nothing_through():
    odd = {"amount": "many"}
    above = {"amount": Condition(above=10)}
    assert decided(rule("no", "deny", when=above), **odd) == ("deny", "no")
    assert decided(rule("ask", "ask", when=above), **odd) == ("ask", "ask")
    assert decided(rule("yes", "allow", when=above), **odd) == ("allow", None)


def test_an_mcp_tool_goes_by_all_its_names():
    def mcp(name):
        tool = Tool(lambda: None, name=name, category="mcp", lane="mcp:files", tags=["mcp"])
        return subject_of(tool.metadata, Settings().for_tool(name))

    for name in ("delete", "files__delete"):
        about = mcp(name)
        assert about.server == "files"
        assert about.category == ToolCategory.MCP
        for pattern in ("delete", "files__delete"):
            assert decided(rule("no", "deny", tools=[pattern]), about=about) == ("deny", "no")
        assert decided(rule("no", "deny", servers=["fil*"]), about=about) == ("deny", "no")


def of_server(name):
    origin = ToolOrigin(server="files", tool="delete")
    tool = Tool(lambda: None, name=name, category="mcp", origin=origin)
    return subject_of(tool.metadata, Settings().for_tool(name, origin))


@pytest.mark.parametrize("name", ["delete", "files__delete", "files__delete_2", "wipe"])
def test_an_mcp_tool_is_denied_by_the_name_of_its_server_under_any_local_name(name):
    about = of_server(name)
    assert about.server == "files"
    for decide in ("deny", "ask"):
        for pattern in ("delete", "files__delete", "del*", name):
            assert decided(rule("no", decide, tools=[pattern]), about=about) == (decide, "no")
        other = rule("no", decide, tools=["other__delete"])
        assert decided(other, about=about) == ("ask", "requires_approval")  # by its name alone


def test_what_allows_a_tool_of_ours_allows_no_tool_that_a_server_calls_the_same():
    asks = rule("ask", "ask", servers=["files"])
    yes = rule("yes", "allow", tools=["delete"], priority=200)
    assert decided(asks, yes, about=of_server("files__delete")) == ("ask", "ask")
    assert decided(asks, yes, about=of_server("delete")) == ("allow", "yes")
    named = rule("yes", "allow", tools=["files__delete"], priority=200)
    for name in ("delete", "files__delete", "files__delete_2", "wipe"):
        assert decided(asks, named, about=of_server(name)) == ("allow", "yes")


def test_settings_of_a_tool_count_for_rules():
    tool = Tool(lambda: None, name="look", effect="once", tags=["a"], requires_approval=True)
    settings = Settings(
        tools={"look": {"effect": "read", "tags": ["b"], "requires_approval": False}}
    )
    assert subject_of(tool.metadata, settings.for_tool("look")) == Subject(
        names=("look",), category="python", tags=frozenset({"b"}), effect=ToolEffect.READ
    )


def test_where_no_rule_can_act_there_is_nothing_to_do_for_a_call():
    other = RuleBook([rule("no", "deny", tools=["other"])]).for_tool(subject())
    assert [mode for mode in Mode if other.acts_in(mode)] == [Mode.READ_ONLY]
    asks = RuleBook().for_tool(subject(requires_approval=True))
    assert all(asks.acts_in(mode) for mode in Mode)
    assert asks.may_ask
    assert not other.may_ask


@pytest.mark.parametrize(
    ("rules", "always"),
    [
        ([rule("no", "deny")], True),
        ([rule("no", "deny", when={"a": Condition(above=1)})], False),
        ([rule("no", "deny", users=["ana"])], False),
        ([rule("no", "deny", modes=[Mode.AUTONOMOUS])], False),
        ([rule("no", "deny"), rule("yes", "allow", priority=500)], False),
        ([rule("no", "deny"), rule("ask", "ask", when={"a": Condition(above=1)})], True),
        ([rule("no", "deny", priority=1), rule("q", "ask", when={"a": Condition(above=1)})], False),
    ],
)
def test_a_tool_is_always_denied_where_no_call_could_come_through(rules, always):
    assert RuleBook(rules).for_tool(subject()).always_denies(Mode.ASK) is always


def test_every_rule_about_a_tool_is_explained_in_order():
    rules = RuleBook(
        [
            rule("large", "ask", when={"amount": Condition(above=100)}),
            rule("mine", "deny", users=["ben"]),
            rule("first", "audit", priority=500),
        ]
    ).for_tool(subject(requires_approval=True))
    about = Circumstances(arguments={"amount": 5}, mode=Mode.ASK, user="ana")
    decide, candidates = explain(rules, about)
    assert decide is Decide.AUDIT
    assert [(each.rule.name, each.decides, each.why) for each in candidates] == [
        ("first", True, "the first rule that applies"),
        ("mine", False, "not for the user 'ana'"),
        ("large", False, "not with this 'amount'"),
        ("read_only", False, "not in mode 'ask'"),
        ("requires_approval", False, "'first' takes precedence"),
        ("autonomous", False, "not in mode 'ask'"),
    ]
