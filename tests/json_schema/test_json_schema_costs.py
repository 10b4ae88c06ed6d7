"""Schemas and arguments that would take long to check are refused before they are checked."""

import functools

import jsonschema_rs
import pytest

from leonidas_tools import AdvancedToolProcessor, Tool
from leonidas_tools.errors import SchemaError, ToolValidationError
from leonidas_tools.json_schema import ArgumentValidator, coercion, document, report

pytestmark = pytest.mark.slow


def nested(keyword, depth, width, leaf):
    """A schema of branches in branches, each an object of its own, as JSON brings them."""
    if depth == 0:
        return dict(leaf)
    branches = [nested(keyword, depth - 1, width, leaf) for _ in range(width)]
    if keyword in ("anyOf", "oneOf", "allOf"):
        return {keyword: branches}
    if keyword in ("dependentSchemas", "dependencies"):
        return {keyword: {f"k{number}": each for number, each in enumerate(branches)}}
    return dict(zip(("if", "then", "else", "not"), branches, strict=False))


LEAF = {"type": "integer", "minimum": 5}
KEYWORDS = ("anyOf", "oneOf", "allOf", "if", "dependentSchemas", "dependencies")


@pytest.mark.parametrize("keyword", KEYWORDS)
@pytest.mark.parametrize("place", ["properties", "items", "top"])
def test_branches_that_multiply_are_refused_without_any_reference(keyword, place):
    bomb = nested(keyword, 12, 2, LEAF)
    schema = {
        "properties": {"properties": {"a": bomb}},
        "items": {"properties": {"a": {"items": bomb}}},
        "top": bomb,
    }[place]
    with pytest.raises(SchemaError, match="against more than 4000 schemas"):
        ArgumentValidator(schema)


DRAFT_4, DRAFT_7 = (f"http://json-schema.org/draft-0{number}/schema#" for number in (4, 7))
WAYS_TO_REFER = {
    "dynamic anchor": ("$ref", "#d{}", {"$dynamicAnchor": "d{}"}, {}),
    "dynamic reference": ("$dynamicRef", "#d{}", {"$dynamicAnchor": "d{}"}, {}),
    "id": ("$ref", "d{}", {"$id": "d{}"}, {"$id": "http://example.com/"}),
    "id as anchor": ("$ref", "#d{}", {"$id": "#d{}"}, {"$schema": DRAFT_7}),
    "id of draft 4": ("$ref", "#d{}", {"id": "#d{}"}, {"$schema": DRAFT_4}),
    "own address": ("$ref", "HTTP://example.com/a#/$defs/{}", {}, {"$id": "http://example.com/a"}),
}


@pytest.mark.parametrize("way", WAYS_TO_REFER)
def test_references_that_multiply_are_refused_however_they_name_their_schema(way):
    keyword, reference, name, top = WAYS_TO_REFER[way]

    def refer(number):
        return {keyword: reference.format(number)}

    steps = {
        str(number): {
            **{key: value.format(number) for key, value in name.items()},
            "allOf": [refer(number + 1)] * 2 if number < 14 else [],
        }
        for number in range(15)
    }
    with pytest.raises(SchemaError, match="against more than 4000 schemas"):
        ArgumentValidator({**top, "allOf": [refer(0)], "$defs": steps})


def test_references_that_multiply_inside_a_part_with_an_id_are_refused():
    steps = {
        str(number): {"allOf": [{"$ref": f"#/$defs/{number + 1}"}] * 2 if number < 14 else []}
        for number in range(15)
    }
    inner = {"$id": "http://example.com/in", "allOf": [{"$ref": "#/$defs/0"}], "$defs": steps}
    with pytest.raises(SchemaError, match="against more than 4000 schemas"):
        ArgumentValidator({"properties": {"a": inner}})


@pytest.mark.parametrize(
    "schema",
    [
        {"$dynamicAnchor": "n", "additionalProperties": {"anyOf": [{"$dynamicRef": "#n"}] * 2}},
        {
            "additionalProperties": {"$ref": "http://example.com/n"},
            "$defs": {
                "n": {
                    "$id": "http://example.com/n",
                    "type": "object",
                    "additionalProperties": {"anyOf": [{"$ref": "#"}] * 2},
                }
            },
        },
    ],
)
def test_a_value_that_goes_deep_in_branches_by_such_references_is_refused_unchecked(schema):
    value = 1
    for _ in range(40):
        value = {"a": value}
    with pytest.raises(ToolValidationError, match="too many checks"):
        ArgumentValidator(schema)(value)


