"""Distinguish quoted or mentioned text from the model's own statements."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def is_quoted(text: str, at: int) -> bool:
    """Return whether a position is in a quoted line, where a call is only mentioned."""
    return text[text.rfind("\n", 0, at) + 1 : at].lstrip(" \t").startswith(">")


_WORD = re.compile(r"[^\W\d_]{2,}")
_SENTENCE_END = re.compile(r"[.!?。！？][\s\"'*`]*\Z")  # noqa: RUF001 - of Chinese sentences


def is_in_a_sentence(text: str, start: int, end: int) -> bool:
    """Return whether a value is the only one on its line, in the middle of a sentence."""
    before = text[text.rfind("\n", 0, start) + 1 : start]
    after = text[end:].partition("\n")[0]
    if any(each in before + after for each in "{}<") or _SENTENCE_END.search(before):
        return False
    return bool(_WORD.search(before) and _WORD.search(after))


MARKS = {'"': '"', "'": "'", "“": "”", "„": "“", "«": "»", "「": "」", "‘": "’"}  # noqa: RUF001
CODE_MARKS = {**MARKS, "`": "`"}


def is_in_marks(text: str, start: int, end: int, marks: Mapping[str, str]) -> bool:
    """Return whether a value is in quotation marks, on a line with other words."""
    if not start or text[end : end + 1] != marks.get(text[start - 1]):
        return False
    before = text[text.rfind("\n", 0, start) + 1 : start - 1]
    return bool(_WORD.search(before) or _WORD.search(text[end + 1 :].partition("\n")[0]))


_SHOWN = re.compile(
    r"<(?P<tag>blockquote|quote|document|example)\b[^<>]{0,200}>.*?</(?P=tag)>"
    r"|^[ \t]*(?P<mark>\"{3}|'{3})[ \t]*$.*?^[ \t]*(?P=mark)[ \t.,;:]*$",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
"""Parts of a text that quote other authors."""
_NOT_A_BREAK = re.compile(r"[^\n]")


def blank_quotes(text: str) -> str:
    """Return the text with quoted content replaced by spaces."""
    return _SHOWN.sub(lambda found: _NOT_A_BREAK.sub(" ", found[0]), text)


def strip_quote_marks(text: str) -> str:
    """Return the text without quote marks if the model quotes the whole text."""
    lines = text.splitlines()
    if not all(line.lstrip().startswith(">") for line in lines if line.strip()):
        return text
    return "\n".join(line.lstrip().removeprefix(">").removeprefix(" ") for line in lines)
