"""Parse JSON text that a model wrote; stricter than `json.loads`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from leonidas_tools.errors import ToolValidationError
from leonidas_tools.results.texts import say

_MAX_KEY_LENGTH = 100


class NotJsonError(ValueError):
    """Raised for a text that is not JSON; the message names the place."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # add returns None
        raise NotJsonError(say("json_repeated_key", key=twice[:_MAX_KEY_LENGTH]))
    return made


def _no_constant(name: str) -> NoReturn:
    raise NotJsonError(say("json_constant", name=name))


def read_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        NotJsonError: The text is not JSON, has a key twice or a NaN, or is nested too deeply.

    Example:
        >>> read_json('{"a": [1]}')
        {'a': [1]}
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        problem = f"{error.msg[0].lower()}{error.msg[1:]}"
        message = say("json_syntax", problem=problem, line=error.lineno, column=error.colno)
        raise NotJsonError(message) from None
    except RecursionError:
        raise NotJsonError(say("json_too_deep")) from None
    except NotJsonError:
        raise
    except ValueError:  # an integer of more digits than Python reads
        raise NotJsonError(say("json_long_number")) from None


def parse_arguments(value: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    """Return arguments as a mapping, from a mapping, a JSON text or `None`.

    Raises:
        ToolValidationError: The arguments are not JSON, or not an object.

    Example:
        >>> parse_arguments('{"city": "Lisbon"}')
        {'city': 'Lisbon'}
    """
    if type(value) is dict:  # takes a tenth of the time of `isinstance` for a mapping
        return value
    if value is None:
        return {}
    parsed = _parse(value) if isinstance(value, str) else value
    if not isinstance(parsed, Mapping):
        raise ToolValidationError(
            say("arguments_not_object", type=type(parsed).__name__),
            reason_code="wrong_type",
            retry_hint=say("arguments_not_object_hint"),
        )
    return parsed


def _parse(text: str) -> Any:
    if not text.strip():
        return {}
    try:
        return read_json(text)
    except NotJsonError as error:
        raise ToolValidationError(
            say("arguments_not_json", problem=error.args[0]),
            reason_code="invalid_json",
            retry_hint=say("arguments_not_json_hint"),
        ) from error