def test_a_long_reference_is_followed_once_for_all_values(monkeypatch):
    decoded = []
    unquote = document.unquote
    monkeypatch.setattr(document, "unquote", lambda text: decoded.append(text) or unquote(text))
    number = {"anyOf": [{"$ref": "#/$defs/%41"}]}
    validate = ArgumentValidator(
        {
            "properties": {"x": {"items": number}, "more": {"$ref": "#"}},
            "$defs": {"A": {"type": "integer"}},
        }
    )
    with pytest.raises(ToolValidationError):
        validate({"x": [each + 0.5 for each in range(200)]})
    assert len(decoded) < 20


def test_of_very_many_missing_values_only_the_first_is_told():
    validate = ArgumentValidator({"required": [f"r{number}" for number in range(20_000)]})
    with pytest.raises(ToolValidationError, match=r"'r0' is missing\.$"):
        validate({})


def test_a_schema_whose_defaults_are_a_very_long_way_off_is_refused():
    steps = {str(n): {"items": {"$ref": f"#/$defs/{n + 1}"}} for n in range(3_000)}
    with pytest.raises(SchemaError, match="too long chain of references"):
        ArgumentValidator({"$ref": "#/$defs/0", "$defs": {**steps, "3000": {"default": 1}}})


def test_a_schema_with_very_many_parts_of_one_name_is_refused():
    parts = {str(number): {"$anchor": "a"} for number in range(101)}
    with pytest.raises(SchemaError, match="too many parts with an id"):
        ArgumentValidator({"$ref": "#a", "$defs": parts})


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_tool_with_such_a_schema_is_not_registered(keyword):
    schema = {"type": "object", "properties": {"a": nested(keyword, 12, 2, LEAF)}}
    with pytest.raises(SchemaError):
        Tool.from_json_schema(
            name="bomb", description="A bomb.", parameters=schema, function=lambda **_: None
        )


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_coercing_what_never_fits_ends(keyword):
    validate = ArgumentValidator({"properties": {"a": nested(keyword, 9, 2, LEAF)}})
    with pytest.raises(ToolValidationError):
        validate({"a": "3"})
    with pytest.raises(ToolValidationError):
        validate({"a": ["3"] * 1000})


RECURSIVE = {
    "$defs": {
        "node": {
            "anyOf": [
                {"properties": {"b": {"$ref": "#/$defs/node"}}, "required": ["b"]},
                {"properties": {"b": {"$ref": "#/$defs/node"}}, "required": ["c"]},
                {"type": "integer"},
            ]
        }
    },
    "properties": {"a": {"$ref": "#/$defs/node"}},
}


def deep(levels, leaf):
    for _ in range(levels):
        leaf = {"b": leaf}
    return leaf


CONSTANTS = {"anyOf": [{"const": number} for number in range(500)]}
COSTLY = [
    (RECURSIVE, {"a": deep(60, "x")}),
    ({"properties": {"a": {"items": CONSTANTS}}}, {"a": ["x"] * 5_000}),
    ({"properties": {"a": {"items": {"not": CONSTANTS}}}}, {"a": ["x"] * 5_000}),
    ({"properties": {"a": {"contains": CONSTANTS}}}, {"a": ["x"] * 5_000}),
    ({"properties": {"a": {"unevaluatedItems": CONSTANTS}}}, {"a": ["x"] * 5_000}),
    ({"unevaluatedProperties": CONSTANTS}, {str(n): f"x{n}" for n in range(5_000)}),
    ({"additionalProperties": CONSTANTS}, {str(n): f"x{n}" for n in range(5_000)}),
    ({"properties": {"a": {"items": {"allOf": [CONSTANTS] * 5}}}}, {"a": ["x"] * 5_000}),
    ({"properties": {"a": {"pattern": r"(\w{1,200}){1,30}x"}}}, {"a": "ab" * 5_000}),
    ({"propertyNames": {"pattern": r"(\w{1,200}){1,30}x"}}, {"ab" * 5_000: 1}),
    ({"properties": {"a": {"items": {"enum": [*range(1_000), "x"]}}}}, {"a": [999] * 1_000}),
    ({"properties": {"a": {"allOf": [{"uniqueItems": True}] * 200}}}, {"a": [*range(2_000)]}),
    ({"properties": {"a": {"items": {"enum": [[n] for n in range(1_000)]}}}}, {"a": [[9]] * 1_000}),
]


