"""Judge an answer to a yes-or-no question over tables of words, one per language.

An answer is a yes only if nothing is left after words of consent, of politeness and of the question
itself are removed. So an unknown word, in any language or script, makes an answer doubtful. The
tables of all languages count at once; a word of refusal in one of them is never a word of consent.
"""

from __future__ import annotations

import functools
import re
import tomllib
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from leonidas_tools.approvals.words import (
    MAX_SPEECH_CHARACTERS,
    clauses_of,
    is_number,
    is_wide,
    words_of,
)
from leonidas_tools.rules.risky import risky_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAX_ANSWER_CHARACTERS = 200
"""Maximum length of a yes; a longer answer can only be a no."""
_OPEN = re.compile(r"[?？…¿؟\"“”«»]|\.\.|[-,;，、:\u2013\u2014]\s*\Z")  # noqa: RUF001 - of several scripts
"""Signs of a question or of an unfinished answer."""
_PAST = re.compile(r"[éíóúòù]e?s?\Z")
"""Accents that distinguish "he sent" and "sent" from "send" in Romance languages."""
_MAX_JUDGED_CHARACTERS = 2_000
_MAX_GREETING_WORDS = 8
_TABLES = Path(__file__).with_name("consent")
_MIN_STEM = 3


class Meaning(StrEnum):
    """The meaning of an answer to a yes-or-no question."""

    YES = "yes"
    NO = "no"
    DOUBTFUL = "doubtful"


class Kind(StrEnum):
    """The effect of a phrase on an answer; of two tables, the later kind wins."""

    POLITE = "polite"
    BOTH = "both"
    DOUBT = "doubt"
    YES = "yes"
    EXCLUDE = "exclude"
    STOP = "stop"
    NO = "no"
    OTHER = "other"


class Phrase(NamedTuple):
    """A phrase of an answer: its words, and their effect."""

    words: tuple[str, ...]
    kind: Kind


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsentWords:
    """The words of one language. A phrase that ends with a full stop counts only before a pause.

    Args:
        yes: Consents. None may refer to the subject of a question, as "accept" or "continue" do.
        polite: Words that may accompany a consent.
        no: Words that refuse. Together with a consent, they make the answer doubtful.
        stop: Words that refuse, unless the question asks whether to do just that.
        exclude: Words that except something, such as "without".
        doubt: Words that make any answer doubtful, among them phrases with a word of refusal that
            refuse nothing, such as "no hurry".
        both: Words for two values, such as "both".
        pronouns: Objects of a repeated verb, as in "send it".
        choosing: Words that express a choice, together with the name of an option.
        links: Words that may accompany the repeated words of a question, such as articles.
        joins: Words by which a question names several things, such as "and".
        asking: Words of a question before its verb, such as "shall" and "I".
        verb_last: The subset after which the verb comes last.
        endings: Endings of verbs, so that "envíalo" repeats "envío".
        greetings: Words that the model may say before a question.
        again: The sentence after a repeated question that tells the user which words count.
    """

    yes: tuple[str, ...] = ()
    polite: tuple[str, ...] = ()
    no: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    doubt: tuple[str, ...] = ()
    both: tuple[str, ...] = ()
    pronouns: tuple[str, ...] = ()
    choosing: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    joins: tuple[str, ...] = ()
    asking: tuple[str, ...] = ()
    verb_last: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    greetings: tuple[str, ...] = ()
    again: str = ""


