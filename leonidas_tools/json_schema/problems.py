"""What jsonschema-rs finds wrong → problems, in words for a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import jsonschema_rs

from leonidas_tools.json_schema.errors import errors_in
from leonidas_tools.json_schema.report import (
    PathKeys,
    Problem,
    error_of,
    nearest_first,
    path_text,
    value_text,
)

if TYPE_CHECKING:
    from leonidas_tools.errors import ToolValidationError
    from leonidas_tools.json_schema.document import Document

MAX_EXAMINED: Final = 50
_ORDER: Final = {"missing_argument": 0, "unknown_argument": 1}
_ARTICLES: Final = {
    "integer": "an integer",
    "array": "an array",
    "object": "an object",
    "null": "null",
    "boolean": "true or false",
}

_Error: TypeAlias = jsonschema_rs.ValidationError
_Reading: TypeAlias = tuple[str, str]


def error_in(document: Document, arguments: Any) -> ToolValidationError:
    """The error that says what is wrong: what is missing and what is unknown first."""
    schema = document.schema
    known = list(schema.get("properties", {})) if isinstance(schema, Mapping) else []
    start, errors = errors_in(document, arguments)
    found = [
        dataclasses.replace(problem, path=(*start, *problem.path))
        for error in errors[:MAX_EXAMINED]
        for problem in _problems(error, () if start else known)
    ]
    distinct = {(problem.path, problem.reason): problem for problem in found}
    problems = sorted(distinct.values(), key=lambda problem: _ORDER.get(problem.code, 2))
    return error_of(problems or [Problem(path=start, reason="must be what the tool's schema says")])


def _problems(error: _Error, known: Sequence[str]) -> Iterator[Problem]:
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
        code, reason = _narrowed(kind, details)
        yield Problem(path=path, reason=f"{reason}, not {value_text(error.instance)}", code=code)


def _missing(path: PathKeys, name: str, known: Sequence[str]) -> Problem:
    return Problem(
        path=(*path, name),
        reason="is missing",
        code="missing_argument",
        options=None if path else known,
        hint=f"Call again with {path_text((*path, name))!r}.",
    )


def _unknown(path: PathKeys, name: str, instance: Any, known: Sequence[str]) -> Problem:
    options = [] if path else nearest_first(name, [key for key in known if key not in instance])
    options += [] if path else [key for key in known if key in instance]
    return Problem(
        path=(*path, name),
        reason="is not a parameter" if not path else "is not a property there",
        code="unknown_argument",
        options=None if path else options,
        hint=f"Call again without {path_text((*path, name))!r}.",
    )


def _not_an_option(path: PathKeys, value: Any, details: Mapping[str, Any]) -> Problem:
    every = details["options"] if "options" in details else [details["expected_value"]]
    options = nearest_first(value, every)
    few = len(every) <= 6  # noqa: PLR2004 - as many as a sentence can hold
    listed = " or ".join(value_text(option) for option in options) if few else "one of its options"
    return Problem(
        path=path,
        reason=f"must be {listed}, not {value_text(value)}",
        code="not_an_option",
        options=options,
        hint="Choose one of valid_options.",
    )


def _wrong_type(path: PathKeys, value: Any, types: Sequence[str]) -> Problem:
    names = " or ".join(_ARTICLES.get(name, f"a {name}") for name in types)
    return Problem(path=path, reason=f"must be {names}, not {value_text(value)}", code="wrong_type")


def _of_union(
    error: _Error, path: PathKeys, branches: Sequence[Sequence[_Error]], known: Sequence[str]
) -> Iterator[Problem]:
    """The problems of the branch that was meant; of all of them where none stands out."""
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
    yield Problem(path=path, reason=f"fits none of what is accepted: {value_text(error.instance)}")


def _is_elsewhere(branch: Sequence[_Error], path: PathKeys) -> bool:
    """Whether a branch is for values of another type, or for other ones by what they list."""
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


def _narrowed(kind: str, details: Mapping[str, Any]) -> _Reading:
    """The code and the reason of a keyword that narrows a value."""
    write: Callable[[Mapping[str, Any]], str] | None
    code, write = _NARROWING.get(kind, ("invalid_argument", None))
    if "error" in details:  # what the engine of patterns says when it gives up
        return code, "takes too many steps to match its pattern"
    return code, write(details) if write else f"breaks the rule {kind!r} of the schema"


_NARROWING: Final[Mapping[str, tuple[str, Callable[[Mapping[str, Any]], str]]]] = {
    "minimum": ("out_of_range", lambda d: f"must be at least {d['limit']}"),
    "maximum": ("out_of_range", lambda d: f"must be at most {d['limit']}"),
    "exclusiveMinimum": ("out_of_range", lambda d: f"must be more than {d['limit']}"),
    "exclusiveMaximum": ("out_of_range", lambda d: f"must be less than {d['limit']}"),
    "multipleOf": ("out_of_range", lambda d: f"must be a multiple of {d['multiple_of']}"),
    "minLength": ("out_of_range", lambda d: f"must be at least {d['limit']} characters long"),
    "maxLength": ("out_of_range", lambda d: f"must be at most {d['limit']} characters long"),
    "minItems": ("out_of_range", lambda d: f"must have at least {d['limit']} items"),
    "maxItems": ("out_of_range", lambda d: f"must have at most {d['limit']} items"),
    "minProperties": ("out_of_range", lambda d: f"must have at least {d['limit']} properties"),
    "maxProperties": ("out_of_range", lambda d: f"must have at most {d['limit']} properties"),
    "pattern": ("pattern", lambda d: f"must match the pattern {d['pattern']!r}"),
    "uniqueItems": ("invalid_argument", lambda _: "must have no item twice"),
    "falseSchema": ("unknown_argument", lambda _: "is not allowed"),
}
