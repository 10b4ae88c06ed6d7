"""Estimate how long a pattern takes to match, without matching it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_CLASS: Final = r"\[(?:\\.|[^\]\\])*\]"
_CLASS_OR_REST: Final = re.compile(rf"{_CLASS}?", re.DOTALL)
_TOKENS: Final = re.compile(
    rf"\\[pP]\{{[^}}]*\}}|\\.|{_CLASS}?|\{{(\d{{1,6}})(?:,(\d{{0,6}}))?\}}|.", re.DOTALL
)
_LEADING: Final = re.compile(
    rf"\^(?:\(\?[=!](?:\\.|{_CLASS}|[^()\\\[]|\((?:\\.|{_CLASS}|[^()\\\[])*\))*\))*", re.DOTALL
)
_BACKTRACKS: Final = re.compile(r"\(\?(?:[=!>]|<[=!])|\\[1-9kKGg]|[*+?}]\+")
_ONE_WAY: Final = re.compile(
    rf"\^(?:\\.|{_CLASS}|[^\\\[(){{}}*+?|^$])*(?:[*+]|\{{\d+(?:,\d*)?\}})?\$?", re.DOTALL
)
"""A pattern whose only repeat is the last: each text is in one state at a time."""
_PROPERTY: Final = re.compile(r"\\[pP]")
_PROPERTY_STATES: Final = 64
_LETTERS_A_STATE: Final = 8
_MAX_STATES: Final = 10**9
_FEW_STATES: Final = 64
_GIVING_UP: Final = 2_500
"""The work after which the engine gives up a pattern, in checks of a plain schema."""
_STATES_AT_ONCE: Final = 64
"""Number of states that at most take the time of such a check for each character."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PatternCost:
    """An estimate of the work of matching a pattern.

    Args:
        size: The approximate size of its automaton, which determines the time to compile it.
        states: The number of its states that a text may be in at once, roughly.
        backtracks: Whether it needs more than an automaton, for a lookaround or a backreference.
    """

    size: int
    states: int
    backtracks: bool

    @property
    def is_light(self) -> bool:
        """Return whether it takes little time for any text that a call may have."""
        return not self.backtracks and self.states <= _FEW_STATES

    def of(self, text: str) -> int:
        """Return the work for one text, in checks of a plain schema."""
        length = len(text)
        if not self.backtracks:
            return self.states * length // _STATES_AT_ONCE
        return _GIVING_UP + self.states * length * length // _STATES_AT_ONCE


def cost_of(pattern: str) -> PatternCost:
    """Estimate the work of matching a pattern.

    Lookarounds directly after `^` run once, so they count as light.

    Example:
        >>> cost_of("[a-f]{4}-(x|y){2}")
        PatternCost(size=9, states=9, backtracks=False)
        >>> cost_of("^urn:.{1,2000}$")
        PatternCost(size=2004, states=1, backtracks=False)
        >>> [cost_of(each).backtracks for each in ("^(?=.*[0-9]).{8,}$", "a*(?=b)")]
        [False, True]
    """
    leading = _LEADING.match(pattern)
    rest = _CLASS_OR_REST.sub("x", pattern[leading.end() if leading else 0 :])
    return PatternCost(
        size=_total(pattern, _weight),
        states=1 if _ONE_WAY.fullmatch(pattern) else _total(pattern, lambda _: 1),
        backtracks=_BACKTRACKS.search(rest) is not None,
    )


def _total(pattern: str, weight: Callable[[str], int]) -> int:
    """Return the total weight of the tokens of a pattern, with their repeats."""
    totals, last = [0], 0
    for token in _TOKENS.finditer(pattern):
        text = token[0]
        if text == "(":
            totals.append(0)
        elif text == ")" and len(totals) > 1:
            last = totals.pop()
            totals[-1] += last
        elif token[1] is not None:
            times = max(int(token[1]), int(token[2] or 0), 1)
            totals[-1] += last * (times - 1)
            last = min(last * times, _MAX_STATES)
        elif text not in "*+?|^$":
            last = weight(text)
            totals[-1] += last
    return min(sum(totals), _MAX_STATES)


def _weight(token: str) -> int:
    r"""Return the approximate number of states of a character: `\p{L}` has many ranges."""
    return 1 + _PROPERTY_STATES * len(_PROPERTY.findall(token)) + len(token) // _LETTERS_A_STATE