class Lexicon:
    """The words of all languages.

    Args:
        tables: The words by language.
        language: The language of the session, whose words of doubt are no consents of another.
    """

    def __init__(self, tables: Sequence[tuple[str, ConsentWords]], language: str) -> None:
        self._again = {name: table.again for name, table in tables if table.again}
        self._phrases: dict[tuple[str, ...], Kind] = {}

        def texts(name: str) -> Iterator[str]:
            return (text for _, table in tables for text in getattr(table, name))

        for kind in list(Kind)[:-1]:
            self._add(kind, texts(kind.value))
            if kind is Kind.YES:
                own = (table for name, table in tables if name == language)
                self._add(Kind.DOUBT, (text for table in own for text in table.doubt))
        self._stop_words = {words for words, kind in self._phrases.items() if kind is Kind.STOP}
        self._endings = frozenset(map(_plain, texts("endings")))
        single = (words[0] for words in self._stop_words if len(words) == 1)
        self._stop_stems = {stem for word in single for stem in self._stems(word)}
        self._longest: dict[str, int] = {}
        """The length of the longest phrase that begins with a word."""
        for phrase in self._phrases:
            self._longest[phrase[0]] = max(len(phrase), self._longest.get(phrase[0], 0))
        self._greetings = {tuple(words_of(text)) for text in texts("greetings")}
        names = ("pronouns", "choosing", "links", "joins", "asking", "verb_last")
        self._pronouns, self._choosing, self.links, self.joins, self.asking, self.verb_last = (
            frozenset(word for text in texts(name) for word in words_of(text)) for name in names
        )

    def _add(self, kind: Kind, texts: Iterable[str]) -> None:
        for text in texts:
            words = (*words_of(text), *([_STOP] if text.endswith(_STOP) else []))
            if not all(map(is_number, words)):  # "um" is also a number
                self._phrases[words] = kind

    def judge(self, text: str, question: str = "", values: Sequence[str] | None = None) -> Meaning:
        """Return whether an answer to a yes-or-no question means yes, no or neither.

        Args:
            text: The spoken or typed answer.
            question: The question. A yes may repeat its verb, or all of its values in order.
            values: The values in the question; `None` if any of its words may be one.

        Example:
            >>> words = lexicon()
            >>> [words.judge(text).value for text in ("Yes, do it.", "No, don't!", "Yes, but…")]
            ['yes', 'no', 'doubtful']
            >>> asked = "Send 20 euros to Ana?"
            >>> [words.judge(text, asked, ["20", "Ana"]).value for text in (
            ...     "Yes, send it.", "Yes, 20 euros to Ana.", "Yes, to Ana.", "Yes, to Ben.")]
            ['yes', 'yes', 'doubtful', 'doubtful']
            >>> [words.judge(text).value for text in ("Pode fazer.", "没 问 题", "I accept.")]
            ['yes', 'yes', 'doubtful']
        """
        asked = _Question(self, question, values)
        kinds: set[Kind] = set()
        left: list[str] = []
        for phrase in self.phrases(text[:_MAX_JUDGED_CHARACTERS]):
            is_left = phrase.kind is Kind.OTHER or (asked.stops and phrase.kind is Kind.STOP)
            left += phrase.words if is_left else ()
            kinds.add(Kind.OTHER if is_left else phrase.kind)
        if Kind.YES not in kinds:
            return Meaning.DOUBTFUL if kinds.isdisjoint(_REFUSALS) else Meaning.NO
        is_clear = kinds.isdisjoint(_STRICT) and is_complete(text)
        if not is_clear or (Kind.BOTH in kinds and len(values or ()) != len("ab")):
            return Meaning.DOUBTFUL
        return Meaning.YES if not left or asked.is_repeated_by(left) else Meaning.DOUBTFUL

    def refuses(self, text: str) -> bool:
        """Return whether any part of a text refuses.

        Example:
            >>> [lexicon().refuses(text) for text in ("Okay, stop!", "No worries.", "Thank you.")]
            [True, False, False]
        """
        return any(phrase.kind in _REFUSALS for phrase in self.phrases(text))

    def excludes(self, text: str) -> bool:
        """Return whether any part of a text refuses or excepts something.

        Example:
            >>> [lexicon().excludes(text) for text in ("Pay all but Eve.", "Pay Eve.")]
            [True, False]
        """
        return any(phrase.kind in _EXCLUSIONS for phrase in self.phrases(text))

    def only_refuses(self, text: str) -> bool:
        """Return whether a text refuses, and has no unknown word.

        Example:
            >>> [lexicon().only_refuses(text) for text in ("Cancel that.", "Cancel the alarm.")]
            [True, False]
        """
        idle = self.links | self._pronouns
        phrases = list(self.phrases(text))
        is_known = all(
            each.kind is not Kind.OTHER or idle.issuperset(each.words) for each in phrases
        )
        return is_known and any(each.kind in _REFUSALS for each in phrases)

    def is_firm(self, words: Sequence[str], *, is_whole: bool) -> bool:
        """Return whether words have no refusal and no doubt; if `is_whole`, no unknown words."""
        idle = self.links | self._choosing | {_STOP}
        return all(
            phrase.kind in _LOOSE
            or idle.issuperset(phrase.words)
            or is_number(phrase.words[0])
            or (phrase.kind is Kind.OTHER and not is_whole)
            for phrase in self._divide(words, set())
        )

    def asks(self, speech: str, question: str) -> bool:
        """Return whether speech is a question, word for word, after no more than a greeting.

        Example:
            >>> [lexicon().asks(speech, "Send 20 euros to Ana?") for speech in (
            ...     "Okay, good. Send €20 to Ana?", "A yes cancels it. Send 20 euros to Ana?")]
            [True, False]
        """
        if len(speech) > MAX_SPEECH_CHARACTERS:
            return False
        spoken, asked = words_of(speech), words_of(question)
        before = len(spoken) - len(asked)
        return bool(asked) and spoken[before:] == asked and self._greets(spoken[:before])

    def again(self, language: str) -> str:
        """Return the sentence that tells the user which words count, in English if in no other."""
        return self._again.get(language.partition("-")[0].lower()) or self._again["en"]

    def phrases(self, text: str) -> Iterator[Phrase]:
        """Yield the phrases of a text; a negated consent is a refusal.

        Of all ways to divide the text, the one with the fewest unknown words and the fewest phrases
        counts, then the strictest.
        """
        words: list[str] = []
        pauses = set()
        for clause in clauses_of(text[:MAX_SPEECH_CHARACTERS]):
            words += clause
            pauses.add(len(words))
        yield from self._divide(words, pauses)

    def _divide(self, words: Sequence[str], pauses: set[int]) -> Iterator[Phrase]:
        best = [(0, 0, 0)] * (len(words) + 1)
        found: list[Phrase] = []
        for start in reversed(range(len(words))):
            best[start], phrase = min(self._phrases_at(words, pauses, start, best))
            found.append(phrase)
        found.reverse()
        start = 0
        last: Phrase | None = None
        while start < len(words):
            phrase = found[start]
            if last and start not in pauses and phrase.kind is Kind.YES:
                if last.kind is Kind.NO:
                    phrase = Phrase(phrase.words, Kind.NO)  # "don't do it"
                elif last.kind is Kind.YES and _may_be_one_word(last.words, phrase.words):
                    phrase = Phrase(phrase.words, Kind.DOUBT)
            yield phrase
            last = phrase
            start += len(phrase.words)

    def _phrases_at(
        self, words: Sequence[str], pauses: set[int], start: int, best: Sequence[tuple[int, ...]]
    ) -> Iterator[tuple[tuple[int, int, int], Phrase]]:
        """Yield the phrases that begin at an index, each with the cost of the text from there."""
        others, pieces, loose = best[start + 1]
        yield (others + 1, pieces + 1, loose + 1), Phrase((words[start],), Kind.OTHER)
        longest = self._longest.get(words[start], 0)
        for end in range(start + 1, min(len(words), start + longest) + 1):
            found = tuple(words[start:end])
            kind = self._phrases.get((*found, _STOP)) if end in pauses else None
            kind = kind or self._phrases.get(found)
            if kind is None:
                continue
            # "No, problem" is not "no problem".
            is_broken = not pauses.isdisjoint(range(start + 1, end))
            if not (is_broken and any(self._phrases.get((word,)) is Kind.NO for word in found)):
                others, pieces, loose = best[end]
                yield (others, pieces + 1, loose + (kind in _LOOSE)), Phrase(found, kind)

    def _greets(self, words: Sequence[str]) -> bool:
        """Return whether words are greetings, politeness and consents."""
        start = 0
        while start < len(words):
            for end in range(min(len(words), start + _MAX_GREETING_WORDS), start, -1):
                found = tuple(words[start:end])
                if found in self._greetings or self._phrases.get(found) in _OPENERS:
                    break
            else:
                return False
            start = end
        return True

    def is_same_verb(self, one: str, other: str) -> bool:
        """Return whether two words differ at most in the ending of a verb."""
        return not self._stems(one).isdisjoint(self._stems(other))

    def _stems(self, verb: str) -> set[str]:
        if _PAST.search(verb):
            return {verb}
        plain = _plain(verb)
        stems = (plain.removesuffix(each) for each in self._endings if plain.endswith(each))
        return {plain, *(stem for stem in stems if len(stem) >= _MIN_STEM)}

    def stops(self, verbs: Sequence[str]) -> bool:
        """Return whether a verb means to stop or to refuse something."""
        stems = {stem for verb in verbs for stem in self._stems(verb)}
        return tuple(verbs) in self._stop_words or not stems.isdisjoint(self._stop_stems)

    def contents_of(self, words: Sequence[str]) -> list[str] | None:
        """Return the words without links and pronouns; `None` if they end with a link."""
        if words and words[-1] in self.links - self._pronouns:
            return None
        return [word for word in words if word not in self.links | self._pronouns]


