"""Find JSON in a model's text, and repair malformed JSON."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

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
CALL_TAGS = "tool_calls?|function_calls?|tool_use|functioncall|tool|function|action"
"""Pattern of the names of the tags around calls."""
_BRACKET = re.compile(r"[\[{]")
_ANY_BRACKET = re.compile(r"[\[\]{}]")
_BLOCK = re.compile(r"```[\w+-]*[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
_ARGUMENTS_BEGIN = re.compile(rf"[\"'](?:{ARGUMENT_KEYS})[\"']\s*:\s*(?=\{{)", re.IGNORECASE)
_CALL_END = re.compile(rf"</(?:{CALL_TAGS})>", re.IGNORECASE)
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


class JsonValue(NamedTuple):
    """A JSON value in a text."""

    value: Any  # repaired if it was malformed; `None` if that fails
    end: int
    is_open: bool = False  # whether the end is missing


def value_at(text: str, start: int) -> JsonValue:
    """Parse the object or array at a position, malformed or not."""
    try:
        return JsonValue(*_STRICT.raw_decode(text, start))
    except (ValueError, RecursionError):
        close = _CALL_END.search(text, start)
    if close is not None:
        text = text[: close.start()].rstrip()
    end, closers = _extent(text, start)
    inside = text[start:end]
    if closers and not _is_whole_inside(inside, closers):
        return JsonValue(_repair(inside), end, is_open=True)
    return JsonValue(_repair(inside + closers), end)


def _extent(text: str, start: int) -> tuple[int, str]:
    """Return the end of a malformed value, and the missing closing brackets."""
    stack: list[str] = []
    at = start
    while at < len(text):
        character = text[at]
        if character in "\"'" and _opens_string(text, at):
            end = _string_end(text, at)
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


def _opens_string(text: str, at: int) -> bool:
    """Return whether a quote begins a string; an apostrophe must be at the start of a value."""
    return text[at] == '"' or text[max(at - 20, 0) : at].rstrip()[-1:] in ("{", "[", ",", ":")


def _string_end(text: str, start: int) -> int | None:
    """Return the position of the quote that ends a string, and skip quotes inside of it."""
    at = start + 1
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == text[start] and text[at + 1 : at + 40].lstrip()[:1] in ("", *",:}]"):
            return at
        at += 1
    return None


def _is_whole_inside(text: str, closers: str) -> bool:
    """Return whether only wrappers of calls are open, and all arguments are complete."""
    if "?" in closers or not text.rstrip().endswith(("}", "]")):
        return False
    matches = list(_ARGUMENTS_BEGIN.finditer(text))[:MAX_VALUES]
    return bool(matches) and not any(_extent(text, each.end())[1] for each in matches)


def _repair(text: str) -> Any:
    """Return the value in a malformed text; `None` if it cannot be repaired."""
    depths = [0]
    for bracket in _ANY_BRACKET.findall(text):
        depths.append(depths[-1] + 1 if bracket in _CLOSER else max(depths[-1] - 1, 0))
    is_too_complex = len(depths) > 2 * _MAX_REPAIR_BRACKETS or max(depths) > MAX_DEPTH
    if is_too_complex or len(text) > _MAX_REPAIR_CHARACTERS:
        return None
    try:
        return repair_json(text, return_objects=True)
    except (ValueError, RecursionError, IndexError, KeyError, TypeError, AttributeError):
        return None  # a malformed text may raise any of these
