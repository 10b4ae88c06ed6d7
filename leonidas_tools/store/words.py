"""Words of a text as both databases index and find them."""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"\w+")
_ALONE = re.compile(
    "[\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd]"
)
"""Characters of scripts without spaces: each is a word of its own."""
_LONGEST_WORD = 64
_MOST_QUERY_WORDS = 32


def indexed_words(text: str) -> str:
    """Return the words of a text, without case and accents, in letters that need no locale.

    Example:
        >>> indexed_words("Café, 明天!"), indexed_words("Да")
        ('cafe xe6988e xe5a4a9', 'xd0b4d0b0')
    """
    return " ".join(word for group in _groups(text) for word in group)


def query_words(text: str) -> list[list[str]]:
    """Return the words of a query: groups that stand together in the text.

    Example:
        >>> query_words("buy 牛奶")
        [['buy'], ['xe7899b', 'xe5a5b6']]
    """
    return _groups(text)[:_MOST_QUERY_WORDS]


def _groups(text: str) -> list[list[str]]:
    plain = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(each for each in plain if not unicodedata.combining(each))
    plain = unicodedata.normalize("NFC", plain)  # Hangul is one character again
    return [group for word in _WORD.findall(plain) for group in _split(word.replace("_", " "))]


def _split(word: str) -> list[list[str]]:
    """Return runs of characters that stand alone, and the words between them."""
    groups: list[list[str]] = []
    for piece in word.split():
        at = 0
        for run in re.finditer(f"(?:{_ALONE.pattern})+", piece):
            groups += [[_safe(piece[at : run.start()])]] if run.start() > at else []
            groups.append([_safe(each) for each in run[0]])
            at = run.end()
        groups += [[_safe(piece[at:])]] if at < len(piece) else []
    return groups


def _safe(word: str) -> str:
    word = word[:_LONGEST_WORD]
    return word if word.isascii() else f"x{word.encode('utf-8', 'surrogatepass').hex()}"
