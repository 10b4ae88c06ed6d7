"""Find stressed words in the audio."""

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
    """A span of audio to stress, in seconds from the start of the model's audio."""

    words: str
    start: float
    end: float
    begun: bool = False  # some of its audio was yielded


class SpokenWords:
    """Estimates from the transcription when words are spoken.

    A transcription has no times. Each piece is assumed to begin at the end of the piece before it,
    or with the audio after it if that is later, and to run at 15 characters a second (5 for wide
    characters). The estimate is right within a few tenths of a second if the transcription comes
    with its audio or before it. If the transcription is late, the audio after it is stressed.

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
        """Add a piece of the transcription."""
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
        """Return the stress at a position in the audio, and the position of the next change."""
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
        """End the turn, and drop the stress of words without audio."""
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
    """Return a pattern for the words of a text, with word boundaries if the text is ASCII."""
    inner = r"\W+".join(re.escape(word) for word in re.findall(r"\w+", words)) or r"(?!)"
    return re.compile(rf"\b{inner}\b" if words.isascii() else inner, re.IGNORECASE)


def _seconds(character: str) -> float:
    wide = unicodedata.east_asian_width(character) in "WF"
    return _WIDE_CHARACTER_SECONDS if wide else _CHARACTER_SECONDS