@pytest.mark.parametrize(("schema", "arguments"), COSTLY)
def test_arguments_that_take_too_many_checks_are_refused_unchecked(schema, arguments):
    validate = ArgumentValidator(schema)
    checked = []
    validate.is_valid = lambda value: checked.append(value) or True
    with pytest.raises(ToolValidationError, match="too many checks") as caught:
        validate(arguments)
    assert caught.value.reason_code == "invalid_argument"
    assert checked == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", "00000000-0000-0000-0000-000000000000"),
        (r"^[^@\s]+@[^@\s]+$", "a" * 20_000 + "@example.org"),
        (r"^[\s\S]{1,10000}$", "a text " * 1_400),
        (r"^urn:[^\]\\]{1,2048}$", "urn:" + "a" * 2_048),
    ],
)
def test_an_ordinary_pattern_is_checked_on_a_text_of_any_length(pattern, text):
    validate = ArgumentValidator({"properties": {"a": {"pattern": pattern}}})
    assert validate({"a": text}) == {"a": text}
    with pytest.raises(ToolValidationError, match="'a'"):
        validate({"a": ""})


def test_a_schema_whose_patterns_take_long_to_compile_is_refused():
    with pytest.raises(SchemaError, match="too many or too large patterns"):
        ArgumentValidator({"properties": {"a": {"pattern": "(a|b)" * 30_000}}})


def test_a_schema_whose_parts_take_long_to_compile_is_refused():
    schema = {"type": "integer"}
    for level in range(90):
        large = {f"r{n}": {"pattern": rf"(\w{{1,200}}){{1,3}}x{level}_{n}"} for n in range(20)}
        schema = {"type": "object", "properties": {"p": schema, **large}}
    with pytest.raises(SchemaError, match="too many or too large patterns"):
        ArgumentValidator(schema)


@pytest.mark.parametrize("pattern", [r"\p{L}{100}", r"[^\p{L}\p{N}]{50}"])
def test_a_schema_whose_classes_of_characters_take_long_to_compile_is_refused(pattern):
    schema = {
        "properties": {f"p{number}": {"pattern": f"{pattern}{number}"} for number in range(400)}
    }
    with pytest.raises(SchemaError, match="too many or too large patterns"):
        ArgumentValidator(schema)


def test_a_schema_with_a_few_classes_of_all_letters_is_taken():
    names = {f"p{number}": {"pattern": r"^[\p{L}\p{M}' -]{1,40}$"} for number in range(20)}
    assert ArgumentValidator({"properties": names})({"p7": "Inês"}) == {"p7": "Inês"}


def test_a_schema_with_very_many_deep_parts_is_refused():
    def deep_in(levels):
        schema = {"type": "integer"}
        for _ in range(levels):
            many = {f"r{number}": {"type": "string"} for number in range(200)}
            schema = {"type": "object", "properties": {"p": schema, **many}}
        return schema

    with pytest.raises(SchemaError, match="too many parts"):
        ArgumentValidator(deep_in(90))
    assert ArgumentValidator(deep_in(20))({"r0": "x"}) == {"r0": "x"}


def test_a_schema_with_a_very_long_chain_of_references_is_refused():
    chain = {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(3_000)}
    with pytest.raises(SchemaError, match="chain of references"):
        ArgumentValidator({"$defs": {**chain, "3000": {}}, "$ref": "#/$defs/0"})


def test_the_work_of_a_value_is_counted_by_its_size(monkeypatch):
    validate = ArgumentValidator({"properties": {"a": {"items": CONSTANTS}}})
    counted = []
    own = document.Document._own
    monkeypatch.setattr(document.Document, "_own", lambda *args: counted.append(1) or own(*args))
    for size in (10, 100_000):
        with pytest.raises(ToolValidationError):
            validate({"a": [{"k": number} for number in range(size)]})
    assert len(counted) < 600


@pytest.mark.parametrize("keyword", ["allOf", "anyOf"])
@pytest.mark.parametrize("inner", ["unevaluatedProperties", "unevaluatedItems"])
def test_unevaluated_parts_that_multiply_are_refused(keyword, inner):
    schema = {"type": ["object", "array"]}
    for _ in range(20):
        schema = {keyword: [schema], inner: {"type": "integer"}}
    with pytest.raises(SchemaError, match="against more than 4000 schemas"):
        ArgumentValidator(schema)


