"""Docstrings in Google, numpy and reST style → the text before the sections, and parameters."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_REST = r"^\s*:(?:param|parameter|arg|argument|key|keyword|type|returns?|rtype|raises?)\b"
_GOOGLE = (
    r"^(?:Args|Arguments|Parameters|Params|Attributes|Returns?|Yields?|Raises|Examples?|Notes?"
    r"|Warnings?|See Also|References|Todo):\s*$"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Docstring:
    """The parts of a docstring that a model reads.

    Args:
        description: The text before the sections.
        parameters: Descriptions by parameter name.
    """

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


def read_docstring(text: str | None) -> Docstring:
    """Read a docstring; one in no known style is a description as a whole.

    Example:
        >>> read_docstring('''Adds.
        ...
        ...     Args:
        ...         a: The first.
        ... ''')
        Docstring(description='Adds.', parameters={'a': 'The first.'})
    """
    if not text:
        return Docstring()
    text = inspect.cleandoc(text)
    lines = text.splitlines()
    start, style = _first_section(lines)
    if style is None:
        return Docstring(description=text)
    description = "\n".join(lines[:start]).strip()
    return Docstring(description=description, parameters=_parameters(text, style))


def _first_section(lines: list[str]) -> tuple[int, str | None]:
    """Return where the first section begins, and in which style it is written."""
    for number, line in enumerate(lines):
        if line.startswith(":") and re.match(_REST, line):
            return number, "REST"
        if number and lines[number - 1].strip() and _is_underline(line):
            return number - 1, "NUMPYDOC"
        if line.endswith(":") and re.match(_GOOGLE, line):
            return number, "GOOGLE"
    return len(lines), None


def _is_underline(line: str) -> bool:
    return line.startswith("---") and not line.rstrip().strip("-")


def _parameters(text: str, style: str) -> dict[str, str]:
    """Return the parameters that the sections describe."""
    import docstring_parser as parser

    try:
        parsed = parser.parse(text, style=parser.DocstringStyle[style])
    except parser.ParseError:
        return {}
    return {
        name.strip().lstrip("*"): " ".join(entry.description.split())
        for entry in parsed.params
        if entry.description
        for name in entry.arg_name.split(",")
    }
