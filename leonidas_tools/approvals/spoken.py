"""Convert values to spoken words.

A question approves a call only if a listener can learn every value from it. `ValueSpeaker` refuses
all other values.
"""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leonidas_tools.redaction import MASK
from leonidas_tools.redaction.visible import is_visible

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_SPOKEN_CHARACTERS = 80
"""Maximum length of a spoken value, in characters."""
_MAX_SPOKEN_ITEMS = 10
MAX_SPOKEN_ARGUMENTS = 50
_MAX_SHORTENED_CHARACTERS = 20_000
"""Maximum length of a value that may be shortened to its beginning and end, in characters."""
_MAX_SHORTENED_ITEMS = 200
_MAX_SEARCHED_CHARACTERS = 2_000
_MAX_QUESTION_CHARACTERS = 400
_ENDS = 3
"""Number of items spoken at each end of a long list."""
_PLAIN_FLOAT = re.compile(r"-?\d+\.(?:\d{1,2}|\d{4,15})|-?0\.\d{1,15}")
_PAUSE = re.compile(r"[?!\n。？！，；：、]|[.,;:](?=\s|$)")  # noqa: RUF001 - Chinese punctuation
_QUESTIONING = re.compile(
    r"[?？]|吗|嗎|要|\b(?:shall|should|may|can|could|would|want|posso|devo|podemos|quer|queres|gostaria"  # noqa: RUF001 - a full-width question mark
    r"|deseja)\b",
    re.IGNORECASE,
)
"""Signs and words that mark a question to the user."""
_MIXED = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")
_LIKE_LATIN = frozenset("абвгеһіјкмнопрсԁѕтухѵԛԝӏьαβγεζηικνορτυχωϲϳ")
_SCRIPTS = {"ru": "CYRILLIC", "uk": "CYRILLIC", "bg": "CYRILLIC", "sr": "CYRILLIC",
            "el": "GREEK", "hy": "ARMENIAN"}  # fmt: skip


