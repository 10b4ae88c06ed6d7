"""Names that Gemini takes, and the closest ones to a misspelt one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools.results.similar import closest
from leonidas_tools.tools.names import legal_names, renamed_parameters

TOOL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
PARAMETER = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")
NAMES = st.lists(st.text(alphabet="ab_.-/ 1é", max_size=4) | st.text(max_size=100), max_size=12)


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("get_weather", "get_weather"),
        ("weather.get-v2", "weather.get-v2"),
        ("_private", "_private"),
        ("a" * 64, "a" * 64),
        ("wetter/heute", "wetter_heute"),
        ("größe", "gr__e"),
        ("2nd", "_2nd"),
        (".hidden", "_.hidden"),
        ("", "_"),
        ("<lambda>", "_lambda_"),
        ("天気", "__"),
    ],
)
def test_only_an_illegal_name_is_changed(name, legal):
    assert legal_names([name]) == {name: legal}


def test_long_names_are_cut_and_stay_distinct():
    first, second = (legal_names(["x" * 80 + end])["x" * 80 + end] for end in "ab")
    assert (len(first), len(second), first[:50]) == (64, 64, "x" * 50)
    assert first != second


def test_a_legal_name_keeps_its_own_and_the_first_of_the_others_the_simple_one():
    names = legal_names(["a/b", "a:b", "a_b", "c/d", "c:d"])
    assert (names["a_b"], names["c/d"]) == ("a_b", "c_d")
    assert len(set(names.values())) == 5


def test_what_was_given_out_before_never_changes():
    before = legal_names(["a/b"])
    after = legal_names(["a_b", "a/b", "a:b"], before)
    assert (before["a/b"], after["a/b"]) == ("a_b", "a_b")
    assert len(set(after.values())) == 3


@given(NAMES)
def test_all_names_are_legal_unique_and_the_same_again(names):
    legal = legal_names(names)
    assert list(legal) == list(dict.fromkeys(names))
    assert all(TOOL.fullmatch(name) for name in legal.values())
    assert len(set(legal.values())) == len(legal)
    assert all(legal[name] == name for name in legal if TOOL.fullmatch(name))
    assert legal_names(names) == legal


@given(NAMES, NAMES)
def test_more_names_change_none_that_are_known(first, more):
    known = legal_names(first)
    grown = legal_names([*more, *first], known)
    assert {name: grown[name] for name in known} == known
    assert len(set(grown.values())) == len(grown)


def test_parameters_are_renamed_in_every_keyword_that_names_them():
    schema = {
        "type": "object",
        "properties": {
            "user-id": {"type": "string"},
            "user.name": {"properties": {"first-name": {}}, "required": ["first-name"]},
            "plain": {"enum": ["user-id"]},
        },
        "required": ["user-id", "plain"],
        "dependentRequired": {"user-id": ["user.name"]},
        "dependentSchemas": {"plain": {"required": ["user.name"]}},
        "anyOf": [{"required": ["user-id"]}, {"properties": {"user-id": {"const": "x"}}}],
        "additionalProperties": False,
        "propertyOrdering": ["plain", "user-id"],
    }
    assert renamed_parameters(schema) == (
        {
            "type": "object",
            "properties": {
                "user_id": {"type": "string"},
                "user_name": {"properties": {"first-name": {}}, "required": ["first-name"]},
                "plain": {"enum": ["user-id"]},
            },
            "required": ["user_id", "plain"],
            "dependentRequired": {"user_id": ["user_name"]},
            "dependentSchemas": {"plain": {"required": ["user_name"]}},
            "anyOf": [{"required": ["user_id"]}, {"properties": {"user_id": {"const": "x"}}}],
            "additionalProperties": False,
            "propertyOrdering": ["plain", "user_id"],
        },
        {"user_id": "user-id", "user_name": "user.name"},
    )


def test_parameters_that_are_legal_are_the_same_object():
    schema = {"properties": {"a": {}, "b_2": {}}}
    assert renamed_parameters(schema) == (schema, {})
    assert renamed_parameters(schema)[0] is schema
    assert renamed_parameters({}) == ({}, {})


@given(NAMES)
def test_all_parameters_are_legal_and_lead_back(names):
    schema, own = renamed_parameters({"properties": {name: {"title": name} for name in names}})
    assert all(PARAMETER.fullmatch(name) for name in schema["properties"])
    assert {own.get(name, name) for name in schema["properties"]} == set(names)
    assert all(
        inner["title"] == own.get(name, name) for name, inner in schema["properties"].items()
    )


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("get_wether", ["get_weather"]),
        ("getWeather", ["get_weather"]),
        ("sendmail", ["send_mail"]),
        ("zzz", []),
        ("", []),
    ],
)
def test_only_the_closest_names_are_suggested(name, wanted):
    assert closest(name, ["get_weather", "send_mail", "open_door"])[:1] == wanted
