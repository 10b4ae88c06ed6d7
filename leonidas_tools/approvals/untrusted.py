"""Mark sessions that have read untrusted content, and find arguments that are not the user's.

A text that a tool has returned may instruct the model. An argument that the model then passes to
a tool counts as the user's only if the user has said or typed it.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from leonidas_tools.approvals.lexicon import lexicon
from leonidas_tools.approvals.session_policy import user_of
from leonidas_tools.approvals.transcript import Transcript
from leonidas_tools.approvals.words import numbers_in
from leonidas_tools.calls.invocation import innermost
from leonidas_tools.calls.records import record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from leonidas_tools.calls.call import ToolCall, ToolSession

_MAX_TOOLS = 16
_MAX_SESSIONS = 16
_MAX_CHARACTERS = 16_384
"""Maximum characters of the user's latest speech that arguments are compared with."""
_MAX_LEAVES = 256
_MAX_DEPTH = 16
_MIN_CHARACTERS = 3
_MIN_CJK_CHARACTERS = 2
_SPOKEN_FROM = 2
"""The smallest number that counts in words: "a" and "one" occur in any speech."""
_COMMON_WORDS = """
all any and are but can for him his her its not now off one our out she the them then they this
that these those what when which who will with yes you your everything everyone every anything
something everybody nothing none here there true false null tudo todos todas sim não para com que
uma isto isso este esta seu sua eles elas 全部 所有 一切 这个 那个 这些 那些 我们 你们 他们
"""
_COMMON = frozenset(_COMMON_WORDS.split())
"""Words that occur in any speech: alone they do not make a call the user's."""
_OPENING = "\"'“”‘’«»([{<¿¡"  # noqa: RUF001 - of several languages
_CLOSING = "\"'“”‘’«»)]}>.,!?;:…。，！？；：、」』）"  # noqa: RUF001 - of several languages
_OPENING_CJK = "「『（"  # noqa: RUF001 - of several languages
_STOP = re.compile(r"(?<![.,/\\])[.,]\Z")
"""A full stop or comma after a word, but not the end of a path such as `..`."""
_OTHER = "\0"
"""A placeholder that no argument contains."""
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_DIGITS = re.compile(r"(?<![\w.\-/])\d+(?:,\d{3})*(?:\.\d+)?(?!\d|[,.\-/:]\d)")
_NEGATIVE = re.compile(r"(?:(?<![\w.])-|\b(?:minus|negative|menos)\s+|负)(\d+(?:\.\d+)?)(?![\d.])")
_NUMBER = re.compile(r"(?:0|[1-9]\d{0,30})(?:\.\d{1,30})?")
_SENTENCES = re.compile(r"([.!?](?=\s|\Z)|[\n。！？])")  # noqa: RUF001 - Chinese punctuation

_Origin: TypeAlias = Literal["foreign", "weak", "strong"]
"""The origin of a value. A weak value is the user's, but is a number, or is too short or common to
show which call was meant."""


class UntrustedContent:
    """The tools whose untrusted results a session has read.

    Example:
        >>> content = UntrustedContent()
        >>> content.mark("read_page"), content.mark("read_page"), content.tools
        (True, False, ('read_page',))
        >>> content.clear()
        >>> content.tools
        ()
    """

    __slots__ = ("_heard", "tools")

    def __init__(self) -> None:
        self._heard: dict[str, _SearchableText] = {}
        self.tools: tuple[str, ...] = ()
        """The names of the tools, in the order of their first results."""

    def mark(self, tool: str) -> bool:
        """Record that a result of a tool was read, and return whether the tool is new."""
        if tool in self.tools:
            return False
        self.tools = (*self.tools, tool)[:_MAX_TOOLS]
        return tool in self.tools

    def words_of(self, texts: Sequence[str]) -> UserWords:
        """Return the words of a user; parse each utterance only once."""
        self._heard = {text: self._heard.get(text) or _SearchableText(text) for text in texts}
        return UserWords(tuple(_not_taken_back(self._heard[text] for text in texts)))

    def clear(self) -> None:
        """Remove the mark, for example when the model begins with an empty context."""
        self.tools = ()


@record
class Foreign:
    """The reason to ask about a call: it may follow from untrusted content.

    Args:
        tools: The tools whose untrusted results were read.
        arguments: The arguments that did not come from the user; empty if all of them did, but
            nothing that the user has said identifies this call.
    """

    tools: tuple[str, ...]
    arguments: tuple[str, ...]


