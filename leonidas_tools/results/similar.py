"""Names similar to a misspelt one."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_LETTERS_A_MISTAKE: Final = 6
_MAX_MISTAKES: Final = 2
_MARGIN: Final = 2
_MAX_COMPARED_LENGTH: Final = 256
_MAX_COMPARED: Final = 10_000


def closest(name: str, names: Iterable[str], *, limit: int = 5) -> list[str]:
    """Return the names most similar to `name`, best first.

    Example:
        >>> closest("get_wether", ["get_weather", "send_mail"])
        ['get_weather']
    """
    from rapidfuzz import fuzz, process, utils

    # Comparing takes time by the product of both lengths, and a model may write any length.
    compared = (each for each in names if len(each) <= _MAX_COMPARED_LENGTH)
    found = process.extract(
        name[:_MAX_COMPARED_LENGTH],
        list(itertools.islice(compared, _MAX_COMPARED)),
        scorer=fuzz.WRatio,
        processor=utils.default_process,
        limit=limit,
        score_cutoff=60,
    )
    return [match for match, _, _ in found]


def clearly_closest(name: str, names: Iterable[str]) -> str | None:
    """Return the only name that `name` can be a misspelling of, or `None` in doubt.

    A few letters may differ, one in six and at most two; the first letter and digits may not. Any
    other name must differ by at least two letters more. Case and separators do not count.

    Example:
        >>> clearly_closest("get_wether", ["get_weather", "send_mail"])
        'get_weather'
        >>> clearly_closest("unlock_door", ["lock_door"])
        >>> clearly_closest("get_usr", ["get_user", "get_users"])
    """
    from rapidfuzz.distance import OSA

    candidates = list(itertools.islice(names, _MAX_COMPARED + 1))
    if len(name) > _MAX_COMPARED_LENGTH or len(candidates) > _MAX_COMPARED:
        return None
    plain = _letters(name)
    most = min(len(plain) // _LETTERS_A_MISTAKE, _MAX_MISTAKES)
    near = most + _MARGIN
    found = sorted(
        (OSA.distance(plain, _letters(each), score_cutoff=near), each)
        for each in candidates
        if len(each) <= _MAX_COMPARED_LENGTH
    )
    if not found or found[0][0] > most:
        return None
    if len(found) > 1 and found[1][0] < found[0][0] + _MARGIN:
        return None
    best = found[0][1]
    # "set" is no typo of "get", and one year is no typo of another.
    same_start = _letters(best)[:1] == plain[:1] != ""
    return best if same_start and _digits(best) == _digits(name) else None


def _letters(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()


def _digits(name: str) -> str:
    return re.sub(r"\D+", " ", name).strip()
