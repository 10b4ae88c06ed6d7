"""What a table of a server says: a tool, its arguments, and the whole answer that is expected."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class Like:
    """A text in which something differs from run to run.

    Args:
        pattern: What the whole of it matches.
    """

    def __init__(self, pattern):
        self._pattern = pattern

    def __eq__(self, other):
        return isinstance(other, str) and bool(re.fullmatch(self._pattern, other, re.DOTALL))

    def __hash__(self):
        return hash(self._pattern)

    def __repr__(self):
        return f"Like({self._pattern!r})"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One call, and its answer: the envelope, and the types of the media beside it."""

    tool: str
    arguments: dict[str, Any]
    answer: dict[str, Any]
    media: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a server works."""

    folder: Path
    website: str


@dataclass(frozen=True, kw_only=True)
class Table:
    """A server: how it is started, and one row or more for every tool it has.

    All rows are called at once: a server's writes keep their order, and its reads see them. The
    first row can be called again at any time, with the same answer.
    """

    settings: dict[str, Any]
    rows: list[Row]


def ok(tool, arguments, result, *media):
    answer = {"status": "ok", "result": result, "retryable": False}
    return Row(tool=tool, arguments=arguments, answer=answer, media=media)


def failed(tool, arguments, message):
    """The server refuses, in its own words."""
    answer = {"status": "failed", "message": message, "retryable": False}
    return Row(tool=tool, arguments=arguments, answer=answer)


def refused(tool, arguments, message, reason_code, options=None, hint=None):
    """Arguments that do not reach the server."""
    answer = {
        "status": "invalid_argument",
        "message": message,
        "retryable": False,
        "reason_code": reason_code,
        "valid_options": options,
        "retry_hint": hint,
    }
    answer = {key: value for key, value in answer.items() if value is not None}
    return Row(tool=tool, arguments=arguments, answer=answer)


def missing(tool, arguments, name, options):
    """A call without an argument that it needs."""
    return refused(
        tool,
        arguments,
        f"'{name}' is missing.",
        "missing_argument",
        options,
        f"Call again with '{name}'.",
    )
