"""Texts as the words that are heard of them."""

import re

from rapidfuzz.distance import Levenshtein

_ONES = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen",
]  # fmt: skip
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_VALUES = {word: value for value, word in enumerate(_ONES)}
_VALUES |= {word: 20 + 10 * place for place, word in enumerate(_TENS)}


def words_of(text):
    """The words, without case and marks; numbers up to 99 as digits, however they are written."""
    words = []
    for word in re.findall(r"\w+", text.casefold().replace("'", "")):
        value = _VALUES.get(word)
        if value is None:
            words.append(word)
        elif 0 < value < 10 and words and re.fullmatch("[2-9]0", words[-1]):
            words[-1] = str(int(words[-1]) + value)
        else:
            words.append(str(value))
    return words


def word_error_rate(heard, said):
    """How many words are wrong, missing or too many, for each word that was said."""
    wanted = words_of(said)
    return Levenshtein.distance(words_of(heard), wanted) / len(wanted)


def has_words(heard, said):
    """Whether all the words were heard in their order, whatever else was."""
    rest = iter(words_of(heard))
    return all(word in rest for word in words_of(said))
