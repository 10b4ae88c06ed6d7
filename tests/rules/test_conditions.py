"""Values by path, and conditions on them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools.rules.conditions import (
    UNREADABLE,
    Condition,
    is_described,
    steps_of,
    values_at,
)

ORDER = {
    "amount": 20,
    "to": {"name": "Ana", "x.y": 1},
    "files": [{"size": 1}, {"size": 30}, {}],
    "0": "zero",
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("amount", [20]),
        ("$.amount", [20]),
        ("to.name", ["Ana"]),
        ("to['x.y']", [1]),
        ("files[1].size", [30]),
        ("files.1.size", [30]),
        ("files[*].size", [1, 30]),
        ("files[9].size", []),
        ("amount.name", []),
        ("missing", []),
        ("to.*", ["Ana", 1]),
        ("0", ["zero"]),
    ],
)
def test_a_path_leads_to_values(path, values):
    assert values_at(ORDER, steps_of(path)) == values


@pytest.mark.parametrize("path", ["", "$", "a..b", "a[", "a[x]", "a]", "a.", "[*"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(ValueError, match="is not a path"):
        steps_of(path)


@pytest.mark.parametrize(
    ("said", "value", "holds"),
    [
        ({"equals": 20}, 20.0, True),
        ({"equals": 1}, True, False),
        ({"equals": True}, 1, False),
        ({"equals": None}, None, True),
        ({"equals": None}, 0, False),
        ({"matches": "^/etc"}, "/etc/passwd", True),
        ({"matches": "^/etc"}, "/home", False),
        ({"matches": "root"}, ["a", "root"], True),
        ({"above": 10}, 11, True),
        ({"above": 10}, 10, False),
        ({"above": 10}, "11", True),
        ({"above": 10}, math.nan, None),
        ({"above": 10}, True, None),
        ({"above": 10}, [11], None),
        ({"above": 10}, 10**400, None),
        ({"below": 10}, 9, True),
        ({"below": 10}, 10, False),
        ({"above": 10, "below": 20}, 15, True),
        ({"above": 10, "below": 20}, 25, False),
        ({"count_above": 2}, [1, 2, 3], True),
        ({"count_above": 2}, [1, 2], False),
        ({"count_above": 2}, {"a": 1, "b": 2, "c": 3}, True),
        ({"count_above": 2}, "abc", None),
        ({"above": 10, "equals": 5}, "many", False),
    ],
)
def test_a_condition_is_true_false_or_unknown(said, value, holds):
    assert Condition(**said).holds(value) is holds


def test_conditions_are_equal_that_hold_of_the_same():
    assert Condition(above=1, below=3) == Condition(below=3, above=1)
    assert len({Condition(above=1, below=3), Condition(below=3, above=1)}) == 1
    conditions = [Condition(equals=1), Condition(equals=True), Condition(equals="1")]
    assert [a == b for a in conditions for b in conditions if a is not b] == [False] * 6
    assert Condition(equals=1) != 1


@pytest.mark.parametrize(
    ("arguments", "path", "values"),
    [
        ({"to": "ana@home"}, "to[*]", ["ana@home"]),
        ({"to": "a@b, c@d"}, "to[*]", ["a@b, c@d", "a@b", "c@d"]),
        ({"to": "Mallory <m@x>;a@b"}, "to[*]", ["Mallory <m@x>;a@b", "Mallory", "m@x", "a@b"]),
        ({"to": 5}, "to[*]", [5]),
        ({"to": False}, "to[*]", [False]),
        ({"to": None}, "to[*]", []),
        ({"to": []}, "to[*]", []),
        ({"to": {"address": "m@x"}}, "to[*]", ["m@x"]),
        ({"to": {"address": "m@x"}}, "to[*].address", []),
        ({"to": {"*": "ben@work", "cc": "m@x"}}, "to[*]", ["ben@work", "m@x"]),
        ({"to": ["Eve <m@x>", "a b"]}, "to[*]", ["Eve <m@x>", "a b", "Eve", "m@x"]),
        ({"to": {"cc": "a@b, m@x"}}, "to[*]", ["a@b, m@x", "a@b", "m@x"]),
        ({"to": [[{"name": "a"}], {"name": "b"}]}, "to.name", ["a", "b"]),
        ({"body": ' {"sum": 5}'}, "body.sum", [5]),
        ({"body": '[{"sum": 5}, [{"sum": 6}]]'}, "body.sum", [5, 6]),
        ({"body": '{"sum": 5, "sum": 6}'}, "body.sum", [[5, 6]]),
        ({"body": ['{"sum": 5}']}, "body.sum", [5]),
        ({"body": ['{"sum": 5}'] * 2_000}, "body.sum", [5] * 1_000 + [UNREADABLE]),
        ({"body": '{"sum": '}, "body.sum", [UNREADABLE]),
        ({"body": "[" * 100_000}, "body.sum", [UNREADABLE]),
        ({"body": "sum: 5"}, "body.sum", []),
        ({"to": [{"address": "m@x"}, "a@b", {}]}, "to.address", ["m@x"]),
        ({"a.b": {"c.d": 1}}, "['a.b']['c.d']", [1]),
        ({"files": ["a", "b"]}, "files.name", []),
    ],
)
def test_a_path_for_several_values_leads_to_a_single_one_too(arguments, path, values):
    assert list(values_at(arguments, steps_of(path))) == values


LONG = "a" * 28 + "!"
HUGE = "a" * 1_000_001


@pytest.mark.parametrize(
    ("pattern", "value", "holds"),
    [
        ("(a+)+$", LONG, False),
        ("^(a|a)*$", LONG * 1000, False),
        (r"(\w+\s?)+$", LONG * 1000, False),
        ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 100_000, False),
        (r"(a*)*\1b", "a" * 100 + "!", None),
        ("(?=(a+)+$)b", "a" * 900, False),
        ("(?=(a+)+$)b", "a" * 1001, None),
        ("mallory", HUGE, None),
        ("mallory", "x" * 900_000 + "mallory", True),
        ("mallory", "mal\u200blory@x", None),
        ("mallory", "\uff4dallory", None),
        ("mallory", "mal\x1b[8mlory", None),
        ("mallory", "\u202emallory", True),
        ("^rm$", "rm\n", None),
        (r"^\d+$", "\uff11\uff12", None),
        (r"^\d+$", "\u0663\u0663", None),
        (r"^\d+$", 12, True),
        ("@(?!home)", "ana@home", False),
        ("@(?!home)", "ana@work", True),
        ("(?i)MALLORY", "mallory", True),
        ("mallory", "half \ud800 a character", None),
        ("^root$", ["a", "root"], None),
        ("^root$", {"a": [["root"]]}, None),
        ("^root$", ["a", "b"], False),
        ("^true$", True, True),
    ],
)
def test_an_expression_is_searched_for_in_bounded_time_and_in_what_a_person_reads(
    pattern, value, holds
):
    assert Condition(matches=pattern).holds(value) is holds


@pytest.mark.parametrize(
    "pattern", ["(", "(a{1000}){1000}", r"a\Z", "(?>a)", "*", "(?P<x>a)(?P=x)"]
)
def test_an_expression_that_cannot_be_searched_for_safely_is_refused(pattern):
    with pytest.raises(ValueError, match="is not a regular expression that can be searched for"):
        Condition(matches=pattern)


@pytest.mark.parametrize(
    ("said", "value", "holds"),
    [
        ({"equals": 20}, "20", None),
        ({"equals": "20"}, 20, None),
        ({"equals": 20}, "\uff12\uff10", None),
        ({"equals": "m@x.com"}, "M@X.com ", None),
        ({"equals": "m@x.com"}, "m@x\u200b.com", None),
        ({"equals": "m@x.com"}, ["a@b", "m@x.com"], None),
        ({"equals": "m@x.com"}, {"to": [["m@x.com"]]}, None),
        ({"equals": "m@x.com"}, "n@x.com", False),
        ({"equals": [1]}, [True], False),
        ({"equals": [1]}, [1.0], True),
        ({"equals": {"a": 1}}, {"a": True}, False),
        ({"equals": True}, "true", None),
        ({"equals": False}, 0, False),
        ({"equals": None}, "null", False),
        ({"above": 100}, math.inf, True),
        ({"above": 100}, "inf", True),
        ({"above": 100}, "NaN", None),
        ({"above": 100}, -math.inf, False),
        ({"above": 100}, -1000, False),
        ({"above": 100}, "1000", True),
        ({"above": 100}, "\uff11000", True),
        ({"above": 100}, "1,000", None),
        ({"above": 100}, "1e400", True),
        ({"above": 100}, None, None),
        ({"above": 100}, [1000], None),
        ({"below": 100}, 10**400, None),
        ({"count_above": 10}, "a, b", None),
    ],
)
def test_a_value_that_reads_like_another_is_in_doubt(said, value, holds):
    assert Condition(**said).holds(value) is holds


MAIL = {
    "type": "object",
    "properties": {
        "to": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]},
        "cc": {"type": "array", "items": {"$ref": "#/$defs/person"}},
        "amount": {"type": "number"},
        "headers": {"type": "object"},
        "extra": {},
        "pair": {"prefixItems": [{"type": "string"}], "items": False},
        "open": {
            "type": "object",
            "properties": {"a": {}},
            "additionalProperties": {"type": "string"},
        },
        "far": {"$ref": "https://example.com/schema"},
    },
    "$defs": {"person": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


@pytest.mark.parametrize(
    ("path", "described"),
    [
        ("to", True),
        ("to[*]", True),
        ("to[0]", True),
        ("to[*].name", False),
        ("to.name", False),
        ("recipient", False),
        ("cc[*].name", True),
        ("cc.name", True),
        ("cc[*].nmae", False),
        ("cc.nmae", False),
        ("cc.name.first", False),
        ("amount", True),
        ("amount[*]", True),
        ("amount.value", False),
        ("headers['x.y'].z", True),
        ("extra.any.thing", True),
        ("pair[0]", True),
        ("open.other", True),
        ("open.a.b", True),
        ("open.other.more", False),
        ("far.any", True),
        ("*", True),
    ],
)
def test_a_path_that_no_argument_can_have_is_known(path, described):
    assert is_described(MAIL, steps_of(path)) is described


def test_a_path_is_not_found_where_references_multiply():
    refs = [{"$ref": f"#/$defs/{level + 1}"} for level in range(8)]
    definitions = {str(level): {"prefixItems": [each] * 20} for level, each in enumerate(refs)}
    schema = {"allOf": [{"$ref": "#/$defs/0"}], "$defs": {**definitions, "8": {"type": "string"}}}
    assert not is_described(schema, steps_of("amount"))


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.sampled_from(
        [{"matches": "^a|b$"}, {"matches": "(?<!a)b"}, {"equals": "a"}, {"above": 1}, {"below": 1}]
    ),
)
def test_a_condition_answers_for_any_value(value, said):
    assert Condition(**said).holds(value) in {True, False, None}
