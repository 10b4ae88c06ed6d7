"""Quotes from answers in the model's text: `It is {answers.c2.result}`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leonidas_tools.simulator.recording import Answer

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][\w-]*(?:\.[^\s.{}]+)+)\}")


def quoted_ids(text: str) -> list[str]:
    """Return the ids of the calls whose answers a text quotes.

    Raises:
        ValueError: It has a placeholder for something other than answers.

    Example:
        >>> quoted_ids("It is {answers.c2.result} there.")
        ['c2']
    """
    paths = [match.split(".") for match in _PLACEHOLDER.findall(text)]
    for root, *_ in paths:
        if root != "answers":
            raise ValueError(f"only {{answers.ID.KEY}} can be quoted, not {{{root}…}}")
    return [path[1] for path in paths]


def fill(text: str, answers: Mapping[str, Answer]) -> str:
    """Return a text with each `{answers.ID.KEY}` replaced by that part of the answer.

    Raises:
        LookupError: There is no such answer, or no such key in it.

    Example:
        >>> from leonidas_tools.simulator import Answer
        >>> answer = Answer(id="c2", name="f", response={"result": {"time": "9:00"}}, at=0.0)
        >>> fill("It is {answers.c2.result.time}.", {"c2": answer})
        'It is 9:00.'
    """
    return _PLACEHOLDER.sub(lambda match: _quote(match[1], answers), text)


def fill_in(value: Any, answers: Mapping[str, Answer]) -> Any:
    """Return the arguments with all quotes from answers replaced.

    Raises:
        LookupError: There is no such answer, or no such key in it.

    Example:
        >>> from leonidas_tools.simulator import Answer
        >>> answer = Answer(id="c2", name="f", response={"result": {"id": "a7"}}, at=0.0)
        >>> fill_in({"id": "{answers.c2.result.id}", "n": 1}, {"c2": answer})
        {'id': 'a7', 'n': 1}
    """
    if isinstance(value, str):
        return fill(value, answers) if "{answers." in value else value
    if isinstance(value, Mapping):
        return {key: fill_in(inner, answers) for key, inner in value.items()}
    return [fill_in(inner, answers) for inner in value] if isinstance(value, list) else value


def _quote(path: str, answers: Mapping[str, Answer]) -> str:
    _, call_id, *keys = path.split(".")
    if call_id not in answers:
        raise LookupError(
            f"{{{path}}}: call {call_id!r} has no answer yet; "
            "wait for it with `wait_for_answers` or `expect` before this step"
        )
    value: Any = answers[call_id].response
    for key in keys:
        value = _enter(value, key, path)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _enter(value: Any, key: str, path: str) -> Any:
    value = _as_json(value)
    if isinstance(value, Mapping) and key in value:
        return value[key]
    if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
        return value[int(key)]
    known = f"choose from {', '.join(value)}" if isinstance(value, Mapping) else f"it is {value!r}"
    raise LookupError(f"{{{path}}}: no {key!r} there; {known}")


def _as_json(value: Any) -> Any:
    """Return the value of a text that is JSON, since MCP servers return JSON as text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
