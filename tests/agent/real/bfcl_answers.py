"""Compare a call with the answers that BFCL accepts; texts may differ in case and spaces."""

from collections.abc import Mapping, Sequence
from typing import Any


def is_exact(arguments: Mapping[str, Any], accepted: Mapping[str, Sequence[Any]]) -> bool:
    """Return whether each argument has an accepted value, and none is missing or too many."""
    if not arguments.keys() <= accepted.keys():
        return False
    return all(
        _is_among(arguments[name], values) if name in arguments else "" in values
        for name, values in accepted.items()
    )


def _is_among(value: Any, accepted: Sequence[Any]) -> bool:
    if isinstance(value, dict):
        return any(is_exact(value, each) for each in accepted if isinstance(each, dict))
    return any(_same(value, each) for each in accepted)


def _same(value: Any, other: Any) -> bool:
    """Return whether two values are equal but for case, spaces and punctuation in texts."""
    if isinstance(value, str) and isinstance(other, str):
        return _letters(value) == _letters(other)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(_same, value, other))
    if isinstance(value, dict) and isinstance(other, dict):
        return _is_among(value, [other])
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _letters(text: str) -> str:
    return "".join(each for each in text.lower() if each.isalnum() or each in ".-")
