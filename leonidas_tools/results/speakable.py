"""Text that was written to be read → a sentence or two that can be spoken."""

from __future__ import annotations

import re

_MOST_CHARACTERS = 300
_LOOKED_AT = 4000
_MOST_SENTENCES = 2

_MARKUP = (
    (re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)"), ""),
    (re.compile(r"```.*?(?:```|\Z)", re.DOTALL), " "),
    (re.compile(r"<[^<>\n]{1,200}>"), " "),
    (re.compile(r"!?\[([^\[\]\n]*)\]\([^()\n]*\)"), r"\1"),
    (re.compile(r"https?://\S+"), ""),
    (re.compile(r"^[ \t]*(?:#{1,6}|>+|[-*+•]|\d{1,3}[.)])[ \t]+", re.MULTILINE), ""),
    (re.compile(r"^[ \t]*[|:\-=_*]{3,}[ \t]*$", re.MULTILINE), ""),
    (re.compile(r"[*`~|]+|\b_+|_+\b"), ""),
    (re.compile(r"[\x00-\x08\x0b-\x1f\x7f]"), ""),
)
_SENTENCE = re.compile(r".+?(?:[.!?…](?=\s|$)|[\u3002\uff01\uff1f]|\n|$)", re.DOTALL)
_ENDS = ".!?…:;,\u3002\uff01\uff1f"
"""Also as Chinese writes them."""


def speakable(text: str) -> str | None:
    r"""Return the first sentence or two, without markup; `None` where there is nothing to say.

    Example:
        >>> speakable("# Weather\n\n**Sunny**, see [here](https://example.org). Wind: weak.")
        'Weather. Sunny, see here.'
    """
    text = text[:_LOOKED_AT]
    for pattern, instead in _MARKUP:
        text = pattern.sub(instead, text)
    found = (" ".join(match[0].split()) for match in _SENTENCE.finditer(text))
    sentences = [sentence for sentence in found if any(map(str.isalnum, sentence))]
    said = " ".join(map(_ended, sentences[:_MOST_SENTENCES]))
    return _shortened(said) or None


def _ended(sentence: str) -> str:
    return sentence if sentence[-1] in _ENDS else f"{sentence}."


def _shortened(text: str) -> str:
    if len(text) <= _MOST_CHARACTERS:
        return text
    kept = text[: _MOST_CHARACTERS - 1]
    words = kept.rsplit(" ", 1)
    return f"{words[0] if len(words[0]) > _MOST_CHARACTERS // 2 else kept}…"
