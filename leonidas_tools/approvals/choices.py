"""Compare the values that a model reports for a choice with the user's speech.

A choice counts only if the user has named it, in the words of the question or by its number; so
neither the model nor a text that it has read can choose. For any other value, the question is
repeated.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals.lexicon import Kind, Meaning, is_complete, lexicon
from leonidas_tools.approvals.words import ORDINALS, clauses_of, is_number, numbers_in, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_DIGITS_HAN = "一二三四五六七八九十"
_ORDINAL = "{0}|the {0}|the {0} one|the {0} option|o {0}|a {0} opção|{0} opção|{0} option"
_NUMBER = "{0}|number {0}|option {0}|número {0}|opção {0}|a opção {0}|选{0}|选项{0}|第{0}|第{0}个"
_NUMBER_HAN = "{0}|第{0}|第{0}个|选{0}|选第{0}个|选项{0}|{0}号"
_OPENERS = "(,:;["
_END = "."
"""Separates utterances, and replaces the name of an option."""
_SIZES = {
    "s": ("small", "pequeno", "pequena", "小"),
    "m": ("medium", "médio", "média", "中"),
    "l": ("large", "grande", "大"),
}
"""The spoken words for the letters of sizes."""


def properties_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schemas of the values of an answer, by name."""
    properties = schema.get("properties")
    return dict(properties) if isinstance(properties, dict) else {}


def options_of(schema: Any) -> Iterator[tuple[Any, str]]:
    """Yield the values of a property that can be chosen, each with its display name.

    Example:
        >>> list(options_of({"oneOf": [{"const": "r", "title": "Red"}]}))
        [('r', 'Red')]
    """
    if not isinstance(schema, dict):
        return
    names = schema.get("enumNames")
    values = schema.get("enum")
    if isinstance(values, list):
        shown = names if isinstance(names, list) and len(names) == len(values) else values
        yield from ((value, str(name)) for value, name in zip(values, shown, strict=True))
    for key in ("oneOf", "anyOf"):
        each = schema.get(key)
        for option in each if isinstance(each, list) else ():
            if isinstance(option, dict) and "const" in option:
                yield option["const"], str(option.get("title", option["const"]))
            else:
                yield from options_of(option)
    yield from options_of(schema.get("items"))


def are_chosen(
    schema: Mapping[str, Any], given: Mapping[str, Any], utterances: Sequence[str], question: str
) -> bool:
    """Return whether the user has named each choice that the model reports, and no other.

    Args:
        schema: The schema of the answer.
        given: The values by name.
        utterances: What the user has said since the question was asked.
        question: The words with which the model asked. An option can be named by its number only if
            these words name all options in order.

    Example:
        >>> size = {"properties": {"size": {"enum": ["small", "large"]}}}
        >>> [are_chosen(size, {"size": "large"}, [said], "Small or large?") for said in (
        ...     "The large one, please.", "The second one.", "Small.", "Not large.", "Yes.")]
        [True, True, False, False, False]
    """
    properties = properties_of(schema)
    choices = [
        _Choice(each, given[name], name)
        for name, each in properties.items()
        if name in given and _has_options(each)
    ]
    if not choices or (len(choices) == 1 and choices[0].is_numbered(utterances, question)):
        return True
    heard = [word for each in utterances for word in (*words_of(each), _END)]
    left = heard
    for choice in choices:
        left = choice.remove_options(left)
    has_text = any(
        _takes_text(each) and _is_given(each, given.get(name)) for name, each in properties.items()
    )
    # Words that are unknown may belong to a text among the values.
    is_firm = lexicon().is_firm(left, is_whole=left != heard and not has_text)
    chosen = [value for choice in choices for value in choice.chosen]
    return (
        is_firm
        and all(map(is_complete, utterances))
        and all(choice.is_named(heard, chosen) for choice in choices)
    )


def are_numbers_said(
    schema: Mapping[str, Any], given: Mapping[str, Any], utterances: Sequence[str]
) -> bool:
    """Return whether the user has said each number that the model reports.

    A default of the server needs no utterance, and a number with options counts as a choice.

    Example:
        >>> count = {"properties": {"count": {"type": "integer", "default": 1}}}
        >>> [are_numbers_said(count, {"count": n}, ["Two of them."]) for n in (1, 2, 200)]
        [True, True, False]
    """
    heard: set[Decimal] | None = None
    for name, each in properties_of(schema).items():
        value = given.get(name)
        if _has_options(each):
            continue
        default = each.get("default") if isinstance(each, dict) else None
        if default is not None and value == default:
            continue
        for one in value if isinstance(value, list) else [value]:
            if not isinstance(one, int | float) or isinstance(one, bool):
                continue
            heard = numbers_in(" . ".join(utterances)) if heard is None else heard
            if abs(Decimal(str(one))) not in heard:
                return False
    return True


def is_yes(value: Any) -> bool:
    """Return whether a value means yes, which requires an explicit yes of the user."""
    return value is True or (isinstance(value, str) and lexicon().judge(value) is Meaning.YES)


def is_no(value: Any) -> bool:
    """Return whether a value means no."""
    return value is False or (isinstance(value, str) and lexicon().judge(value) is Meaning.NO)