def test_an_ordinary_recursive_value_is_checked():
    json = {"$ref": "#/$defs/json"}
    kinds = [{"type": "string"}, {"type": "number"}, {"type": "array", "items": json}]
    kinds.append({"type": "object", "additionalProperties": json})
    schema = {"properties": {"a": json}, "$defs": {"json": {"anyOf": kinds}}}
    rows = [{"k": [1, "x", {"y": 2}] * 5} for _ in range(300)]
    assert ArgumentValidator(schema)({"a": rows}) == {"a": rows}


def test_a_default_that_takes_too_many_checks_is_not_checked():
    costly = {"items": CONSTANTS, "default": [-1] * 20_000}
    schema = {"properties": {"a": costly}, "required": ["a"]}
    validate = ArgumentValidator(schema)
    is_valid, checked = validate.is_valid, []
    validate.is_valid = lambda value: checked.append(value) or is_valid(value)
    with pytest.raises(ToolValidationError, match="too many checks"):
        validate({})
    assert {} in checked
    assert not any(checked)


def test_ordinary_schemas_and_arguments_are_checked_as_before():
    assert ArgumentValidator(RECURSIVE)({"a": deep(5, 3)}) == {"a": deep(5, 3)}
    assert not document.Document({"properties": {"a": CONSTANTS["anyOf"][0]}}).may_be_costly
    optional = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    plain = {"properties": {str(n): optional for n in range(20)}}
    assert not document.Document(plain).may_be_costly


class Watched:
    """The schemas of the parts of a document, which note what they check."""

    def __init__(self, parts):
        self.parts, self.checked = parts, []

    def get(self, pointer):
        self.part = self.parts.get(pointer)
        return None if self.part is None else self

    def is_valid(self, value):
        self.checked.append(value)
        return self.part.is_valid(value)

    def iter_errors(self, value):
        return self.part.iter_errors(value)


TEXTS = {"items": {"type": "string", "pattern": "[a-z0-9]{0,500}$"}}
LEVEL = {"type": "object", "properties": {"b": {"$ref": "#/$defs/node"}, "texts": TEXTS}}
LONG_TEXTS = {"texts": ["a" * 600 + str(number) for number in range(3)]}


def watched(node, **properties):
    properties = {"a": {"$ref": "#/$defs/node"}, **properties}
    validate = ArgumentValidator({"$defs": {"node": node}, "properties": properties})
    validate._document.validators = Watched(validate._document.validators)
    return validate, validate._document.validators.checked


def test_coercing_does_not_check_a_costly_value_at_each_level_above_it():
    node = {"anyOf": [LEVEL, {"type": "integer"}]}
    validate, checked = watched(node, n={"type": "integer"})
    arguments = {"n": "7", "a": deep(45, LONG_TEXTS)}
    assert validate(arguments) == {**arguments, "n": 7}
    assert len(checked) <= 10


def test_an_error_far_below_in_a_costly_value_is_reported():
    node = {"properties": {**LEVEL["properties"], "n": {"type": "integer"}}}
    validate, checked = watched(node)
    with pytest.raises(ToolValidationError, match=r"'a\.b\.b\.[b.]+n' must be an integer"):
        validate({"a": deep(90, {**LONG_TEXTS, "n": "x"})})
    assert not checked


BACKTRACKING = [
    (r"^(?=.*\d)(?=.*[A-Z]).{8,}$", "Abcdef12" * 5_000),
    (r"^(?!\s*$).+", "a text " * 5_000),
    (r"(a*)*\1$", "a" * 60 + "b"),
    (r"^(?=(a+)+$)\1", "a" * 60 + "b"),
]


@pytest.mark.parametrize(("pattern", "text"), BACKTRACKING)
async def test_a_pattern_that_needs_backtracking_is_logged_not_checked(pattern, text, caplog):
    schema = {"properties": {"a": {"anyOf": [{"pattern": pattern}]}, "n": {"type": "integer"}}}
    tool = Tool.from_json_schema(
        name="find", description="Finds.", parameters=schema, function=lambda a, n: [a, n]
    )
    tools = AdvancedToolProcessor(tools=[tool])
    assert (await tools.execute("find", {"a": text, "n": "1"})).result == [text, 1]
    assert (await tools.execute("find", {"a": text, "n": "x"})).reason_code == "wrong_type"
    assert f"The pattern {pattern!r} is not checked" in caplog.text


