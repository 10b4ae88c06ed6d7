"""Explain pydantic's errors in the terms of the settings file."""

from __future__ import annotations

import re
import reprlib
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from leonidas_tools.settings.models import Settings
from leonidas_tools.settings.problem import EMPTY, KeyPath, Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pydantic_core import ErrorDetails

_MIN_LIKENESS = 0.8
_WORD = r"[\w./*-]+"
_WORDS = {
    "missing": "is missing",
    "dict_type": "should be a mapping: keys, each with its value",
    "model_type": "should be a mapping: keys, each with its value",
    "tuple_type": "should be a list: write it between [ and ]",
    "string_type": "should be text: put it in quotes",
    "string_too_short": "must not be empty",
    "bool_parsing": "is neither true nor false",
    "bool_type": "is neither true nor false",
    "int_parsing": "is not a whole number",
    "int_from_float": "is not a whole number",
    "int_type": "is not a whole number",
    "float_parsing": "is not a number",
    "float_type": "is not a number",
    "finite_number": "is not a finite number",
}
_WITHOUT_VALUE = frozenset({"missing", "extra_forbidden", "string_type", "string_too_short"})


def closest(word: str, options: Collection[str]) -> str | None:
    """Return the option that is most similar to the word; `None` if none is similar.

    Example:
        >>> closest("tiemout", ["timeout", "deadline"])
        'timeout'
    """
    from rapidfuzz import process
    from rapidfuzz.distance import JaroWinkler

    found = process.extractOne(
        word, options, scorer=JaroWinkler.similarity, score_cutoff=_MIN_LIKENESS
    )
    return None if found is None else found[0]


def explain(
    error: ErrorDetails, secret: Collection[KeyPath], root: type[BaseModel] = Settings
) -> Problem:
    """Return an error of pydantic as a problem, without values of the environment."""
    path = tuple(step for step in error["loc"] if step != "[key]")
    if error["type"] == "extra_forbidden":
        return Problem(_unknown_key(path, root), path)
    value = error["input"]
    if value is None and error["type"] != "value_error":
        return Problem(EMPTY, path)
    message = _message(error, path, None if path in secret else value)
    if error["type"] in _WITHOUT_VALUE or not isinstance(value, str | int | float):
        return Problem(message, path)
    shown = (
        "its value, which comes from the environment," if path in secret else reprlib.repr(value)
    )
    return Problem(f"{shown} {message}", path)


def _message(error: ErrorDetails, path: KeyPath, value: object) -> str:
    context = error.get("ctx", {})
    if error["type"] == "value_error":
        return str(context["error"])
    if path == ("version",):
        return "is not a version this library reads: write 1"
    if error["type"] == "tuple_type" and re.fullmatch(_WORD, str(value)):
        return f"should be a list: write `{path[-1]}: [{value}]`"
    if error["type"] == "literal_error":
        return f"is not one of {context['expected']}"
    return _WORDS.get(error["type"]) or error["msg"].replace("Input should", "should")


def _unknown_key(path: KeyPath, root: type[BaseModel]) -> str:
    options = sorted(known_keys(path[:-1], root))
    suggestion = closest(str(path[-1]), options)
    if suggestion is not None:
        return f"is not a setting; did you mean {suggestion!r}?"
    return f"is not a setting; choose from {', '.join(map(repr, options))}"


def known_keys(path: KeyPath, root: type[BaseModel] = Settings) -> Collection[str]:
    """Return the keys that a section may have; empty if it may have any.

    Example:
        >>> sorted(known_keys(("monitoring",)))
        ['alerts', 'history_size', 'prometheus_port', 'tracing']
    """
    kind = _kind_at(path, root)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.model_fields.keys()
    return ()


def takes_null(path: KeyPath) -> bool:
    """Return whether `null` is a value at a path: only where the schema takes any value.

    Example:
        >>> takes_null(("tools", "search", "custom_parameters", "limit"))
        True
        >>> takes_null(("tools", "search", "requires_approval"))
        False
    """
    return _kind_at(path, Settings) is Any


def _kind_at(path: KeyPath, root: type[BaseModel]) -> Any:
    """Return the type of the value at a path; `None` if the schema does not have it."""
    kind: Any = root
    for step in path:
        kind = _unwrap_type(kind)
        if kind is Any:
            break
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            field = kind.model_fields.get(str(step))
            kind = None if field is None else field.annotation
        else:
            kind = {dict: get_args(kind)[-1:], tuple: get_args(kind)[:1]}.get(get_origin(kind))
            kind = kind[0] if kind else None
    return _unwrap_type(kind)


def _unwrap_type(kind: Any) -> Any:
    """Return the type without `Annotated` and without `None`."""
    while get_origin(kind) in (Annotated, Union, UnionType):
        kind = get_args(kind)[0]
    return kind


def place(path: KeyPath, lines: Mapping[KeyPath, int]) -> int | None:
    """Return the line of a key, or of the nearest key above it in the file."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None
