"""Find stressed words in the sound."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_CHARACTER_SECONDS = 1 / 15
_WIDE_CHARACTER_SECONDS = 1 / 5
_MARGIN_SECONDS = 0.1


@dataclass(kw_only=True, slots=True)
class Stress:
    """A stretch of the sound that is to be stressed, in seconds of what the model has sent."""

    words: str
    start: float
    end: float
    begun: bool = False  # some of it has been heard


class SpokenWords:
    """Guesses from the transcript when words are spoken.

    A transcript has no times. A piece of it is taken to begin where the piece before it ends, or
    with the sound that comes after it if that is later, and to go on at 15 characters a second (5
    where characters are wide). That is right within a few tenths of a second while the transcript
    comes with its sound or ahead of it; where it lags behind, the sound that follows is stressed.

    Example:
        >>> spoken = SpokenWords()
        >>> spoken.hear("This is really", at=2.0, wanted=["really important"])
        >>> spoken.hear(" important!", at=2.0, wanted=["really important"])
        >>> [(stress.words, round(stress.start, 1)) for stress in spoken.stresses]
        [('really important', 2.4)]
    """

    def __init__(self) -> None:
        self.stresses: list[Stress] = []
        """Words to stress that have not been played to their end."""
        self._text = ""
        self._starts: list[float] = []
        self._end = 0.0

    def hear(self, text: str, *, at: float, wanted: Sequence[str]) -> None:
        """Take in a piece of the transcript."""
        before = len(self._text)
        self._end = max(self._end, at)
        for character in text:
            self._starts.append(self._end)
            self._end += _seconds(character)
        self._text += text
        for words in wanted:
            if all(stress.words != words for stress in self.stresses):
                self._find(words, before)

    def at(self, seconds: float, wanted: Sequence[str]) -> tuple[Stress | None, float]:
        """Return the stress at a place in the sound, and where that changes next."""
        self.stresses = [
            each for each in self.stresses
            if each.end > seconds and (each.begun or each.words in wanted)
        ]  # fmt: skip
        now = next((stress for stress in self.stresses if stress.start <= seconds), None)
        if now is not None:
            now.begun = True
            return now, now.end
        return None, min((stress.start for stress in self.stresses), default=math.inf)

    def end_turn(self, at: float) -> None:
        """End the turn: words without sound get none."""
        self._text, self._starts, self._end = "", [], at
        self.stresses = [stress for stress in self.stresses if stress.start < at]
        for stress in self.stresses:
            stress.end = min(stress.end, at)

    def _find(self, words: str, before: int) -> None:
        for found in _pattern(words).finditer(self._text):
            if found.end() > before:
                start, last = self._starts[found.start()], found.end() - 1
                end = self._starts[last] + _seconds(self._text[last])
                self.stresses.append(
                    Stress(words=words, start=start - _MARGIN_SECONDS, end=end + _MARGIN_SECONDS)
                )
                return


def _pattern(words: str) -> re.Pattern[str]:
    """Return the words of a text; single characters in scripts without spaces."""
    inner = r"\W+".join(re.escape(word) for word in re.findall(r"\w+", words)) or r"(?!)"
    return re.compile(rf"\b{inner}\b" if words.isascii() else inner, re.IGNORECASE)


def _seconds(character: str) -> float:
    wide = unicodedata.east_asian_width(character) in "WF"
    return _WIDE_CHARACTER_SECONDS if wide else _CHARACTER_SECONDS