@pytest.mark.parametrize("pattern", [r"^(a+)+$", r"^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_a_pattern_of_nested_repeats_is_checked(pattern):
    validate = ArgumentValidator({"properties": {"a": {"pattern": pattern}}})
    with pytest.raises(ToolValidationError, match="must match the pattern"):
        validate({"a": "a" * 40_000 + "!"})


def test_names_by_a_pattern_that_needs_backtracking_are_refused():
    with pytest.raises(SchemaError, match="not a JSON Schema"):
        ArgumentValidator({"patternProperties": {"^(?!a)": {}}})


def test_a_constant_keeps_what_looks_like_a_pattern():
    value = {"pattern": "(?=a)"}
    validate = ArgumentValidator({"properties": {"p": {"const": value}, "q": dict(value)}})
    assert validate({"p": value, "q": "b"}) == {"p": value, "q": "b"}


def test_a_json_text_that_takes_too_many_checks_is_refused():
    schema = {"properties": {"a": {"type": "array", "items": {"enum": [*range(1_000), "x"]}}}}
    with pytest.raises(ToolValidationError, match="too many checks"):
        ArgumentValidator(schema)({"a": f"[{'999, ' * 1_000}999]"})


def test_defaults_that_multiply_are_filled_in_only_as_far_as_that_is_quick():
    part = {"properties": {f"b{number}": {"default": ["y"] * 50} for number in range(100)}}
    validate = ArgumentValidator({"properties": {"a": {"type": "array", "items": part}}})
    assert [len(each) for each in validate({"a": [{}, {"b7": []}]})["a"]] == [100, 100]
    with pytest.raises(ToolValidationError, match="leave out too much that has a default"):
        validate({"a": [{}] * 5000})


NAMES = [f"name{number}" for number in range(3_000)]
OPTIONS = [f"option {number}" for number in range(20_000)]
MANY_ERRORS = [
    ({"required": NAMES}, {"a": [0] * 5_000}, "'name0' is missing."),
    ({"dependentRequired": {"a": NAMES}}, {"a": [0] * 5_000}, "'name0' is missing."),
    ({"allOf": [{"required": NAMES[:200]}]}, {"a": [0] * 5_000}, "'name0' is missing."),
    (
        {"properties": {"a": {"items": {"enum": OPTIONS}}}},
        {"a": ["no option"] * 900},
        "'a[0]' must be one of its options, not \"no option\".",
    ),
    (
        {"properties": {"a": {"items": {"const": [0] * 20_000}}}},
        {"a": [1] * 900},
        "'a[0]' must be [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,…, not 1.",
    ),
]


@pytest.mark.parametrize(("schema", "arguments", "message"), MANY_ERRORS)
def test_of_very_many_or_large_errors_only_the_first_is_told(schema, arguments, message):
    with pytest.raises(ToolValidationError) as caught:
        ArgumentValidator(schema)(arguments)
    assert str(caught.value) == message


def test_what_is_nearest_to_a_wrong_value_is_looked_for_only_once(monkeypatch):
    looked_for = []
    monkeypatch.setattr(report, "closest", lambda name, *_, **__: looked_for.append(name) or [])
    schema = {"properties": {name: {} for name in NAMES}, "additionalProperties": False}
    with pytest.raises(ToolValidationError, match="and 95 more"):
        ArgumentValidator(schema)({f"nome{number}": 1 for number in range(100)})
    assert looked_for == ["nome0"]


def test_a_long_list_of_options_is_looked_through_once_to_coerce_many_values(monkeypatch):
    looked_at = []
    known = coercion.accepted_types
    monkeypatch.setattr(
        coercion, "accepted_types", lambda each: looked_at.append(each) or known(each)
    )
    schema = {"properties": {"a": {"items": {"enum": OPTIONS}}, "n": {"type": "integer"}}}
    arguments = {"a": ["option 7"] * 900, "n": "7"}
    assert ArgumentValidator(schema)(arguments) == {**arguments, "n": 7}
    assert len(looked_at) < 10


def test_a_pattern_of_names_is_compiled_once_to_coerce_many_values(monkeypatch):
    compiled = []
    for name in ("validator_for", "is_valid"):
        known = getattr(jsonschema_rs, name)
        count = functools.partial(
            lambda known, *each, **more: compiled.append(each) or known(*each, **more), known
        )
        monkeypatch.setattr(jsonschema_rs, name, count)
    schema = {"properties": {"n": {"type": "integer"}}, "patternProperties": {r"^[\p{L}]+_7$": {}}}
    arguments = {"n": "7", **{f"p{number}": 1 for number in range(500)}}
    assert ArgumentValidator(schema)(arguments) == {**arguments, "n": 7}
    assert len(compiled) < 10