class _Question:
    """The words of a question that a yes may repeat, by their indexes.

    In "Delete order 5 of Ana?", the verb is "delete", the values are "5" and "Ana", and "order" is
    an object: a noun between the verb and the first value.
    """

    def __init__(self, lexicon: Lexicon, text: str, values: Sequence[str] | None) -> None:
        self._lexicon = lexicon
        self._words = words_of(text)
        self._values: set[int] = set() if values is None else _places(self._words, values)
        idle = lexicon.links | lexicon.asking
        contents = [
            at for at, word in enumerate(self._words) if at not in self._values and word not in idle
        ]
        is_verb_last = not lexicon.verb_last.isdisjoint(self._words)
        verbs = [self._words[at] for at in (contents[-1:] if is_verb_last else contents[:2])]
        verbs = verbs if all(map(is_wide, verbs)) else verbs[:1]  # "发送" is one verb
        self._verbs = [verb for verb in verbs if not is_number(verb)]
        self._nouns = {at for at in contents if self._words[at] not in self._verbs}
        if values is None:
            self._values = self._nouns
        ends = accumulate(map(len, clauses_of(text)))
        # The end of the clause with the verb.
        self._end = next((end for end in ends if contents and end > contents[0]), len(self._words))
        objects_end = min(self._end, *self._values) if self._values else 0
        self._objects = {at for at in self._nouns if at < objects_end}
        self._is_list = not lexicon.joins.isdisjoint(
            word for at, word in enumerate(self._words) if at not in self._values
        )
        acts = (self._words[at] for at in self._nouns - self._values if at < self._end)
        if any(lexicon.stops([word]) or risky_word(word) for word in acts):
            self._verbs = []  # "order cancel": "Yes, order it." would mean the opposite
        self.stops = lexicon.stops(self._verbs)
        """Whether the question asks to stop or refuse something."""

    def is_repeated_by(self, words: Sequence[str]) -> bool:
        """Return whether words repeat the question's verb, or all that it names, in order."""
        rest = self._without_verb(words)
        named = self._lexicon.contents_of(rest)
        if named is None:
            return False
        places: list[int] = []
        for word in named:
            after = places[-1] + 1 if places else 0
            if word not in self._words[after:]:
                return False
            places.append(self._words.index(word, after))
        has_verb = len(rest) < len(words) or any(map(is_wide, named))  # of any place in Chinese
        if not self._values.isdisjoint(places):
            # "Okay, order 5" does not agree to "delete order 5".
            return self._values.issubset(places) and (has_verb or self._objects.isdisjoint(places))
        is_part = bool(places) and (self._is_list or places[-1] >= self._end)
        return has_verb and (not is_part or self._nouns.issubset(places))

    def _without_verb(self, words: Sequence[str]) -> list[str]:
        same = self._lexicon.is_same_verb
        if all(map(is_wide, self._verbs)):
            return [word for word in words if word not in self._verbs]
        for at, word in enumerate(words):
            for verb in self._verbs:
                if same(word, verb):
                    return [*words[:at], *words[at + 1 :]]
                is_split = at < len(words) - 1 and self._lexicon.contents_of([word])
                if is_split and same(words[-1] + word, verb):  # "lehne das ab"
                    return [*words[:at], *words[at + 1 : -1]]
        return list(words)


