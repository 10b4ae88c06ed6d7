"""What a rule asks of the arguments: values by path, and conditions on them."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

Path: TypeAlias = str
"""Where values stand in the arguments: `amount`, `to.country`, `files[0].name`, `files[*]`."""

_Check: TypeAlias = Callable[[Any, Any], "bool | None"]
_STEP = re.compile(r"\.?(?:([^.\[\]'\"]+)|\[(\d+|\*)\]|\['([^']*)'\]|\[\"([^\"]*)\"\])")
_ANY = "*"


@functools.lru_cache(maxsize=1024)
def steps_of(path: Path) -> tuple[str, ...]:
    """The steps of a path; `$` for the whole may stand before it.

    Raises:
        ValueError: It is not a path.

    Example:
        >>> steps_of("$.files[*].name"), steps_of("headers['x.y']")
        (('files', '*', 'name'), ('headers', 'x.y'))
    """
    rest = path.removeprefix("$")
    steps: list[str] = []
    position = 0
    while position < len(rest):
        match = _STEP.match(rest, position)
        if match is None:
            break
        steps.append(next(group for group in match.groups() if group is not None))
        position = match.end()
    if position < len(rest) or not steps:
        raise ValueError(f"{path!r} is not a path: write such as 'amount', 'to.city', 'files[*]'")
    return tuple(steps)


def values_at(arguments: Any, steps: Sequence[str]) -> Sequence[Any]:
    """The values at a path: none where nothing stands there, several where it has a `*`.

    Example:
        >>> values_at({"files": [{"size": 1}, {"size": 2}]}, ("files", "*", "size"))
        [1, 2]
    """
    if len(steps) == 1:  # as most paths are
        return _inside(arguments, steps[0])
    found = [arguments]
    for step in steps:
        found = [inner for value in found for inner in _inside(value, step)]
    return found


def _inside(value: Any, step: str) -> Sequence[Any]:
    if type(value) is dict or isinstance(value, Mapping):
        if step in value:
            return [value[step]]
        return list(value.values()) if step == _ANY else []
    if isinstance(value, list | tuple):
        if step == _ANY:
            return value
        if step.isdecimal() and int(step) < len(value):
            return [value[int(step)]]
    return []


class Condition:
    """What must be true of one value, all of it at once.

    Args:
        equals: The value is this.
        matches: This is found in it; in what is no text, in its JSON.
        above: It is a greater number.
        below: It is a smaller number.
        count_above: It has more items.

    Example:
        >>> condition = Condition(above=10)
        >>> [condition.holds(value) for value in (11, "11", 10, ["many"])]
        [True, True, False, None]
    """

    __slots__ = ("_checks", "_said")

    def __init__(self, **said: Any) -> None:
        checks: dict[str, _Check] = {
            "equals": _is_equal,
            "matches": _is_found,
            "above": _is_above,
            "below": _is_below,
            "count_above": _has_more,
        }
        self._said = {k: v for k, v in said.items() if v is not None or k == "equals"}
        self._checks = tuple((checks[key], wanted) for key, wanted in self._said.items())

    def holds(self, value: Any) -> bool | None:
        """Whether it is true of a value; `None` where that cannot be told."""
        answer: bool | None = True
        for check, wanted in self._checks:
            one = check(value, wanted)
            if one is False:
                return False
            answer = answer and one
        return answer

    def to_json(self) -> dict[str, Any]:
        """The condition as it stands in a settings file."""
        return dict(self._said)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> str:
        """The same where the same is said: to Python 1 and True are equal, here they are not."""
        return repr(sorted(self._said.items()))

    def __repr__(self) -> str:
        return f"Condition({', '.join(f'{k}={v!r}' for k, v in self._said.items())})"


def _is_equal(value: Any, wanted: Any) -> bool:
    """Equal as JSON has it: `true` is no number."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    return bool(value == wanted)


def _is_found(value: Any, pattern: str) -> bool:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return re.search(pattern, text) is not None


def _is_above(value: Any, limit: float) -> bool | None:
    found = _number(value)
    return None if found is None else found > limit


def _is_below(value: Any, limit: float) -> bool | None:
    found = _number(value)
    return None if found is None else found < limit


def _number(value: Any) -> float | None:
    """A number, or that of a text; `None` where there is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(found) else found


def _has_more(value: Any, limit: int) -> bool | None:
    if isinstance(value, Mapping | list | tuple):
        return len(value) > limit
    return None
