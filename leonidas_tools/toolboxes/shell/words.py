"""One word of a command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_CHANGES = re.compile(r"[$`{]")


class Word(NamedTuple):
    """A word of a command, as the program receives it.

    `known` is whether the text is certain. If not, `text` is the source text, with variables,
    command substitutions or braces. `glob` is whether the word expands to file names, `whole`
    whether it stays one word.
    """

    text: str
    known: bool
    glob: bool = False
    whole: bool = False

    @property
    def may_be_option(self) -> bool:
        """Return whether the word may expand to an option, although that is not certain."""
        if self.glob and self.text[:1] in ("*", "?", "["):  # a file name may look like an option
            return True
        first = _CHANGES.split(self.text)[0]
        return not self.known and (not self.whole or not first or first.startswith("-"))


UNKNOWN = Word("", known=False)


def named(word: Word) -> str:
    """Return the name of the program that a word runs; empty if the program is unknown.

    Example:
        >>> named(Word("/bin/rm", known=True)), named(Word("$x", known=False))
        ('rm', '')
    """
    if not word.known or word.glob or "{" in word.text:  # `{fd}>file` is not a program
        return ""
    if word.text.startswith("/proc/"):  # `/proc/self/exe` may be any program
        return ""
    return word.text.rpartition("/")[2]


def options_of(words: Sequence[Word]) -> tuple[list[str], list[Word]]:
    """Return the options and the other words of a command.

    Example:
        >>> words = [Word(text, known=True) for text in ("-rf", "--", "-x")]
        >>> options, others = options_of(words)
        >>> options, [each.text for each in others]
        (['-r', '-f'], ['-x'])
    """
    options: list[str] = []
    others: list[Word] = []
    for index, word in enumerate(words):
        if word.known and word.text == "--":
            return options, [*others, *(each._replace(known=True) for each in words[index + 1 :])]
        if word.known and word.text.startswith("--"):
            options.append(word.text)
        elif word.known and word.text.startswith("-") and word.text != "-":
            options += [f"-{letter}" for letter in word.text[1:]]
        else:
            others.append(word)
    return options, others
