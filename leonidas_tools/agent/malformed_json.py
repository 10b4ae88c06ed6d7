"""Find JSON in a model's text, and repair malformed JSON."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import islice
from typing import Any

from json_repair import repair_json

MAX_TEXT_CHARACTERS = 100_000
MAX_VALUES = 100
MAX_DEPTH = 60
_MAX_REPAIR_CHARACTERS = 60_000
_MAX_REPAIR_BRACKETS = 3_000

ARGUMENT_KEYS = (
    r"(?:action|tool)?[_ ]?inputs?|(?:tool_?)?arg(?:ument)?s|param(?:eter)?s|kwargs"
    r"|argumentos|par[aâ]metros|参数"
)
"""Pattern of the keys of the arguments of a call."""
_BRACKET = re.compile(r"[\[{]")
_BLOCK = re.compile(r"```[\w+-]*[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
_ARGUMENTS_BEGIN = re.compile(rf"[\"'](?:{ARGUMENT_KEYS})[\"']\s*:\s*(?=\{{)", re.IGNORECASE)
_CLOSER = {"{": "}", "[": "]"}
_STRICT = json.JSONDecoder(strict=False)


def json_values(text: str) -> list[Any]:
    """Return the objects and arrays in a text, and repair malformed ones.

    Example:
        >>> json_values("Here: ```json [1, 2,]``` and {'a': 1}")
        [[1, 2], {'a': 1}]
    """
    text = text[:MAX_TEXT_CHARACTERS]
    found = list[Any]()
    at = 0
    while len(found) < MAX_VALUES and (begin := _BRACKET.search(text, at)) is not None:
        value = value_at(text, begin.start())
        if isinstance(value.value, dict | list):
            found.append(value.value)
        at = max(value.end, begin.end())
    return found


def code_in(text: str) -> str:
    r"""Return the first fenced block of a text, or the whole text without one.

    Example:
        >>> code_in("Try this: ```python\nprint(1)\n``` It prints 1.")
        'print(1)'
    """
    block = _BLOCK.search(text[:MAX_TEXT_CHARACTERS])
    return (block[1] if block is not None else text).strip()


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A JSON value in a text."""

    value: Any  # repaired if it was malformed; `None` if that fails
    end: int
    is_open: bool = False  # whether the end is missing


def value_at(text: str, start: int) -> JsonValue:
    """Parse the object or array at a position, malformed or not."""
    try:
        value, end = _STRICT.raw_decode(text, start)
    except (ValueError, RecursionError):
        end, closers = _extent(text, start)
        if closers and not _is_whole_inside(text[start:end], closers):
            return JsonValue(_repair(text[start:end]), end, is_open=True)
        return JsonValue(_repair(text[start:end] + closers), end)
    return JsonValue(value, end)


def _extent(text: str, start: int) -> tuple[int, str]:
    """Return the end of a malformed value, and the missing closing brackets."""
    stack: list[str] = []
    at = start
    while at < len(text):
        character = text[at]
        if character in "\"'" and _opens_string(text, at, character):
            end = _string_end(text, at + 1, character)
            if end is None:
                return len(text), "?" + "".join(reversed(stack))
            at = end
        elif character in _CLOSER:
            stack.append(_CLOSER[character])
        elif character in "}]" and stack:
            # A bracket closes all inner brackets that are still open.
            while stack and stack.pop() != character:
                pass
            if not stack:
                return at + 1, ""
        at += 1
    return len(text), "".join(reversed(stack))


def _opens_string(text: str, at: int, quote: str) -> bool:
    """Return whether a quote begins a string; an apostrophe must be at the start of a value."""
    if quote == '"':
        return True
    before = text[max(at - 20, 0) : at].rstrip()
    return before[-1:] in ("{", "[", ",", ":")


def _string_end(text: str, at: int, quote: str) -> int | None:
    """Return the position of the quote that ends a string, and skip quotes inside of it."""
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == quote:
            after = text[at + 1 : at + 40].lstrip()
            if not after or after[0] in ",:}]":
                return at
        at += 1
    return None


def _is_whole_inside(text: str, closers: str) -> bool:
    """Return whether only wrappers of calls are open, and all arguments are complete."""
    if "?" in closers or not text.rstrip().endswith(("}", "]")):
        return False
    matches = list(islice(_ARGUMENTS_BEGIN.finditer(text), MAX_VALUES))
    return bool(matches) and not any(_extent(text, each.end())[1] for each in matches)


def _repair(text: str) -> Any:
    """Return the value in a malformed text; `None` if it cannot be repaired."""
    if (
        len(text) > _MAX_REPAIR_CHARACTERS
        or text.count("{") + text.count("[") > _MAX_REPAIR_BRACKETS
    ):
        return None
    if _depth(text) > MAX_DEPTH:
        return None
    try:
        return repair_json(text, return_objects=True)
    except (ValueError, RecursionError, IndexError, KeyError, TypeError, AttributeError):
        return None  # a malformed text may raise any of these


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in _CLOSER:
            depth += 1
            deepest = max(deepest, depth)
        elif character in "}]":
            depth = max(depth - 1, 0)
    return deepest