def mark(call: ToolCall) -> bool:
    """Mark the sessions of a call and of its outer calls; return whether a mark is new."""
    marked = [session.get(UntrustedContent).mark(call.name) for session in _sessions(call.session)]
    return any(marked)


def tools_read_in(session: ToolSession) -> tuple[str, ...]:
    """Return the tools whose untrusted results a session has read."""
    content = session.find(UntrustedContent)
    return () if content is None else content.tools


def has_read_untrusted(session: ToolSession) -> bool:
    """Return whether this session or that of an outer call is marked; this check is cheap."""
    if tools_read_in(session):
        return True
    here = innermost()
    if here is None or (here.outer is None and here.call.session is session):
        return False
    return bool(_tools_read(session))


def foreign(
    call: ToolCall, parameters: Mapping[str, Any], presets: Mapping[str, Any]
) -> Foreign | None:
    """Return why a call may follow from untrusted content; `None` if it is the user's.

    It is the user's if it has arguments, and the user has said or typed every value in them. One
    value must be more than a number or common words, or the user must have said the tool's name.
    Defaults of the schema and presets of the settings do not count as arguments.
    """
    tools = _tools_read(call.session)
    if not tools:
        return None
    properties = parameters.get("properties", {})
    names = _property_names(parameters)
    given = {
        name: value
        for name, value in call.arguments.items()
        if not _is_default(name, value, properties, presets)
    }
    words = call.session.get(UntrustedContent).words_of(_texts(call.session))
    judged = {name: set(words.judge_all(value, names)) for name, value in given.items()}
    others = tuple(name for name, found in judged.items() if "foreign" in found)
    if not others and given:
        is_told = any("strong" in found for found in judged.values())
        if is_told or words.names_tool(call.name):
            return None
    return Foreign(tools=tools, arguments=others)