class _Choice:
    """One property with options, and the values chosen for it."""

    def __init__(self, schema: Any, value: Any, name: str) -> None:
        self._options = [(each, name) for each, name in options_of(schema) if _is_nameable(each)]
        self._default = schema.get("default")
        self._field_name = tuple(words_of(name.replace("_", " ")))
        self._value = value
        each = value if isinstance(value, list) else [value]
        self.chosen = [one for one in each if _is_nameable(one)]
        self._names = sorted(
            ((words, value) for value, name in self._options for words in _names(value, name)),
            key=lambda each: -len(each[0]),
        )

    def is_named(self, heard: Sequence[str], chosen: Sequence[Any]) -> bool:
        """Return whether the words name the chosen values, and no other option.

        `chosen` are the values of all properties. A server's default needs no utterance.
        """
        named = list(dict.fromkeys(value for value, _ in self._find_options(heard)))
        if self._is_named_otherwise(heard):
            return False
        if not named and self._default is not None and self._value == self._default:
            return True
        if isinstance(self._value, list):
            return set(named) == set(self.chosen)
        options = [value for value, _ in self._options]
        # Only the order distinguishes two values of one kind.
        return named == list(dict.fromkeys(each for each in chosen if each in options))

    def _is_named_otherwise(self, heard: Sequence[str]) -> bool:
        """Return whether the name of the property is said before an option that is not chosen."""
        size = len(self._field_name)
        return any(
            value not in self.chosen
            and start >= size
            and tuple(heard[start - size : start]) == self._field_name
            for value, (start, _) in self._find_options(heard)
        )

    def is_numbered(self, utterances: Sequence[str], question: str) -> bool:
        """Return whether the user has said only the number of the one chosen option."""
        words = [word for clause in clauses_of(question) for word in (*clause, _END)]
        offered = list(dict.fromkeys(value for value, _ in self._find_options(words)))
        values = [value for value, _ in self._options]
        if offered != values or len(utterances) != 1 or len(self.chosen) != 1:
            return False
        phrases = lexicon().phrases(utterances[0])
        named = [word for each in phrases if each.kind is not Kind.POLITE for word in each.words]
        numeric = any(str(value).strip("-").isdecimal() for value in values)
        numbered = _phrases_for(values.index(self.chosen[0]), numeric=numeric)
        return tuple(named) in numbered

    def remove_options(self, words: Sequence[str]) -> list[str]:
        """Return the words that do not name an option."""
        left, end = [], 0
        for start, length in (at for _, at in self._find_options(words)):
            left += [*words[end:start], _END]
            end = start + length
        return [*left, *words[end:]]

    def _find_options(self, words: Sequence[str]) -> Iterator[tuple[Any, tuple[int, int]]]:
        start = 0
        while start < len(words):
            for name, value in self._names:
                end = start + len(name)
                if tuple(words[start:end]) == name and not _is_inside_number(words, start, end):
                    yield value, (start, len(name))
                    start += len(name)
                    break
            else:
                start += 1


def _has_options(schema: Any) -> bool:
    return any(True for _ in options_of(schema))


def _is_inside_number(words: Sequence[str], start: int, end: int) -> bool:
    """Return whether words are a part of a longer number: "two" of "twenty two"."""
    before, after = words[max(start - 1, 0) : start], words[end : end + 1]
    return any(is_number(words[start]) and is_number(each) for each in before) or any(
        is_number(words[end - 1]) and is_number(each) for each in after
    )


def _takes_text(schema: Any) -> bool:
    """Return whether a property accepts any text, which may accompany a choice."""
    others = ("integer", "number", "boolean")
    return (
        isinstance(schema, dict) and schema.get("type") not in others and not _has_options(schema)
    )


def _is_given(schema: Any, value: Any) -> bool:
    """Return whether a text is neither empty nor the default of the server."""
    return value not in (None, "") and value != schema.get("default")


def _is_nameable(value: Any) -> bool:
    """Return whether a value is chosen by name; a boolean requires a yes, null is not a choice."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _names(value: Any, name: str) -> Iterator[tuple[str, ...]]:
    """Yield the words that name an option: its title, its beginning, its value, a size's word."""
    ends = [at for sign in _OPENERS if (at := name.find(sign)) > 0]
    for text in (
        name,
        name[: min(ends)] if ends else "",
        str(value),
        *_SIZES.get(str(value).casefold(), ()),
    ):
        words = tuple(words_of(text))
        if words:
            yield words


def _phrases_for(place: int, *, numeric: bool) -> set[tuple[str, ...]]:
    """Return the phrases for the option at an index; omit bare numbers if options are numeric."""
    texts: list[str] = []
    if place < len(ORDINALS):
        for word in ORDINALS[place]:
            texts += _ORDINAL.format(word).split("|")
        texts += [f"a {word}" for word in ORDINALS[place][2:]]
    if not numeric:
        texts += _NUMBER.format("one" if place == 0 else place + 1).split("|")
        texts += _NUMBER.format(place + 1).split("|")
        if place < len(_DIGITS_HAN):
            texts += _NUMBER_HAN.format(_DIGITS_HAN[place]).split("|")
    return {tuple(words_of(text)) for text in texts}
