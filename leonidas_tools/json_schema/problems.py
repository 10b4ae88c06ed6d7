"""Turn errors of jsonschema-rs into problems that a model can act on."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import jsonschema_rs

from leonidas_tools.json_schema.document import MAX_ARGUMENT_DEPTH
from leonidas_tools.json_schema.report import (
    PathKeys,
    SchemaProblem,
    error_of,
    nearest_first,
    path_text,
    value_text,
)
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from leonidas_tools.errors import ToolValidationError
    from leonidas_tools.json_schema.document import Document

MAX_EXAMINED: Final = 50
MAX_WORK_OF_ERRORS: Final = 20_000
"""Limit of the work of finding all errors: each copies the value that it is about."""
_ORDER: Final = {"missing_argument": 0, "unknown_argument": 1}

_Error: TypeAlias = jsonschema_rs.ValidationError


def error_in(document: Document, arguments: Any) -> ToolValidationError:
    """Return one error for all problems; missing and unknown arguments come first."""
    schema = document.schema
    known = list(schema.get("properties", {})) if isinstance(schema, Mapping) else []
    found = [
        problem
        for error in itertools.islice(_errors_in(document, arguments), MAX_EXAMINED)
        for problem in _problems(error, known)
    ]
    distinct = {(problem.path, problem.reason): problem for problem in found}
    problems = sorted(distinct.values(), key=lambda problem: _ORDER.get(problem.code, 2))
    return error_of(problems or [SchemaProblem(path=(), reason=say("argument_schema"))])


def _errors_in(document: Document, arguments: Any) -> Iterable[_Error]:
    """Return the errors of arguments; only the first if all of them would take long to find."""
    if document.work(arguments, with_errors=True) <= MAX_WORK_OF_ERRORS:
        return document.validator.iter_errors(arguments)
    try:
        document.validator.validate(arguments)
    except jsonschema_rs.ValidationError as error:
        return [error]
    return []


def without_json(arguments: Mapping[Any, Any]) -> ToolValidationError:
    """Return the error that names the first part of the arguments that has no JSON form."""
    is_valid = jsonschema_rs.validator_for({"type": "null"}).is_valid
    parts: list[tuple[PathKeys, Any]] = [((), arguments)]
    for path, part in parts:
        if len(path) > MAX_ARGUMENT_DEPTH:
            return error_of([SchemaProblem(path=(), reason=say("argument_too_deep"))])
        if isinstance(part, dict):
            if not all(isinstance(key, str) for key in part):
                return error_of([SchemaProblem(path=path, reason="must have strings as keys")])
            parts += (((*path, key), each) for key, each in part.items())
        elif isinstance(part, list | tuple):
            parts += (((*path, index), each) for index, each in enumerate(part))
        else:
            try:
                is_valid(part)
            except ValueError:
                reason = say("argument_no_json", type=type(part).__name__)
                return error_of([SchemaProblem(path=path, reason=reason, code="wrong_type")])
    return error_of([SchemaProblem(path=(), reason=say("argument_schema"))])


def _problems(error: _Error, known: Sequence[str]) -> Iterator[SchemaProblem]:
    path = tuple(error.instance_path)
    kind = error.kind.name
    details = error.kind.as_dict()
    if kind in ("anyOf", "oneOf") and details.get("context"):
        yield from _of_union(error, path, details["context"], known)
    elif kind == "required":
        yield _missing(path, details["property"], known)
    elif kind in ("additionalProperties", "unevaluatedProperties"):
        yield from (_unknown(path, name, error.instance, known) for name in details["unexpected"])
    elif kind in ("enum", "const"):
        yield _not_an_option(path, error.instance, details)
    elif kind == "type":
        yield _wrong_type(path, error.instance, details["types"])
    else:
        yield _build_restriction_problem(path, kind, details, value_text(error.instance))


def _missing(path: PathKeys, name: str, known: Sequence[str]) -> SchemaProblem:
    return SchemaProblem(
        path=(*path, name),
        reason=say("argument_missing"),
        code="missing_argument",
        options=None if path else lambda: known,
        hint=say("argument_missing_hint", argument=path_text((*path, name))),
    )


def _unknown(path: PathKeys, name: str, instance: Any, known: Sequence[str]) -> SchemaProblem:

    def options() -> list[str]:
        nearest = nearest_first(name, [key for key in known if key not in instance])
        return nearest + [key for key in known if key in instance]

    return SchemaProblem(
        path=(*path, name),
        reason=say("property_unknown" if path else "argument_unknown"),
        code="unknown_argument",
        options=None if path else options,
        hint=say("argument_unknown_hint", argument=path_text((*path, name))),
    )


def _not_an_option(path: PathKeys, value: Any, details: Mapping[str, Any]) -> SchemaProblem:
    every = details["options"] if "options" in details else [details["expected_value"]]
    few = 0 < len(every) <= 6  # noqa: PLR2004 - as many as fit in a sentence
    shown = value_text(value)
    return SchemaProblem(
        path=path,
        reason=say(
            "argument_option",
            options=_either(map(value_text, nearest_first(value, every))),
            value=shown,
        )
        if few
        else say("argument_options", value=shown),
        code="not_an_option",
        options=lambda: nearest_first(value, every),
        hint=say("argument_option_hint"),
    )


def _wrong_type(path: PathKeys, value: Any, types: Sequence[str]) -> SchemaProblem:
    names = _either(say(f"type_{name}") for name in types)
    message = say("argument_type", types=names, value=value_text(value))
    return SchemaProblem(path=path, reason=message, code="wrong_type")


def _either(options: Iterable[str]) -> str:
    return functools.reduce(lambda one, other: say("alternative", one=one, other=other), options)


def _of_union(
    error: _Error, path: PathKeys, branches: Sequence[Sequence[_Error]], known: Sequence[str]
) -> Iterator[SchemaProblem]:
    """Yield the problems of the intended branch, or one problem for all branches."""
    meant = [branch for branch in branches if branch and not _is_elsewhere(branch, path)]
    if len(meant) == 1:
        for inner in meant[0]:
            yield from _problems(inner, known)
        return
    first = [inner for branch in branches for inner in branch if tuple(inner.instance_path) == path]
    types = [
        name
        for inner in first
        if inner.kind.name == "type"
        for name in inner.kind.as_dict()["types"]
    ]
    if types and len(types) >= len(branches):
        yield _wrong_type(path, error.instance, list(dict.fromkeys(types)))
        return
    options = _options(first)
    if options and not meant:
        yield _not_an_option(path, error.instance, {"options": options})
        return
    yield SchemaProblem(
        path=path, reason=say("argument_branches", value=value_text(error.instance))
    )


def _is_elsewhere(branch: Sequence[_Error], path: PathKeys) -> bool:
    """Return whether a branch is for values of another type, or with another discriminator."""
    return any(
        tuple(error.instance_path) == path and error.kind.name in ("type", "const", "enum")
        for error in branch
    ) or any(error.kind.name == "const" for error in branch)


def _options(errors: Iterable[_Error]) -> list[Any]:
    options: list[Any] = []
    for error in errors:
        details = error.kind.as_dict()
        options.extend(details.get("options", ()))
        options.extend([details["expected_value"]] if "expected_value" in details else ())
    return options


def _build_restriction_problem(
    path: PathKeys, kind: str, details: Mapping[str, Any], value: str
) -> SchemaProblem:
    """Return the problem of a keyword that restricts a value."""
    code, key, limit = _NARROWING.get(kind, ("invalid_argument", "argument_rule", ""))
    if key == "argument_rule":
        return SchemaProblem(path=path, reason=say(key, rule=kind, value=value), code=code)
    more = {"limit": details[limit]} if limit else {}
    return SchemaProblem(path=path, reason=say(key, value=value, **more), code=code)


_NARROWING: Final[Mapping[str, tuple[str, str, str]]] = {
    "minimum": ("out_of_range", "argument_minimum", "limit"),
    "maximum": ("out_of_range", "argument_maximum", "limit"),
    "exclusiveMinimum": ("out_of_range", "argument_above", "limit"),
    "exclusiveMaximum": ("out_of_range", "argument_below", "limit"),
    "multipleOf": ("out_of_range", "argument_multiple", "multiple_of"),
    "minLength": ("out_of_range", "argument_shortest", "limit"),
    "maxLength": ("out_of_range", "argument_longest", "limit"),
    "minItems": ("out_of_range", "argument_fewest_items", "limit"),
    "maxItems": ("out_of_range", "argument_most_items", "limit"),
    "minProperties": ("out_of_range", "argument_fewest_properties", "limit"),
    "maxProperties": ("out_of_range", "argument_most_properties", "limit"),
    "pattern": ("pattern", "argument_pattern", "pattern"),
    "uniqueItems": ("invalid_argument", "argument_repeats", ""),
    "falseSchema": ("unknown_argument", "argument_forbidden", ""),
}
"""The reason code, the key of the text and the detail that it shows, by keyword."""