class UserWords:
    """The words of a user, for comparison with the arguments of a call.

    Example:
        >>> words = UserWords.of(["Mail Ana's report to bob@example.org.", "Pay him 120 euros."])
        >>> [words.judge(v) for v in ("bob@example.org", "Ana", 120, "him", "eve@example.org", 12)]
        ['strong', 'strong', 'weak', 'weak', 'foreign', 'foreign']
    """

    def __init__(self, heard: Sequence[_SearchableText]) -> None:
        self._heard = heard

    @classmethod
    def of(cls, texts: Sequence[str]) -> UserWords:
        """Return the words of these utterances."""
        return cls(tuple(map(_SearchableText, texts)))

    def judge(self, value: Any) -> _Origin:
        """Return the origin of a single value."""
        if isinstance(value, str):
            return self._judge_text(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return "foreign"
        return self._judge_number(Decimal(str(value)))

    def names_tool(self, tool: str) -> bool:
        """Return whether the user has said all words of a tool's name that are not common."""
        words = [each for each in re.split(r"[\W_]+", _normal(tool)) if _is_telling([each])]
        return bool(words) and all(any(said.has([each]) for said in self._heard) for each in words)

    def judge_all(self, value: Any, names: frozenset[str]) -> Iterator[_Origin]:
        """Yield the origin of each nested value, and of each key that is not in `names`."""
        left = [(value, 0)]
        count = 0
        while left:
            each, depth = left.pop()
            count += 1
            if depth > _MAX_DEPTH or count > _MAX_LEAVES:
                yield "foreign"
                return
            if isinstance(each, dict) and each:
                left += [(key, depth + 1) for key in each if key not in names]
                left += [(inner, depth + 1) for inner in each.values()]
            elif isinstance(each, list | tuple) and each:
                left += [(inner, depth + 1) for inner in each]
            else:
                yield self.judge(each)

    def _judge_text(self, value: str) -> _Origin:
        text = _normal(value)
        if len(text) > _MAX_CHARACTERS or _OTHER in text:
            return "foreign"
        chunks = [_STOP.sub("", chunk) for chunk in text.split()]
        if not chunks or not all(chunks):
            return "foreign"
        if any(said.has(chunks) for said in self._heard):
            return "strong" if _is_telling(chunks) else "weak"
        if _CJK.search(text):
            joined = "".join(chunks)
            if any(joined in said.joined for said in self._heard):
                return "strong" if _is_telling([joined]) else "weak"
        is_number = _NUMBER.fullmatch(text) is not None
        return self._judge_number(Decimal(text), spoken=False) if is_number else "foreign"

    def _judge_number(self, value: Decimal, *, spoken: bool = True) -> _Origin:
        if not value.is_finite():
            return "foreign"
        is_said = any(said.has_number(value, spoken=spoken) for said in self._heard)
        return "weak" if is_said else "foreign"


class _SearchableText:
    """One utterance of the user, in a form that can be searched."""

    def __init__(self, text: str) -> None:
        self._text = _after_refusals(_normal(text))
        self.takes_back = lexicon().only_refuses(text)
        """True if the utterance only refuses an earlier one."""
        plain = f" {' '.join(_spoken_chunks(self._text))} "
        owners = plain.replace("'s ", " ").replace("’s ", " ")  # noqa: RUF001 - an apostrophe
        self._chunks = plain if owners == plain else f"{plain}{_OTHER}{owners}"

    def has(self, chunks: Sequence[str]) -> bool:
        """Return whether these words were said in sequence."""
        return f" {' '.join(chunks)} " in self._chunks

    def has_number(self, value: Decimal, *, spoken: bool) -> bool:
        """Return whether a number was said, in digits or, if `spoken`, in words."""
        if value < 0:
            return -value in self._negatives
        return value in self._digits or (spoken and value in self._numbers)

    @cached_property
    def joined(self) -> str:
        """Return the text without spaces."""
        return "".join(self._text.split())

    @cached_property
    def _digits(self) -> frozenset[Decimal]:
        return frozenset(Decimal(each.replace(",", "")) for each in _DIGITS.findall(self._text))

    @cached_property
    def _numbers(self) -> frozenset[Decimal]:
        return frozenset(each for each in numbers_in(self._text) if each >= _SPOKEN_FROM)

    @cached_property
    def _negatives(self) -> frozenset[Decimal]:
        return frozenset(map(Decimal, _NEGATIVE.findall(self._text)))


def _not_taken_back(heard: Iterable[_SearchableText]) -> Iterator[_SearchableText]:
    """Yield utterances, the latest first, except those that the next one retracts."""
    is_taken_back = False
    for said in heard:
        if not is_taken_back:
            yield said
        is_taken_back = said.takes_back


def _after_refusals(text: str) -> str:
    """Return the text after the last sentence with a word of refusal or exception."""
    kept = ""
    pieces = [*_SENTENCES.split(text), ""]
    for sentence, stop in zip(pieces[::2], pieces[1::2], strict=True):
        kept = f" {_OTHER} " if lexicon().excludes(sentence) else f"{kept}{sentence}{stop}"
    return kept


def _is_telling(chunks: Sequence[str]) -> bool:
    """Return whether a word is long enough, uncommon and not a number."""
    return any(
        len(each) >= (_MIN_CJK_CHARACTERS if _CJK.search(each) else _MIN_CHARACTERS)
        and each not in _COMMON
        and any(sign.isalpha() for sign in each)
        for each in chunks
    )


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", text).lower()  # `casefold` would make "ß" and "ss" the same


def _spoken_chunks(text: str) -> list[str]:
    """Return the words of a text, without the punctuation around them."""
    chunks = (each.lstrip(_OPENING + _OPENING_CJK).rstrip(_CLOSING) for each in text.split())
    return [each or _OTHER for each in chunks]


def _is_default(
    name: str, value: Any, properties: Mapping[str, Any], presets: Mapping[str, Any]
) -> bool:
    """Return whether a call without the argument would use the same value."""
    if name in presets:
        return _is_same(presets[name], value)
    schema = properties.get(name)
    return isinstance(schema, dict) and "default" in schema and _is_same(schema["default"], value)


def _is_same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def _property_names(schema: Any) -> frozenset[str]:
    """Return the names of all properties in a schema, at any depth."""
    names: set[str] = set()
    left = [schema]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            properties = each.get("properties")
            names.update(properties if isinstance(properties, dict) else ())
            left += each.values()
        elif isinstance(each, list):
            left += each
    return frozenset(names)


def _sessions(session: ToolSession) -> list[ToolSession]:
    """Return a session and the sessions of its outer calls."""
    found, here = [session], innermost()
    while here is not None and len(found) < _MAX_SESSIONS:
        if here.call.session not in found:
            found.append(here.call.session)
        here = here.outer
    return found


def _tools_read(session: ToolSession) -> tuple[str, ...]:
    return tuple(dict.fromkeys(t for each in _sessions(session) for t in tools_read_in(each)))


def _texts(session: ToolSession) -> list[str]:
    """Return the user's texts in the session, and in outer sessions of the same user."""
    user, texts = user_of(session), []
    for each in _sessions(session):
        transcript = each.find(Transcript)
        if transcript is not None and (each is session or user_of(each) == user):
            texts += transcript.user_texts(_MAX_CHARACTERS)
    return texts
