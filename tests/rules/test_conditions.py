"""Values by path, and conditions on them."""

import math

import pytest

from leonidas_tools.rules.conditions import Condition, steps_of, values_at

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
def test_a_condition_is_true_false_or_cannot_be_told(said, value, holds):
    assert Condition(**said).holds(value) is holds


def test_conditions_are_equal_that_hold_of_the_same():
    assert Condition(above=1, below=3) == Condition(below=3, above=1)
    assert len({Condition(above=1, below=3), Condition(below=3, above=1)}) == 1
    conditions = [Condition(equals=1), Condition(equals=True), Condition(equals="1")]
    assert [a == b for a in conditions for b in conditions if a is not b] == [False] * 6
    assert Condition(equals=1) != 1