class UnsayableError(ValueError):
    """Raised if a listener could not learn all of a value from its spoken form."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueSpeaker:
    """Converts values to spoken words.

    Long texts, nested structures, invisible characters and look-alike letters cannot be recognised
    by ear, so they are refused.

    Args:
        language: The language of the session.
        names: The names of the tool's arguments. A text is refused if it contains one where a
            further argument could begin.
        shortens: Whether a long value may be spoken as its beginning, its end and the size of the
            gap.

    Example:
        >>> ValueSpeaker().say(["Ana", 20])
        'Ana, 20'
        >>> ValueSpeaker(shortens=True).say(list(range(20)))
        '0, 1, 2, 14 items left out, 17, 18, 19'
        >>> ValueSpeaker().say("a" * 81)
        Traceback (most recent call last):
        leonidas_tools.approvals.spoken.UnsayableError
    """

    language: str = "en"
    names: tuple[str, ...] = ()
    shortens: bool = False

    def say(self, value: Any) -> str:
        """Return the spoken form of a value.

        Raises:
            UnsayableError: A listener would not learn all of the value.
        """
        if isinstance(value, list | tuple):
            return self._say_list(value)
        if isinstance(value, Mapping):
            return self._say_mapping(value)
        if isinstance(value, float) and not _PLAIN_FLOAT.fullmatch(str(value)):
            raise UnsayableError  # "1.125" may be heard as one thousand one hundred and twenty-five
        if value is None or isinstance(value, bool | int | float):
            text = json.dumps(value)
            if len(text) <= _MAX_SPOKEN_CHARACTERS:
                return text
        elif isinstance(value, str):
            return self._say_text(value)
        raise UnsayableError

    def is_name(self, name: str) -> bool:
        """Return whether the name of a tool or an argument can be spoken unchanged.

        A name may come from a server or a model, so it must not sound like a sentence.
        """
        words = name.replace("_", " ")
        is_short_word = len(words) <= _MAX_SPOKEN_CHARACTERS and not _PAUSE.search(words)
        return is_short_word and is_plain(words, self.language)

    def _say_list(self, value: Sequence[Any]) -> str:
        if not value:
            return "empty"
        texts = [each for each in value if isinstance(each, str)]
        if any("," in each for each in texts):
            raise UnsayableError  # one item could be heard as two
        if any(_pretends(f", {each}", self.names) for each in texts):
            raise UnsayableError
        if any(isinstance(each, list | tuple | Mapping) for each in value):
            return self._say_mapping(value)
        if len(value) <= _MAX_SPOKEN_ITEMS:
            return ", ".join(map(self.say, value))
        if not self.shortens or len(value) > _MAX_SHORTENED_ITEMS:
            raise UnsayableError
        for each in value:
            self.say(each)  # raises if an item that is left out could not be spoken
        left = f"{len(value) - 2 * _ENDS} items left out"
        ends = [[*map(self.say, each)] for each in (value[:_ENDS], value[-_ENDS:])]
        return ", ".join([*ends[0], left, *ends[1]])

    def _say_mapping(self, value: Mapping[Any, Any] | Sequence[Any]) -> str:
        if not self.shortens:
            raise UnsayableError
        text = _json(value)
        if len(text) > _MAX_SHORTENED_CHARACTERS or not _is_plain(text, self.language):
            raise UnsayableError
        return self._shorten(text)

    def _say_text(self, text: str) -> str:
        if not text:
            return "empty"
        if len(text) > (_MAX_SHORTENED_CHARACTERS if self.shortens else _MAX_SPOKEN_CHARACTERS):
            raise UnsayableError  # before each character is checked
        if text == MASK:
            return "hidden"
        if MASK in text or not _is_plain(text, self.language):
            raise UnsayableError
        said = self._shorten(text)
        if _pretends(said, self.names):
            raise UnsayableError
        return said

    @staticmethod
    def _shorten(text: str) -> str:
        if len(text) <= _MAX_SPOKEN_CHARACTERS:
            return text
        half = _MAX_SPOKEN_CHARACTERS // 2
        left = len(text) - 2 * half
        return f"{text[:half]}, {left} characters left out, {text[-half:]}"


def is_short(question: str) -> bool:
    """Return whether a question is short enough to be spoken and understood."""
    return len(question) <= _MAX_QUESTION_CHARACTERS


def is_plain(question: str, language: str) -> bool:
    """Return whether a question has no invisible, non-NFC or look-alike characters."""
    return _is_plain(" ".join(question.split()), language)


def has_question(value: Any) -> bool:
    """Return whether a text in a value may be a question, or the value is too large to search.

    Example:
        >>> [has_question(value) for value in (["Shall I play music"], "See you.", 20)]
        [True, False, False]
    """
    left, room = [value], _MAX_SEARCHED_CHARACTERS
    while left and room > 0:
        each = left.pop()
        if isinstance(each, str):
            if len(each) > room or _QUESTIONING.search(each):
                return True
            room -= len(each)
        elif isinstance(each, Mapping):
            left += [*each, *each.values()]
        elif isinstance(each, list | tuple):
            left += each
        room -= 1
    return bool(left)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        raise UnsayableError from None


def _is_plain(text: str, language: str) -> bool:
    """Return whether a text has no extra space, nor invisible, non-NFC or look-alike letters."""
    if text != text.strip() or "  " in text or unicodedata.normalize("NFC", text) != text:
        return False
    if not all(map(is_visible, set(text))):
        return False
    return not any(_looks_like_another(word, language) for word in re.findall(r"[^\W\d_]+", text))


def _pretends(text: str, names: tuple[str, ...]) -> bool:
    return bool(names) and _further(names).search(text) is not None


@functools.lru_cache
def _further(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that finds a name at the possible start of another argument."""
    said = "|".join(re.escape(name.replace("_", " ")).replace(r"\ ", "[ _]") for name in names)
    return re.compile(rf"[,;:?!.]\s*(?:{said})\b", re.IGNORECASE)


def _looks_like_another(word: str, language: str) -> bool:
    if word.isascii():
        return False
    if unicodedata.normalize("NFC", word) != word:
        return True
    scripts = {unicodedata.name(each, "").partition(" ")[0] for each in word}
    found = scripts & set(_MIXED)
    if len(found) > 1:
        return True
    own = _SCRIPTS.get(language.partition("-")[0].lower())
    return bool(found - {"LATIN", own}) and set(word.lower()) <= _LIKE_LATIN
