"""Turn all problems of arguments into one error that a model can act on."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from leonidas_tools.errors import ToolValidationError
from leonidas_tools.results.similar import closest
from leonidas_tools.results.texts import join, say, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pydantic import ValidationError

MAX_PROBLEMS: Final = 5
MAX_OPTIONS: Final = 50
MAX_VALUE_LENGTH: Final = 60
MAX_KEY_LENGTH: Final = 100

PathKeys = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaProblem:
    """One problem of the arguments."""

    path: PathKeys  # keys and indices from the arguments down
    reason: str  # the end of a sentence that begins with the path
    code: str = "invalid_argument"  # one of the `reason_code` words
    # The values that are accepted, the closest first; a function, since sorting them takes time.
    options: Callable[[], Sequence[Any]] | None = None
    hint: str | None = None
    cause: BaseException | None = None  # for the log


def path_text(path: Iterable[str | int]) -> str:
    """Return a path as it would be written in code, with long keys cut.

    Example:
        >>> path_text(("passengers", 0, "age"))
        'passengers[0].age'
    """
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
            continue
        key = shorten(key, MAX_KEY_LENGTH)  # noqa: PLW2901 - a model may write keys without end
        if key.isidentifier():
            text += f".{key}" if text else key
        elif text:
            text += f"[{key!r}]"
        else:
            text = key
    return text


def value_text(value: Any) -> str:
    """Return a value as JSON, shortened if it is long.

    Example:
        >>> value_text("x" * 100)
        '"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…'
    """
    if isinstance(value, str):
        value = value[: MAX_VALUE_LENGTH + 1]
    text = ""
    with contextlib.suppress(ValueError, RecursionError):
        for piece in json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value):
            text += piece
            if len(text) > MAX_VALUE_LENGTH:
                break
    return shorten(text, MAX_VALUE_LENGTH)


def nearest_first(value: Any, options: Iterable[Any]) -> list[Any]:
    """Return options, the most similar first; in their own order if none is similar."""
    listed = list(options)
    texts = [option for option in listed if isinstance(option, str)]
    if isinstance(value, str) and len(texts) == len(listed):
        near = closest(value, texts, limit=MAX_OPTIONS)
        are_near = frozenset(near)
        listed = [*near, *(option for option in texts if option not in are_near)]
    return listed[:MAX_OPTIONS]


def error_of(problems: Sequence[SchemaProblem]) -> ToolValidationError:
    """Return one error for all problems, with their first code, options and hint."""
    shown = [
        say("argument_problem", argument=path_text(problem.path), problem=problem.reason)
        if problem.path
        else say("arguments_problem", problem=problem.reason)
        for problem in problems[:MAX_PROBLEMS]
    ]
    more = len(problems) - len(shown)
    listed = join(*shown, say("more_problems", count=more) if more else None, between="; ")
    message = join(listed, ".", between="")
    first = problems[0]
    options = next((p.options for p in problems if p.options is not None), None)
    hint = next((p.hint for p in problems if p.hint is not None), None)
    error = ToolValidationError(
        message,
        reason_code=first.code,
        valid_options=None if options is None else options(),
        retry_hint=hint,
    )
    error.__cause__ = next((p.cause for p in problems if p.cause is not None), None)
    return error


def of_pydantic(error: ValidationError, name: str) -> list[SchemaProblem]:
    """Return the problems that pydantic found in the argument of that name."""
    return [
        SchemaProblem(
            path=(name, *(key for key in entry["loc"])),
            reason=_lower(entry["msg"]),
            cause=error,
        )
        for entry in error.errors(include_url=False, include_input=False, include_context=False)
    ]


def _lower(message: str) -> str:
    """Return pydantic's message as the end of our sentence."""
    if message.startswith("Input should be"):
        return say("argument_must_be", problem=message.removeprefix("Input should be"))
    for start in ("Value error, ", "Assertion failed, "):
        message = message.removeprefix(start)
    return say("argument_wrong", problem=message)
