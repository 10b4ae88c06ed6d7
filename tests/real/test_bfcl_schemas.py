"""The schemas and the argument values of BFCL's single-turn sets."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
from google.genai import types as genai_types

from leonidas_tools import AdvancedToolProcessor, ResultStatus, Tool, ToolSession
from tests.real.bfcl import Bfcl, Case, json_schema

pytestmark = pytest.mark.slow

_LEGAL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
_PYTHON_SETS = ("simple_python", "multiple", "parallel", "parallel_multiple")
_LIVE_SETS = ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple")
_OTHER_SETS = (
    "simple_java",
    "simple_javascript",
    "irrelevance",
    "live_irrelevance",
    "live_relevance",
)

_REFUSED_FOR_GOOD = {
    # The schema wants strings; the answer nests each in a list of its own.
    ("simple_python_149", "company_names", "[['Apple'], ['Microsoft']]"),
    # A yes or no where the schema wants the name of a venue.
    ("simple_python_307", "venue", "True"),
    # Not among the values that the schema lists: other letters, other words.
    ("simple_python_358", "diet", "['GF']"),
    ("simple_python_358", "diet", "['gluten free']"),
    ("multiple_76", "material", "'bronze'"),
    ("parallel_multiple_143", "specs", "['open-hole', 'silver-headjoint']"),
    ("parallel_multiple_173", "time_frame", "'1 year'"),
    ("parallel_multiple_173", "time_frame", "'12 months'"),
    ("parallel_multiple_173", "time_frame", "'5 years'"),
    ("parallel_multiple_194", "unit", "'ft'"),
    # Words where the schema wants integers.
    ("parallel_multiple_94", "elements", "['apple', 'banana', 'cherry', 'date', 'elderberry']"),
    ("parallel_multiple_94", "elements", "['elderberry', 'cherry', 'banana', 'apple', 'date']"),
    # A Python expression where the schema wants a list of numbers.
    ("parallel_multiple_21", "x", "\"data['sales']\""),
    ("parallel_multiple_21", "y", "\"data['future_sales']\""),
}
"""Case, parameter and value: answers of the dataset that its own schemas rule out."""


def recorder(schema: Mapping[str, Any]) -> Any:
    """A tool with this schema that returns the arguments it was given."""
    return Tool.from_json_schema(
        name=schema["name"],
        description=schema["description"],
        parameters=json_schema(schema["parameters"]),
        function=lambda **arguments: arguments,
        effect="read",
    )


def processor(case: Case) -> AdvancedToolProcessor:
    """All functions of a case as tools."""
    tools = [recorder(schema) for schema in case.functions]
    return AdvancedToolProcessor(tools=tools, builtin_tools=False)


def value(possible: Any) -> Any:
    """One value out of an answer: within an object each key holds a list of what is right."""
    if isinstance(possible, dict):
        return {
            key: value(options[0]) if isinstance(options, list) and options else options
            for key, options in possible.items()
            if options != [""] and not (isinstance(options, list) and "" in options[:1])
        }
    if isinstance(possible, list):
        return [value(item) for item in possible]
    return possible


def choices(answer: Mapping[str, Any]) -> dict[str, list[Any]]:
    """By parameter, the right values; an empty string says that it may be left out."""
    return {
        name: [value(option) for option in options if option != ""]
        for name, options in answer.items()
    }


def variants(case: Case) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Function, parameter and arguments: each right value once, beside the first of the others.

    A value that is refused for good never stands beside another; where a parameter has no other
    values, it alone is tried.
    """
    for function, answer in case.answers:
        values = choices(answer)
        first = {
            name: good[0]
            for name, options in values.items()
            if (good := [o for o in options if (case.id, name, repr(o)) not in _REFUSED_FOR_GOOD])
        }
        hopeless = {name for name, options in values.items() if options and name not in first}
        for name in hopeless or values:
            for option in values[name]:
                yield function, name, first | {name: option}


def given(arguments: dict[str, Any]) -> str:
    """The arguments that say something: null counts as left out.

    They are told in JSON, where `1`, `1.0` and `true` are not the same.
    """
    said = {key: item for key, item in arguments.items() if item is not None}
    return json.dumps(said, sort_keys=True)


async def outcome(
    tools: AdvancedToolProcessor, function: str, arguments: dict[str, Any]
) -> tuple[ResultStatus, str]:
    """How the call ended, and what became of the arguments given."""
    # In a session of its own: the same call over and over would be taken for a loop.
    result = await tools.execute(function, arguments, session=ToolSession())
    arrived = without_defaults(result.result or {}, arguments)
    return result.status, given(arrived)


def without_defaults(arrived: Any, sent: Any) -> Any:
    """What arrived, without what was filled in."""
    if isinstance(arrived, dict) and isinstance(sent, dict):
        return {key: without_defaults(arrived[key], sent[key]) for key in sent if key in arrived}
    if isinstance(arrived, list) and isinstance(sent, list):
        return [without_defaults(*pair) for pair in zip(arrived, sent, strict=True)]
    return arrived


@pytest.fixture(scope="module")
def cases(bfcl: Bfcl) -> dict[str, list[Case]]:
    names = _PYTHON_SETS + _LIVE_SETS + _OTHER_SETS
    return {name: list(bfcl.cases(name)) for name in names}


def test_every_schema_is_declared_under_a_legal_name(cases: dict[str, list[Case]]) -> None:
    declared = 0
    for case in (case for found in cases.values() for case in found):
        declarations = [
            declaration
            for tool in processor(case).declarations()
            for declaration in tool.function_declarations or ()
        ]
        names = [declaration.name for declaration in declarations]
        assert len(set(names)) == len(case.functions) == len(names), case.id
        for declaration in declarations:
            assert _LEGAL.fullmatch(declaration.name or ""), (case.id, declaration.name)
            again = genai_types.FunctionDeclaration(
                name=declaration.name,
                description=declaration.description,
                parameters_json_schema=declaration.parameters_json_schema,
            )
            assert again == declaration
        declared += len(declarations)
    assert declared == 8726


async def test_the_right_values_of_the_python_sets_are_accepted_and_arrive_unchanged(
    cases: dict[str, list[Case]],
) -> None:
    refused, tried = set(), 0
    for case in (case for name in _PYTHON_SETS for case in cases[name]):
        tools = processor(case)
        for function, name, arguments in variants(case):
            tried += 1
            status, arrived = await outcome(tools, function, arguments)
            if status is ResultStatus.INVALID_ARGUMENT:
                refused.add((case.id, name, repr(arguments[name])))
            else:
                assert (status, arrived) == (ResultStatus.OK, given(arguments)), case.id
    assert refused == _REFUSED_FOR_GOOD
    assert tried == 6117


async def test_what_a_full_validator_accepts_of_the_live_sets_is_accepted_unchanged(
    cases: dict[str, list[Case]],
) -> None:
    accepted = 0
    for case in (case for name in _LIVE_SETS for case in cases[name]):
        tools = processor(case)
        schemas = {schema["name"]: json_schema(schema["parameters"]) for schema in case.functions}
        for function, _, arguments in variants(case):
            if not jsonschema.Draft202012Validator(schemas[function]).is_valid(arguments):
                continue
            accepted += 1
            ended = await outcome(tools, function, arguments)
            assert ended == (ResultStatus.OK, given(arguments)), case.id
    assert accepted == 3780
