"""Rank tools by the words of their names, tags and descriptions."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHORTEST = 3
_STEM = 4
_MAX_ENDING_LENGTH = 3
_MAX_DESCRIPTION_LENGTH = 2_000
_MAX_WORDS = 100
_COMMON_SHARE = 0.25
_NAME, _TAG, _DESCRIPTION = 3.0, 2.0, 1.0


class Relevance:
    """Indexes the words of tools, to find the tools that match a text.

    Words of more than a quarter of the tools are ignored; rare words count most. Words match if
    they are the same, or differ in a short ending only.

    `texts` has the name, the tags and the description of each tool.

    Example:
        >>> relevance = Relevance({"book_flight": ("travel", "Books a seat."), "rome": ("", "")})
        >>> relevance.best("Two flights, please.")
        ['book_flight']
    """

    def __init__(self, texts: Mapping[str, tuple[str, str]]) -> None:
        self._by_stem: dict[str, dict[str, dict[str, float]]] = defaultdict(dict)
        words = {
            name: _weigh_words(name, tags, description)
            for name, (tags, description) in texts.items()
        }
        counts = Counter(word for weights in words.values() for word in weights)
        most = max(_COMMON_SHARE * len(words), 1)
        for name, weights in words.items():
            for word, weight in weights.items():
                if counts[word] <= most:
                    rarity = 1.0 + math.log(len(words) / counts[word])
                    of_word = self._by_stem[word[:_STEM]].setdefault(word, {})
                    of_word[name] = weight * rarity

    def best(self, said: str) -> list[str]:
        """Return the tools that match a text, the best first; leave out the others."""
        scores: Counter[str] = Counter()
        for word in _words(said)[-_MAX_WORDS:]:
            matched: dict[str, float] = {}
            for known, tools in self._by_stem.get(word[:_STEM], {}).items():
                if _is_alike(word, known):
                    for name, weight in tools.items():
                        matched[name] = max(matched.get(name, 0.0), weight)
            scores.update(matched)
        return [name for name, _ in scores.most_common()]


def _weigh_words(name: str, tags: str, description: str) -> dict[str, float]:
    """Return each word with the weight of the best place where it occurs."""
    # Short words of a sentence are mostly such as "the"; those of a name are chosen.
    said = [word for word in _words(description[:_MAX_DESCRIPTION_LENGTH]) if len(word) >= _STEM]
    weights = dict.fromkeys(said, _DESCRIPTION)
    weights |= dict.fromkeys(_words(tags), _TAG)
    return weights | dict.fromkeys(_words(_CAMEL.sub(" ", name)), _NAME)


def _words(text: str) -> list[str]:
    """Return the words of at least three letters, in lower case, each once."""
    words = _WORD.findall(text.casefold())
    return list(dict.fromkeys(word for word in words if len(word) >= _SHORTEST))


def _is_alike(one: str, other: str) -> bool:
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    return (
        len(short) >= _STEM
        and long.startswith(short)
        and len(long) - len(short) <= _MAX_ENDING_LENGTH
    )