_STOP = "."
_OPENERS = frozenset({Kind.YES, Kind.POLITE})
_REFUSALS = frozenset({Kind.NO, Kind.STOP})
_EXCLUSIONS = frozenset({*_REFUSALS, Kind.EXCLUDE})
_STRICT = frozenset({*_EXCLUSIONS, Kind.DOUBT})
_LOOSE = frozenset({Kind.YES, Kind.POLITE, Kind.BOTH})


def _places(words: Sequence[str], values: Sequence[str]) -> set[int]:
    """Return the indexes of the values; -1, which is never repeated, if one is not among them."""
    places: set[int] = set()
    for value in filter(None, map(words_of, values)):
        ends = range(max(places, default=-1) + 1 + len(value), len(words) + 1)
        end = next((end for end in ends if words[end - len(value) : end] == value), None)
        places.update(range(end - len(value), end) if end is not None else (-1,))
    return places


def _may_be_one_word(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two consents in Chinese may mean something else together: "好" and "做"."""
    is_short = len(one) == 1 or len(other) == 1
    return is_short and one != other and is_wide(one[0]) and is_wide(other[0])


def _plain(word: str) -> str:
    """Return a word without accents."""
    return "".join(each for each in unicodedata.normalize("NFD", word) if each.isalnum())


def is_complete(text: str) -> bool:
    """Return whether a text is short enough, is complete and is not a question."""
    return len(text) <= MAX_ANSWER_CHARACTERS and _OPEN.search(text.strip()) is None


@functools.lru_cache(maxsize=16)
def lexicon(language: str = "en", more: tuple[tuple[str, ConsentWords], ...] = ()) -> Lexicon:
    """Return the words of the package, and more words, for sessions in a language."""
    tables = [(path.stem, _read(path)) for path in sorted(_TABLES.glob("*.toml"))]
    return Lexicon([*tables, *more], language.partition("-")[0].lower())


def _read(path: Path) -> ConsentWords:
    table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    again = table.pop("again")
    lists = {name: tuple(re.split(r"[|\n]", text)) for name, text in table.items()}
    return ConsentWords(again=again, **lists)


def judge(
    text: str, question: str = "", values: Sequence[str] | None = None, *, language: str = "en"
) -> Meaning:
    """Judge an answer by the words of the package; see `Lexicon.judge`."""
    return lexicon(language).judge(text, question, values)
