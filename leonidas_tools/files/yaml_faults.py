"""Explain a YAML syntax error in the terms of the author instead of the terms of the parser."""

from __future__ import annotations

import re
from typing import Any

_TAB = re.compile(r" *\t")
_VARIABLE = re.compile(r"\$\{[^{}]*\}")
_BRACKET = re.compile(r"(?<!\$)[\[{]")
_MAX_GAP_LENGTH = 100
"""Maximum number of characters to look at before a variable."""
_INDENTED = "the line is indented differently from those it belongs to"
_WORDS = (
    ("maximum nesting depth", "it is nested too many levels deep"),
    (
        "while parsing a flow mapping",
        "a '{' is not closed, or a ',' is missing in it; a text with ':' or '}' needs quotes",
    ),
    (
        "while parsing a flow sequence",
        "a '[' is not closed, or a ',' is missing in it; a text with ':' or ']' needs quotes",
    ),
    ("while parsing a flow node", "a bracket is not closed, or a value is missing in it"),
    ("while scanning a quoted scalar", "a quotation mark is not closed"),
    ("unknown escape", "an unknown escape is in double quotes: use single quotes"),
    ("mapping values are not allowed", "a ':' is where no key is: put the text in quotes"),
    ("could not find expected ':'", "a key lacks its ':'"),
    ("cannot start any token", "a value begins with a special character: put it in quotes"),
    ("undefined alias", "a value begins with '*', which refers to another: put it in quotes"),
    ("another document", "the file has several documents: write one"),
    ("block mapping", _INDENTED),
    ("block collection", _INDENTED),
    ("block sequence", _INDENTED),
    ("block end", _INDENTED),
)
"""Explanations by a part of the parser's message, the most specific part first."""


def yaml_fault(error: Any, text: str) -> tuple[str, int | None]:
    r"""Return an explanation of a YAML syntax error, and its line, counted from 1.

    Example:
        >>> import yaml
        >>> text = "tools:\n  search: {timeout: ${WAIT}}\n"
        >>> try:
        ...     yaml.safe_load(text)
        ... except yaml.YAMLError as error:
        ...     print(yaml_fault(error, text))
        ("put '${WAIT}' in quotes, since it is between brackets", 2)
    """
    problem, context = getattr(error, "problem", None), getattr(error, "context", None)
    began = getattr(error, "context_mark", None)
    mark = getattr(error, "problem_mark", None) or began
    if mark is None:
        return problem or getattr(error, "reason", None) or "it cannot be read", None
    line = mark.line + 1
    near = text.splitlines()[max(line - 2, 0) : line]
    if any(map(_TAB.match, near)):
        return "a tab is where only spaces may be; indent with spaces", line
    if variable := next(filter(None, map(_bare_variable, near)), None):
        return f"put {variable!r} in quotes, since it is between brackets", line
    said = ", ".join(part for part in (context, problem) if part)
    words = next((words for sign, words in _WORDS if sign in said), said)
    first = line if began is None or words == _INDENTED else began.line + 1
    return words if first == line else f"{words}; it begins on line {first}", line


def _bare_variable(line: str) -> str | None:
    """Return the first `${NAME}` between brackets that begins a value without quotes."""
    bracket = _BRACKET.search(line)
    for found in () if bracket is None else _VARIABLE.finditer(line, bracket.end()):
        before = line[max(found.start() - _MAX_GAP_LENGTH, 0) : found.start()].rstrip()
        if before.endswith((":", ",", "[", "{")):
            return found[0]
    return None
