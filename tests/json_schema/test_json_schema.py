"""Arguments against a JSON Schema: checked, completed, coerced, and refused in clear words."""

from __future__ import annotations

import copy
import json
import threading
from decimal import Decimal
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools.errors import SchemaError, ToolValidationError
from leonidas_tools.json_schema import ArgumentValidator, parse_arguments


def of(**properties):
    """An object schema in which nothing is required and nothing else is allowed."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


def refusal(schema, arguments) -> ToolValidationError:
    with pytest.raises(ToolValidationError) as caught:
        ArgumentValidator(schema)(arguments)
    return caught.value


INTEGER, NUMBER = {"type": "integer"}, {"type": "number"}
BOOLEAN, STRING = {"type": "boolean"}, {"type": "string"}
NUMBERS = {"type": "array", "items": NUMBER}
POINT = {"type": "object", "properties": {"x": INTEGER}, "required": ["x"]}


@pytest.mark.parametrize(
    ("schema", "given", "wanted"),
    [
        pytest.param(INTEGER, "7", 7, id="digits for an integer"),
        pytest.param(INTEGER, "-7", -7, id="negative digits for an integer"),
        pytest.param(INTEGER, "7.0", 7, id="a whole decimal text for an integer"),
        pytest.param(INTEGER, "123456789012345678901234567890", 123456789012345678901234567890),
        pytest.param(INTEGER, 7.0, 7, id="a whole float for an integer"),
        pytest.param(NUMBER, "1.5", 1.5, id="a decimal text for a number"),
        pytest.param(NUMBER, "7", 7, id="digits for a number"),
        pytest.param(NUMBER, "1e3", 1000.0, id="an exponent for a number"),
        pytest.param(BOOLEAN, "true", True),
        pytest.param(BOOLEAN, "false", False),
        pytest.param(BOOLEAN, "True", True, id="a boolean as Python spells it"),
        pytest.param(BOOLEAN, "FALSE", False),
        pytest.param({"type": "null"}, "null", None),
        pytest.param({"type": ["integer", "null"]}, "None", None, id="None as Python spells it"),
        pytest.param({"anyOf": [NUMBERS, {"type": "null"}]}, "null", None),
        pytest.param(NUMBERS, "[1, 2.5]", [1, 2.5], id="a JSON text for an array"),
        pytest.param(NUMBERS, ["1", 2], [1, 2], id="inside an array"),
        pytest.param(NUMBERS, '["1"]', [1], id="inside a JSON text"),
        pytest.param(POINT, '{"x": 1}', {"x": 1}, id="a JSON text for an object"),
        pytest.param(POINT, {"x": "1"}, {"x": 1}, id="inside an object"),
        pytest.param({"enum": [1, 2]}, "2", 2, id="by the options where no type is named"),
        pytest.param({"type": ["integer", "null"]}, "3", 3, id="under a list of types"),
        pytest.param({"anyOf": [INTEGER, {"type": "null"}]}, "3", 3, id="under anyOf"),
        pytest.param({"anyOf": [{"type": "null"}, POINT]}, {"x": "1"}, {"x": 1}),
        pytest.param({"anyOf": [{"type": "null"}, POINT]}, '{"x": "1"}', {"x": 1}),
        pytest.param({"oneOf": [INTEGER, NUMBERS]}, "[1]", [1], id="under oneOf"),
        pytest.param({"allOf": [{"minimum": 2}, INTEGER]}, "3", 3, id="under allOf"),
        pytest.param({"$ref": "#/$defs/n"}, "3", 3, id="behind a reference"),
        pytest.param({"$ref": "#named"}, "3", 3, id="behind an anchor"),
        pytest.param(
            {"prefixItems": [INTEGER, STRING], "items": NUMBER}, ["1", "2", "3"], [1, "2", 3]
        ),
        pytest.param({"additionalProperties": INTEGER}, {"k": "1"}, {"k": 1}),
        pytest.param({"patternProperties": {"^k": INTEGER}}, {"k": "1"}, {"k": 1}),
        pytest.param({"if": {"type": "object"}, "else": INTEGER}, "1", 1, id="under else"),
    ],
)
def test_what_can_mean_one_thing_only_is_coerced(schema, given, wanted):
    whole = {**of(p=schema), "$defs": {"n": INTEGER, "m": {"$anchor": "named", **INTEGER}}}
    arguments = {"p": given}
    before = copy.deepcopy(arguments)
    result = ArgumentValidator(whole)(arguments)
    assert (result, type(result["p"])) == ({"p": wanted}, type(wanted))
    assert arguments == before


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        (STRING, 7),
        (STRING, True),
        (STRING, ["a"]),
        (STRING, {"a": 1}),
        (BOOLEAN, 1),
        (BOOLEAN, 0),
        (BOOLEAN, "yes"),
        (BOOLEAN, "1"),
        (BOOLEAN, "null"),
        (BOOLEAN, "T"),
        (BOOLEAN, ""),
        (INTEGER, True),
        (INTEGER, 7.5),
        (INTEGER, "7.5"),
        (INTEGER, ""),
        (INTEGER, " 7"),
        (INTEGER, "7 "),
        (INTEGER, "+7"),
        (INTEGER, "007"),
        (INTEGER, "0x10"),
        (INTEGER, "1_000"),
        (INTEGER, "٣"),
        (INTEGER, "seven"),
        (INTEGER, "null"),
        (INTEGER, [7]),
        (INTEGER, "9" * 5000),
        (NUMBER, "NaN"),
        (NUMBER, "Infinity"),
        (NUMBER, "1e999"),
        (NUMBER, "1,5"),
        (NUMBER, False),
        (NUMBERS, "1,2"),
        (NUMBERS, "1"),
        (NUMBERS, 1),
        (NUMBERS, "[1, NaN]"),
        (NUMBERS, '{"0": 1}'),
        (POINT, "x=1"),
        (POINT, '{"x": 1, "x": 2}'),
        (POINT, "[]"),
        (POINT, "[" * 100_000),
        ({"type": "null"}, ""),
        ({"type": "null"}, "nil"),
        ({"enum": ["a", "b"]}, "A"),
        ({"enum": ["1"]}, 1),
        ({"const": True}, 1),
    ],
)
def test_nothing_else_is_coerced(schema, given):
    assert refusal(of(p=schema), {"p": given}).status == "invalid_argument"


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        pytest.param(NUMBER, 7, id="an integer for a number"),
        pytest.param(NUMBER, 7.0, id="a whole float for a number"),
        pytest.param({"anyOf": [INTEGER, STRING]}, "7", id="a text where a text may stand"),
        pytest.param({"anyOf": [STRING, INTEGER]}, "7"),
        pytest.param({"type": ["integer", "string"]}, "7"),
        pytest.param({"anyOf": [INTEGER, NUMBER]}, 7.0, id="a float where a float may stand"),
        pytest.param({"anyOf": [BOOLEAN, {"enum": ["true", "auto"]}]}, "true"),
        pytest.param({"anyOf": [NUMBERS, STRING]}, "[1]"),
        pytest.param({}, "7", id="anything where anything may stand"),
        pytest.param({"properties": {"x": INTEGER}}, '{"x": 1}', id="a text that no type forbids"),
        pytest.param(STRING, "true"),
        pytest.param({"type": ["string", "null"]}, "null", id="null as a text"),
        pytest.param({"anyOf": [STRING, {"type": "null"}]}, "None"),
        pytest.param({"type": ["integer", "null"]}, None, id="null where it may stand"),
    ],
)
def test_what_is_valid_stays_as_it_is(schema, given):
    result = ArgumentValidator(of(p=schema, other=INTEGER))({"p": given})
    assert (result, type(result["p"])) == ({"p": given}, type(given))


def test_null_for_an_optional_parameter_is_left_out():
    validate = ArgumentValidator({**of(a=STRING, b=INTEGER, c={**STRING, "default": "d"})})
    assert validate({"a": None, "b": 1, "c": None}) == {"b": 1, "c": "d"}


def test_null_for_a_required_parameter_is_refused():
    error = refusal({**of(a=STRING), "required": ["a"]}, {"a": None})
    assert (error.message, error.reason_code) == ("'a' must be a string, not null.", "wrong_type")


def test_valid_arguments_come_back_as_the_same_object():
    arguments = {"a": "x", "b": 1}
    assert ArgumentValidator(of(a=STRING, b=INTEGER))(arguments) is arguments


def test_whole_floats_become_integers_at_any_depth():
    schema = of(p={"type": "array", "items": POINT}, q=NUMBER)
    result = ArgumentValidator(schema)({"p": [{"x": 1.0}, {"x": 2}], "q": 3.0})
    assert json.dumps(result) == '{"p": [{"x": 1}, {"x": 2}], "q": 3.0}'


def test_any_mapping_is_taken():
    assert ArgumentValidator(of(a=STRING))(MappingProxyType({"a": "x"})) == {"a": "x"}


def test_defaults_are_filled_in_through_objects_arrays_and_references():
    unit = {"type": "object", "properties": {"name": {"default": "m"}, "size": {"default": [1]}}}
    schema = {
        **of(
            n={"default": 3}, one={"$ref": "#/$defs/unit"}, many={"items": {"$ref": "#/$defs/unit"}}
        ),
        "allOf": [{"properties": {"late": {"default": True}}}],
        "$defs": {"unit": unit},
        "additionalProperties": True,
    }
    validate = ArgumentValidator(schema)
    arguments = {"one": {"name": "km"}, "many": [{}]}
    assert validate(arguments) == {
        "n": 3,
        "one": {"name": "km", "size": [1]},
        "many": [{"name": "m", "size": [1]}],
        "late": True,
    }
    assert arguments == {"one": {"name": "km"}, "many": [{}]}


def test_a_default_is_a_new_one_each_time():
    validate = ArgumentValidator(of(p={"default": []}))
    validate({})["p"].append(1)
    assert validate({}) == {"p": []}


def test_a_default_fills_in_what_the_schema_requires():
    schema = {**of(a={**INTEGER, "default": 5}), "required": ["a"]}
    assert ArgumentValidator(schema)({}) == {"a": 5}


def test_a_default_of_another_type_stands_for_none():
    assert ArgumentValidator(of(a={**STRING, "default": None}))({}) == {}


def test_defaults_that_contain_themselves_end():
    schema = {"type": "object", "properties": {"child": {"$ref": "#", "default": {}}}}
    result, depth = ArgumentValidator(schema)({}), 0
    while "child" in result:
        result, depth = result["child"], depth + 1
    assert 0 < depth < 20


@pytest.mark.parametrize(
    ("schema", "arguments", "message", "code", "options"),
    [
        (
            {**of(city=STRING, days=INTEGER), "required": ["city"]},
            {},
            "'city' is missing.",
            "missing_argument",
            ["city", "days"],
        ),
        (
            of(city=STRING, unit=STRING),
            {"unti": "c"},
            "'unti' is not a parameter.",
            "unknown_argument",
            ["unit", "city"],
        ),
        (of(age=INTEGER), {"age": "x"}, "'age' must be an integer, not \"x\".", "wrong_type", None),
        (
            of(unit={"enum": ["celsius", "fahrenheit"]}),
            {"unit": "fahrenhite"},
            '\'unit\' must be "fahrenheit" or "celsius", not "fahrenhite".',
            "not_an_option",
            ["fahrenheit", "celsius"],
        ),
        (
            of(age={**INTEGER, "minimum": 18}),
            {"age": "7"},
            "'age' must be at least 18, not 7.",
            "out_of_range",
            None,
        ),
        (
            of(code={**STRING, "pattern": "^[A-Z]+$"}),
            {"code": "abc"},
            "'code' must match the pattern '^[A-Z]+$', not \"abc\".",
            "pattern",
            None,
        ),
        (
            of(tags={"type": "array", "uniqueItems": True}),
            {"tags": ["a", "a"]},
            '\'tags\' must not have the same item twice: ["a", "a"].',
            "invalid_argument",
            None,
        ),
        (
            of(passengers={"type": "array", "items": of(age=INTEGER)}),
            {"passengers": [{"age": "old"}]},
            "'passengers[0].age' must be an integer, not \"old\".",
            "wrong_type",
            None,
        ),
        (
            of(p={"anyOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]})
            | {"$defs": {"point": POINT}},
            {"p": {}},
            "'p.x' is missing.",
            "missing_argument",
            None,
        ),
        (
            of(p={"anyOf": [INTEGER, {"type": "null"}]}),
            {"p": "x"},
            "'p' must be an integer or null, not \"x\".",
            "wrong_type",
            None,
        ),
        (
            of(p={"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]}),
            {"p": "c"},
            '\'p\' must be "a" or "b", not "c".',
            "not_an_option",
            ["a", "b"],
        ),
        (
            of(p={"oneOf": [of(k={"const": "a"}, x=INTEGER), of(k={"const": "b"}, y=INTEGER)]}),
            {"p": {"k": "b", "y": "?"}},
            "'p.y' must be an integer, not \"?\".",
            "wrong_type",
            None,
        ),
    ],
)
def test_the_error_names_path_reason_and_options(schema, arguments, message, code, options):
    error = refusal(schema, arguments)
    assert (error.message, error.reason_code, error.valid_options) == (message, code, options)
    assert error.status == "invalid_argument"


def test_at_most_five_errors_are_named_and_long_values_are_cut():
    schema = of(**{f"p{n}": INTEGER for n in range(9)})
    error = refusal(schema, {f"p{n}": "x" * 1000 for n in range(9)})
    assert error.message.count("must be an integer") == 5
    assert error.message.endswith("and 4 more.")
    assert len(error.message) < 600


def test_an_array_that_fits_nowhere_is_not_written_out():
    error = refusal(of(p=STRING), {"p": list(range(100_000))})
    assert error.message.startswith("'p' must be a string, not [0, 1, 2, ")
    assert len(error.message) < 100


DRAFT_4 = "http://json-schema.org/draft-04/schema#"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strng"},
        {"properties": []},
        {"required": "a"},
        {"pattern": "("},
        {"$ref": "#/$defs/nowhere"},
        {"$ref": "other.json"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "file:///etc/hostname"},
        {"$schema": "https://example.org/unknown", "type": "object"},
        {"default": {1, 2}},
        {1: 2},
        {"$schema": DRAFT_4, "dependentSchemas": True},
        {"$schema": DRAFT_4, "properties": {"a": {"items": {"prefixItems": 1}}}},
        [],
        None,
    ],
    ids=str,
)
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(SchemaError):
        ArgumentValidator(schema)


def test_the_draft_is_the_one_the_schema_names():
    old = "http://json-schema.org/draft-04/schema#"
    schema = {"properties": {"n": {"type": "number", "maximum": 3, "exclusiveMaximum": True}}}
    assert ArgumentValidator({"$schema": old, **schema}).is_valid({"n": 2})
    assert not ArgumentValidator({"$schema": old, **schema}).is_valid({"n": 3})
    with pytest.raises(SchemaError):
        ArgumentValidator(schema)


def test_format_says_what_is_meant_and_checks_nothing():
    assert ArgumentValidator(of(p={**STRING, "format": "date"})).is_valid({"p": "tomorrow"})


def test_references_that_multiply_are_refused():
    levels = {f"l{n}": {"anyOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(40)}
    with pytest.raises(SchemaError, match="references"):
        ArgumentValidator({"$ref": "#/$defs/l0", "$defs": {**levels, "l40": INTEGER}})


def test_a_schema_that_is_shared_without_end_is_refused():
    schema = {"type": "object"}
    for _ in range(60):
        schema = {"properties": {"a": schema, "b": schema}}
    with pytest.raises(SchemaError, match="parts"):
        ArgumentValidator(schema)


def test_a_schema_that_is_too_deep_is_refused():
    schema = {}
    for _ in range(10_000):
        schema = {"items": schema}
    with pytest.raises(SchemaError, match="deep"):
        ArgumentValidator(schema)


def test_a_schema_that_is_only_itself_allows_everything():
    assert ArgumentValidator({"$ref": "#"})({"a": 1}) == {"a": 1}


def test_a_schema_that_is_itself_with_a_default_is_refused_as_too_deep():
    assert refusal({"$ref": "#", "default": 1}, {"a": 1}).reason_code == "invalid_argument"


@pytest.mark.parametrize("named", ["enum", "properties", "required", "allOf"])
def test_a_property_may_have_the_name_of_a_keyword(named):
    schema = {"properties": {named: True}, "default": {named: 1}}
    assert ArgumentValidator(schema)({named: 1}) == {named: 1}


def test_an_empty_list_of_options_has_an_error_of_its_own():
    message = "'p' must be one of its options, not 1."
    assert refusal(of(p={"enum": []}), {"p": 1}).message == message


def _nested(levels):
    value = {}
    for _ in range(levels):
        value = {"a": value}
    return value


RECURSIVE = {"type": "object", "additionalProperties": {"$ref": "#"}}


def test_deep_arguments_are_checked_as_deep_as_they_may_be():
    assert ArgumentValidator(RECURSIVE)(_nested(99)) == _nested(99)


@pytest.mark.parametrize("levels", [101, 1_000, 50_000])
def test_arguments_that_are_too_deep_are_refused(levels):
    arguments = _nested(levels)
    assert refusal(RECURSIVE, arguments).message == "The arguments are nested too deeply."
    assert refusal(of(), arguments).message == "The arguments are nested too deeply."
    while arguments:  # taken apart by hand, since freeing it would recurse as deep
        arguments = arguments["a"]


def test_deep_arguments_that_nothing_looks_into_pass():
    arguments = {"n": 1.0, "deep": _nested(500)}
    result = ArgumentValidator({"properties": {"n": INTEGER}})(arguments)
    assert (type(result["n"]), result["deep"] is arguments["deep"]) == (int, True)


def test_arguments_that_contain_themselves_are_refused():
    arguments = {}
    arguments["a"] = [arguments, arguments]
    assert refusal(RECURSIVE, arguments).message == "The arguments are nested too deeply."


def test_a_recursive_schema_with_many_branches_ends():
    branch = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["z"]}
    schema = {"type": "object", "anyOf": [branch] * 5}
    assert refusal(schema, _nested(30)).status == "invalid_argument"


def test_keys_that_are_no_strings_are_refused():
    assert "strings as keys" in refusal(of(a=INTEGER), {1: 2}).message


@pytest.mark.parametrize(
    "value", [2**64, -(2**70), 10**400, 1e300, -1e308, Decimal("1.5"), Decimal("1e999")], ids=str
)
def test_numbers_of_any_size_are_checked(value):
    assert ArgumentValidator(of(p=NUMBER))({"p": value}) == {"p": value}
    assert refusal(of(p=STRING), {"p": value}).reason_code == "wrong_type"


@pytest.mark.parametrize("value", ["\0", "a" * 1_000_000, "𝄞"], ids=repr)
def test_strings_of_any_kind_are_checked(value):
    assert ArgumentValidator(of(p=STRING))({"p": value}) == {"p": value}
    assert refusal(of(p=INTEGER), {"p": value}).reason_code == "wrong_type"


def test_half_a_character_is_named_where_something_is_wrong():
    assert ArgumentValidator(of(p=STRING))({"p": "\ud800"}) == {"p": "\ud800"}
    error = refusal(of(p=INTEGER), {"p": "\ud800"})
    assert error.message == "The arguments have half a character (a lone surrogate)."


def test_one_wrong_item_among_very_many_is_named():
    error = refusal(of(p=NUMBERS), {"p": [1] * 50_000 + ["x"] * 50_000})
    assert error.message == "'p[50000]' must be a number, not \"x\"."


def test_one_validator_serves_many_threads():
    validate = ArgumentValidator(of(a=INTEGER, b={"anyOf": [INTEGER, BOOLEAN]}))
    results = []

    def work():
        results.extend(validate({"a": str(n), "b": "true"}) for n in range(200))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results, key=lambda r: r["a"]) == [
        {"a": n, "b": True} for n in range(200) for _ in range(4)
    ]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
SCHEMAS = st.sampled_from(
    [
        of(a=INTEGER, b=STRING, c=NUMBERS, d=POINT),
        {"additionalProperties": {"anyOf": [INTEGER, BOOLEAN, NUMBERS, {"type": "null"}]}},
        {"additionalProperties": {"oneOf": [POINT, STRING]}, "minProperties": 1},
        {"properties": {"a": {"$ref": "#"}}, "additionalProperties": NUMBER},
    ]
)


@given(SCHEMAS, st.dictionaries(st.sampled_from("abcd") | st.text(), JSON, max_size=4))
def test_what_is_returned_is_valid_and_what_is_refused_was_not(schema, arguments):
    before = copy.deepcopy(arguments)
    validate = ArgumentValidator(schema)
    fits = validate.is_valid(arguments)
    try:
        result = validate(arguments)
    except ToolValidationError as refused:
        error = refused
        result = None
    if result is None:
        assert not fits
        assert (error.message[-1], bool(error.reason_code)) == (".", True)
    else:
        assert validate.is_valid(result)
        assert result == arguments or not fits
    assert arguments == before


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, {}),
        ("", {}),
        ("  ", {}),
        ("{}", {}),
        ('{"a": 1.5}', {"a": 1.5}),
        ({"a": 1}, {"a": 1}),
    ],
)
def test_arguments_come_as_a_mapping_a_text_or_nothing(value, wanted):
    assert parse_arguments(value) == wanted


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            '{"a": 1',
            "The arguments are not valid JSON: expecting ',' delimiter at line 1, column 8.",
        ),
        ('{"a": NaN}', "The arguments are not valid JSON: NaN is not a JSON number."),
        ('{"a": -Infinity}', "The arguments are not valid JSON: -Infinity is not a JSON number."),
        (
            '{"a": 1, "b": {"c": 1, "c": 2}}',
            "The arguments are not valid JSON: the key 'c' appears twice.",
        ),
        (
            '{"%s": 1, "%s": 2}' % ("k" * 9999, "k" * 9999),  # noqa: UP031 - braces are JSON here
            f"The arguments are not valid JSON: the key {'k' * 100!r} appears twice.",
        ),
        ("[1]", "The arguments must be a JSON object, not list."),
        ('"a"', "The arguments must be a JSON object, not str."),
        ("null", "The arguments must be a JSON object, not NoneType."),
        (3, "The arguments must be a JSON object, not int."),
        ("[" * 100_000, "The arguments are not valid JSON: it is nested too deeply."),
        (
            '{"a": ' + "9" * 5000 + "}",
            "The arguments are not valid JSON: a number has too many digits.",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_text_that_is_no_object_is_refused_with_its_place(value, message):
    with pytest.raises(ToolValidationError) as caught:
        parse_arguments(value)
    assert caught.value.message == message


def test_a_pattern_of_names_that_would_never_finish_is_not_searched():
    schema = {"properties": {"n": {"type": "integer"}}, "patternProperties": {"^(a+)+$": False}}
    with pytest.raises(ToolValidationError, match="'n' must be an integer"):
        ArgumentValidator(schema)({"a" * 60 + "!": 1, "n": "x"})
