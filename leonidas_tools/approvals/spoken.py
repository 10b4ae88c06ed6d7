"""Convert values to spoken words, and check that the model has spoken a question in full.

A question approves a call only if a listener can learn every value from it. `ValueSpeaker` refuses
all other values; `SpokenCheck` compares the model's transcript with the question.
"""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from leonidas_tools.redaction import MASK
from leonidas_tools.redaction.visible import is_visible

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_SAID = 80
"""Maximum length of a spoken value, in characters."""
MOST_ITEMS_SAID = 10
MOST_ARGUMENTS_SAID = 50
_LONGEST_SHORTENED = 20_000
"""Maximum length of a value that may be shortened to its beginning and end, in characters."""
_MOST_ITEMS_SHORTENED = 200
_LONGEST_SEARCHED = 2_000
_LONGEST_QUESTION = 400
_ENDS = 3
"""Number of items spoken at each end of a long list."""
_PLAIN_FLOAT = re.compile(r"-?\d+\.(?:\d{1,2}|\d{4,15})|-?0\.\d{1,15}")
_PAUSE = re.compile(r"[?!\n。？！，；：、]|[.,;:](?=\s|$)")  # noqa: RUF001 - Chinese punctuation
_LONGEST_SPEECH = 20_000
_CURRENCIES = {"€": "euro", "$": "dollar", "£": "pound", "¥": "yuan", "₹": "rupee", "₽": "rouble"}


def _table(text: str) -> dict[str, None]:
    """Return the words of a table, in order."""
    return dict.fromkeys(text.split())


_ANY_MONEY = "money"
_MONEY = {
    word: currency
    for currency, words in {
        "EUR": "euro euros eur",
        "USD": "dollar dollars usd",
        "GBP": "pound pounds gbp",
        "CNY": "yuan rmb cny 元 块",
        "JPY": "yen jpy",
        "INR": "rupee rupees",
        "BRL": "real reais brl",
        "CHF": "franc francs chf",
        "RUB": "rouble roubles",
        _ANY_MONEY: "money dinheiro 钱",
    }.items()
    for word in words.split()
}
"""Words for money, and the currency of each."""
_ASKING = _table("""
    shall should may can could would will i we you me do does want like to the a an of for
    from in on at with and so now just please really is are be that this it ok okay right correct
    confirm go ahead proceed yes agree allow then posso devo podemos quer queres gostaria
    deseja que eu para pra o os as ao à de do da dos em na com e por favor isto isso é certo
    confirma confirmas sim agora então mesmo fazer
    要 我 们 这 樣 样 做 吗 嗎 把 给 給 到 向 请 問 问 好 可 以 确 確

    认 認 是 的 您 你 想 现 現 在 行 对 對
    """)
"""Words that ask for consent and do not describe the action."""
_YES_OR_NO = [each.split() for each in ("yes or no", "sim ou não", "sim ou nao", "是 否")]
"""Phrases that offer yes and no; elsewhere, "or" begins another question, and "no" an answer."""
_SAYING = _table("say saying answer answering reply respond diga dizer responda responder 答")
_ANSWERS = _table("yes yeah no okay ok sim não nao 是 好 否 不")
_SAID_NEAR = 3
"""Number of words after one of `_SAYING` that are searched for `_ANSWERS`: together they tell the
user what an answer means, as in "Say yes to cancel"."""
_USER = _table("you 你 您")
_WILLING = _table("want like agree confirm ok okay 想 要 确 確 认 認 好 是")
_TOWARDS = _table("to for with from are 给 給 向 到 对 對")
"""Words after and before "you" that show that the user need not act: "you want", "for you"."""
_FILLERS = _table("really now just please 现 現 在")
_QUESTIONING = _table("""
    ? ？ shall should may can could would want posso devo podemos quer queres gostaria
    deseja 吗 嗎 要
    """)  # noqa: RUF001 - a full-width question mark
"""Signs and words that mark a question to the user."""
_ARTICLES = _table("the a an o os as 的 把")
_PREPOSITIONS = _table("to for in on at with para pra ao à em na com 到 向 给 給")
_TURNING = _table("from of de da dos no or yes ou sim agree")
"""Words that can reverse an action: "from Ana" for "to Ana"."""
_BEFORE = _ASKING.keys() - _TURNING.keys()
_BETWEEN = {"and", "e", *_ARTICLES, *_MONEY}
_HARMLESS = {*_ASKING, *_MONEY}
_AFTER = _ASKING.keys() - _PREPOSITIONS.keys() - {"from", "of", "de", "da", "dos"}
_OPPOSING = _table("""
    not never don't dont doesn't won't shouldn't wouldn't without instead or otherwise
    did didn't no não nao nunca sem ou 不 别 別 勿 或 还 還
    """)
_OPPOSED = 4
"""Number of words before a question that are searched for `_OPPOSING`. Such a word reverses it
("You don't want me to"), makes it the second of two ("Will you do it, or"), or refers to the
past ("Did I")."""
_MIXED = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")
_LIKE_LATIN = frozenset("абвгеһіјкмнопрсԁѕтухѵԛԝӏьαβγεζηικνορτυχωϲϳ")
_SCRIPTS = {"ru": "CYRILLIC", "uk": "CYRILLIC", "bg": "CYRILLIC", "sr": "CYRILLIC",
            "el": "GREEK", "hy": "ARMENIAN"}  # fmt: skip
_SOFT = frozenset(".,!?:'\"()…“”‘’«»、。，！？：；（）《》「」·¿¡")  # noqa: RUF001 - of several scripts
_SENTENCE = re.compile(r"[?!。？！\n]|\.(?=\s|$)")  # noqa: RUF001 - Chinese punctuation
# Dots at the start of a path segment change the path: `docs/..`, `.env`.
_TOKEN = re.compile(
    r"(?P<number>\d+(?:[.,]\d+)*)|(?P<dots>(?<![^\s/\\~])\.+)|(?P<wide>[\u3040-\u30ff\u3400-\u9fff])"
    r"|(?P<word>[^\W\d_\u3040-\u30ff\u3400-\u9fff]+(?:'[^\W\d_]+)*)|(?P<sign>\S)"
)


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
            if len(text) > LONGEST_SAID:
                raise UnsayableError
            return text
        if not isinstance(value, str):
            raise UnsayableError
        return self._say_text(value)

    def is_name(self, name: str) -> bool:
        """Return whether the name of a tool or an argument can be spoken unchanged.

        A name may come from a server or a model, so it must not sound like a sentence.
        """
        said = name.replace("_", " ")
        return (
            len(said) <= LONGEST_SAID and not _PAUSE.search(said) and is_plain(said, self.language)
        )

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
        if len(value) <= MOST_ITEMS_SAID:
            return ", ".join(map(self.say, value))
        if not self.shortens or len(value) > _MOST_ITEMS_SHORTENED:
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
        if len(text) > _LONGEST_SHORTENED or not _is_plain(text, self.language):
            raise UnsayableError
        return self._shortened(text)

    def _say_text(self, text: str) -> str:
        if not text:
            return "empty"
        if len(text) > (_LONGEST_SHORTENED if self.shortens else LONGEST_SAID):
            raise UnsayableError  # before each character is checked
        if text == MASK:
            return "hidden"
        if MASK in text or not _is_plain(text, self.language):
            raise UnsayableError
        said = self._shortened(text)
        if _pretends(said, self.names):
            raise UnsayableError
        return said

    @staticmethod
    def _shortened(text: str) -> str:
        if len(text) <= LONGEST_SAID:
            return text
        half = LONGEST_SAID // 2
        left = len(text) - 2 * half
        return f"{text[:half]}, {left} characters left out, {text[-half:]}"


def is_short(question: str) -> bool:
    """Return whether a question is short enough to be spoken and understood."""
    return len(question) <= _LONGEST_QUESTION


def is_plain(question: str, language: str) -> bool:
    """Return whether a question has no invisible, non-NFC or look-alike characters."""
    return _is_plain(" ".join(question.split()), language)


def has_question(value: Any) -> bool:
    """Return whether a text in a value may be a question, or the value is too large to search.

    Example:
        >>> [has_question(value) for value in (["Shall I play music"], "See you.", 20)]
        [True, False, False]
    """
    left, room = [value], _LONGEST_SEARCHED
    while left and room > 0:
        each = left.pop()
        if isinstance(each, str):
            if len(each) > room or not _QUESTIONING.keys().isdisjoint([*each, *_words(each)]):
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
    """Return a pattern that finds a name where a further argument could begin."""
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


class SpokenCheck:
    """Checks that the model has asked a question aloud.

    Args:
        question: The question, as sent to the model.
        tool: The tool's name; if empty, only the words of the question count.
        arguments: The spoken form of each argument, by name.
    """

    def __init__(self, question: str, tool: str, arguments: Mapping[str, str]) -> None:
        self._question = _words(question)
        self._tool = _words(tool.replace("_", " ").replace("-", " "))
        self._arguments = [
            (_words(name.replace("_", " ")), _words(text)) for name, text in arguments.items()
        ]
        named = (token for each in self._arguments for part in each for token in part)
        self._currencies = _currencies_in([*self._question, *self._tool, *named])

    def is_asked_in(self, speech: str) -> bool:
        """Return whether one turn of the model asks the question and says nothing else after it.

        The turn contains the question word for word, or a paraphrase: one sentence that asks for
        consent, names the tool, then all values, and has no other words. If a preposition could
        swap two values or reverse one, the paraphrase may use only those that name an argument.

        Example:
            >>> wanted = SpokenCheck("Shall I do this: send, to Ana, amount 20?", "send",
            ...                 {"to": "Ana", "amount": "20"})
            >>> [wanted.is_asked_in(said) for said in (
            ...     "Sure. Shall I do this: send, to Ana, amount twenty?", "Send €20 to Ana?",
            ...     "Send 20 euros to Ben?", "Send 200 euros to Ana?", "Send 20 from Ana?")]
            [True, True, False, False, False]
        """
        if len(speech) > _LONGEST_SPEECH:
            return False
        sentences = [said for each in _SENTENCE.split(speech) if (said := _words(each))]
        said = [token for each in sentences for token in each]
        place = _last(self._question, said)
        if _redefines_answers(sentences, len(said) if place is None else place):
            return False
        after = [] if place is None else said[place + len(self._question) :]
        if place is not None and _is_harmless(after) and self._is_in_currency(after):
            return self._begins_after(*_before(place, speech))
        for sentence in reversed(sentences):
            if self._is_paraphrased_in(sentence):
                return True
            if not _is_harmless(sentence):
                return False
        return False

    def is_repeated_in(self, speech: str) -> bool:
        """Return whether a turn is very long or has the words of the question, asked or not."""
        return len(speech) > _LONGEST_SPEECH or _last(self._question, _words(speech)) is not None

    def _begins_after(self, sentence: Sequence[str], clause: Sequence[str]) -> bool:
        """Return whether the words before the question leave its meaning unchanged."""
        if not _OPPOSING.keys().isdisjoint(sentence[-_OPPOSED:]):
            return False
        asks = bool(self._question) and self._question[0] in _QUESTIONING
        outside = sentence if asks else sentence[: len(sentence) - len(clause)]
        if not _QUESTIONING.keys().isdisjoint(outside):
            return False  # a part of another question: "Should I refuse this:"
        # So is "Send 20 to Ana?" after "Shall I wait before I".
        return asks or (_BEFORE.issuperset(clause) and not _leaves_it_to_user(sentence))

    def _is_in_currency(self, said: Sequence[str]) -> bool:
        """Return whether words name only the call's currencies, or at most one if it has none."""
        found = _currencies_in(said)
        return found <= self._currencies if self._currencies else len(found) <= 1

    def _is_paraphrased_in(self, said: list[str]) -> bool:
        if not self._tool or not all(_is_said(token, said) for token in self._tool):
            return False
        of_tool = [at for at, token in enumerate(said) if _is_said(token, self._tool)]
        start, end = of_tool[0], of_tool[-1] + 1
        # Only the order distinguishes two values of one kind.
        places = {True: start, False: start}
        left = [*said]
        for _, value in self._arguments:
            kind = all(map(_is_number, value))
            found = _first(value, left, places[kind])  # no word is said for two values
            if found is None:
                return False
            places[kind] = found + len(value)
            left[found : found + len(value)] = [""] * len(value)
        end = max(end, *places.values())
        core = said[start:end]
        return (
            _BEFORE.issuperset(said[:start])
            and not _leaves_it_to_user(said[:start])
            and not _leaves_it_to_user(said[end:])
            and self._words_between().issuperset(left[start:end])
            and self._is_in_currency(said)
            and _AFTER.issuperset(_without_yes_or_no(said[end:]))
            and not any(self._is_misnamed(name, value, core) for name, value in self._arguments)
        )

    def _words_between(self) -> set[str]:
        """Return the words allowed from the tool's name to the last value, besides the values."""
        names = {token for name, _ in self._arguments for token in name}
        words = {"", *_BETWEEN, *self._tool, *names}
        texts = [value for _, value in self._arguments if not all(map(_is_number, value))]
        if len(texts) > 1 or not names.isdisjoint({*_PREPOSITIONS, *_TURNING}):
            return words
        return words | _PREPOSITIONS.keys()

    def _is_misnamed(self, name: list[str], value: list[str], said: list[str]) -> bool:
        """Return whether an argument's name comes without its own value, or before another's."""
        places = [at for at in range(len(said)) if said[at : at + len(name)] == name]
        if not name or not places or set(self._tool).issuperset(name):
            return False
        others = [each for _, each in self._arguments if each and each != value]
        after = [_after_articles(said, at + len(name)) for at in places]
        return not any(said[at : at + len(value)] == value for at in after) or any(
            said[at : at + len(other)] == other for at in after for other in others
        )


def _redefines_answers(sentences: Sequence[Sequence[str]], end: int) -> bool:
    """Return whether a sentence that begins before a word says what a yes or a no will mean."""
    for sentence in sentences:
        before = _without_yes_or_no(sentence[: max(end, 0)])
        end -= len(sentence)
        for at, word in enumerate(before):
            near = before[at + 1 : at + 1 + _SAID_NEAR]
            if word in _SAYING and not _ANSWERS.keys().isdisjoint(near):
                return True
    return False


def _is_harmless(words: Sequence[str]) -> bool:
    """Return whether words after a question leave its meaning unchanged."""
    return _HARMLESS.issuperset(_without_yes_or_no(words)) and not _leaves_it_to_user(words)


def _leaves_it_to_user(words: Sequence[str]) -> bool:
    """Return whether words beside the action may ask the user to do it: "Will you"."""
    said = ["", *(each for each in words if each not in _FILLERS), ""]
    return any(
        word in _USER and before not in _TOWARDS and after not in _WILLING
        for before, word, after in zip(said, said[1:], said[2:], strict=False)
    )


def _without_yes_or_no(words: Sequence[str]) -> list[str]:
    """Return the words without the phrases that offer yes and no."""
    left: list[str] = []
    for word in words:
        left.append(word)
        for phrase in _YES_OR_NO:
            if left[-len(phrase) :] == phrase:
                del left[-len(phrase) :]
    return left


def _before(place: int, speech: str) -> tuple[list[str], list[str]]:
    """Return the words before the one at index `place`, in its sentence and in its clause."""
    for sentence in _SENTENCE.split(speech):
        words = _words(sentence)
        if place < len(words):

            def index_of(start: int, text: str = sentence, count: int = len(words)) -> int:
                return count - len(_words(text[start:]))

            starts = [0, *(match.end() for match in _PAUSE.finditer(sentence))]
            last = starts[bisect_right(starts, place, key=index_of) - 1]
            return words[:place], words[index_of(last) : place]
        place -= len(words)
    return [], []


def _currencies_in(words: Sequence[str]) -> set[str]:
    """Return the currencies that words name."""
    return {_MONEY[word] for word in words if word in _MONEY} - {_ANY_MONEY}


def _after_articles(words: Sequence[str], place: int) -> int:
    """Return the first index from `place` at which there is no article."""
    while place < len(words) and words[place] in _ARTICLES:
        place += 1
    return place


def _first(wanted: list[str], said: list[str], start: int) -> int | None:
    """Return the first index, from `start`, at which the words occur in sequence."""
    size = len(wanted)
    places = range(start, len(said) - size + 1)
    return next((i for i in places if said[i : i + size] == wanted), None)


def _last(wanted: list[str], said: list[str]) -> int | None:
    size = len(wanted)
    places = range(len(said) - size, -1, -1)
    return next((i for i in places if said[i : i + size] == wanted), None)


def _is_said(token: str, said: Sequence[str]) -> bool:
    return token in said or (token in _MONEY and any(each in _MONEY for each in said))


def _is_number(token: str) -> bool:
    return token.startswith("#")


def _words(text: str) -> list[str]:
    """Return the words, numbers and signs of a text, with each number as `#` and its digits."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")  # noqa: RUF001 - an apostrophe
    found: list[str] = []
    for match in _TOKEN.finditer(plain):
        token = match[0]
        if match.lastgroup == "number":
            found += _digits(token)
        elif match.lastgroup == "sign":
            if token in _CURRENCIES:
                found.append(_CURRENCIES[token])
            elif token not in _SOFT and not _joins_words(plain, match.start()):
                found.append(token)
        else:
            found.append(token)
    return _with_numbers(found)


def _joins_words(text: str, place: int) -> bool:
    """Return whether a hyphen joins two words, so that it is not audible."""
    around = text[max(place - 1, 0) : place], text[place + 1 : place + 2]
    return text[place] == "-" and all(each.isalpha() for each in around)


def _digits(text: str) -> list[str]:
    """Parse digits: a separator before groups of three means thousands, another one decimals."""
    if re.fullmatch(r"[1-9]\d{0,2}(?:([.,])\d{3})(?:\1\d{3})*", text):
        return [_number(Decimal(re.sub(r"\D", "", text)))]
    whole = re.fullmatch(r"([1-9]\d{0,2}(?:[.,]\d{3})+)[.,](\d{1,2})", text)
    if whole is not None:
        return [_number(Decimal(f"{re.sub(r'[^0-9]', '', whole[1])}.{whole[2]}"))]
    if re.fullmatch(r"(?:0|[1-9]\d*)(?:[.,]\d+)?", text):
        return [_number(Decimal(text.replace(",", ".")))]
    return re.findall(r"\d+", text) if re.search("[.,]", text) else [text]


def _number(value: Decimal) -> str:
    try:
        return f"#{value.normalize():f}"
    except InvalidOperation:
        return f"#{value}"


_SMALL_EN = (
    *_table("""
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen
"""),
)
_TENS_EN = (
    *_table("""
twenty thirty forty fifty sixty seventy eighty ninety
"""),
)
_SMALL_PT = (
    *_table("""
zero um dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze dezesseis
dezessete dezoito dezenove
"""),
)
_TENS_PT = (
    *_table("""
vinte trinta quarenta cinquenta sessenta setenta oitenta noventa
"""),
)
_HUNDREDS_PT = (
    *_table("""
cem duzentos trezentos quatrocentos quinhentos seiscentos setecentos oitocentos novecentos
"""),
)
_OTHER_PT = {"uma": 1, "duas": 2, "tres": 3, "quatorze": 14, "dezasseis": 16, "dezassete": 17,
             "dezanove": 19, "cento": 100, "duzentas": 200, "quinhentas": 500}  # fmt: skip
_SCALES = {"hundred": 100, "thousand": 1000, "mil": 1000, "million": 10**6, "milhão": 10**6,
           "milhões": 10**6, "billion": 10**9}  # fmt: skip
_ZH = {**{c: i for i, c in enumerate("零一二三四五六七八九")}, "两": 2, "兩": 2, "〇": 0}  # noqa: RUF001 - the Chinese zero
_ZH_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "萬": 10**4, "亿": 10**8}


@functools.cache
def _number_words() -> dict[str, int]:
    return {
        **{word: i for i, word in enumerate(_SMALL_EN)},
        **{word: 20 + 10 * i for i, word in enumerate(_TENS_EN)},
        **{word: i for i, word in enumerate(_SMALL_PT)},
        **{word: 20 + 10 * i for i, word in enumerate(_TENS_PT)},
        **{word: 100 + 100 * i for i, word in enumerate(_HUNDREDS_PT)},
        **_OTHER_PT,
    }


def _with_numbers(tokens: list[str]) -> list[str]:
    """Replace numbers in words by digits; join ambiguous ones to a token that matches nothing."""
    words, found, i = _number_words(), [], 0
    while i < len(tokens):
        end = i
        while end < len(tokens) and (
            tokens[end] in words
            or (end > i and tokens[end] in _SCALES)
            or (tokens[end] == "mil" and end == i)
            or (end > i and tokens[end] in {"and", "e"} and end + 1 < len(tokens)
                and (tokens[end + 1] in words))
        ):  # fmt: skip
            end += 1
        if end > i:
            found.append(_spelled(tokens[i:end], words))
            i = end
            continue
        while end < len(tokens) and (tokens[end] in _ZH or tokens[end] in _ZH_SCALES):
            end += 1
        if end > i:
            found.append(_spelled_zh(tokens[i:end]))
            i = end
            continue
        scale = _SCALES.get(tokens[i])
        if scale and found and _is_number(found[-1]):  # "20 thousand"
            found[-1] = _number(Decimal(found[-1][1:]) * scale)
        else:
            found.append(tokens[i])
        i += 1
    return found


def _spelled(tokens: Sequence[str], words: Mapping[str, int]) -> str:
    """Parse a number in English or Portuguese words; return others as one unmatched token."""
    total = current = 0
    room = 10**12
    for token in tokens:
        if token in {"and", "e"}:
            continue
        value = _SCALES.get(token)
        if value is None:
            value = words[token]
            if value >= room and current:
                return "?" + " ".join(tokens)
            current += value
            room = 100 if value >= 100 else 10 if value >= 20 else 0  # noqa: PLR2004 - places
        elif value == 100:  # noqa: PLR2004 - a hundred
            current, room = max(current, 1) * 100, 100
        else:
            total, current, room = total + max(current, 1) * value, 0, 10**12
    return _number(Decimal(total + current))


def _spelled_zh(tokens: Sequence[str]) -> str:
    if all(token in _ZH for token in tokens):
        return _number(Decimal("".join(str(_ZH[token]) for token in tokens)))
    total = section = digit = 0
    for token in tokens:
        scale = _ZH_SCALES.get(token)
        if scale is None:
            digit = _ZH[token]
        elif scale >= 10**4:
            total, section, digit = (total + section + digit) * scale, 0, 0
        else:
            section, digit = section + (digit or 1) * scale, 0
    return _number(Decimal(total + section + digit))


_AMOUNTS = {
    "none": "0", "nothing": "0", "nenhum": "0", "nenhuma": "0", "nada": "0",
    "a": "1", "an": "1", "single": "1", "once": "1", "me": "1", "mim": "1",
    "couple": "2", "both": "2", "pair": "2", "twice": "2", "par": "2", "casal": "2",
    "ambos": "2", "ambas": "2", "double": "2", "双": "2",
    "dozen": "12", "dúzia": "12", "打": "12",
    "half": "0.5", "meio": "0.5", "meia": "0.5", "半": "0.5", "quarter": "0.25",
}  # fmt: skip
"""Words for amounts that are not numerals."""
_ORDINAL_WORDS = (
    "first primeiro primeira|second segundo segunda|third terceiro terceira|fourth quarto quarta|"
    "fifth quinto quinta|sixth sexto sexta|seventh sétimo sétima|eighth oitavo oitava|"
    "ninth nono nona|tenth décimo décima"
)
_POINTS = frozenset({"point", "comma", "ponto", "vírgula", "点"})
_PERCENT = frozenset({"%", "percent", "cento"})


def numbers_in(text: str) -> set[Decimal]:
    """Return the numbers that a speaker may have meant, without their signs.

    Digits count in every language, and numerals in English, Portuguese and Chinese: also ordinals,
    words such as "a dozen", fractions, percentages, and a number dictated digit by digit.

    Example:
        >>> sorted(map(str, numbers_in("Two and a half, or twenty-five.")))
        ['0.5', '1', '2', '2.5', '25']
    """
    tokens = _words(text)
    ordinals = {w: str(n) for n, each in enumerate(_ORDINAL_WORDS.split("|"), 1)
                for w in each.split()}  # fmt: skip
    found: set[Decimal] = set()
    run: list[str] = []
    for place, token in enumerate([*tokens, ""]):
        digits = _digits_of(token)
        if digits:
            run += digits
            found.update(map(Decimal, digits))
            found |= _continued(Decimal(digits[-1]), tokens[place + 1 : place + 4])
            continue
        joined = "".join(run)
        if joined.isdecimal():
            found.add(Decimal(joined))
        run = []
        other = _AMOUNTS.get(token) or ordinals.get(token)
        if other is not None:
            found.add(Decimal(other))
    return found


def _digits_of(token: str) -> list[str]:
    """Return the number of a token, or its numerals if they do not form one number."""
    if _is_number(token):
        return [token[1:]]
    if token.startswith("?"):
        words = _number_words()
        return [str(words[each]) for each in token[1:].split() if each in words]
    return [token] if token.isdecimal() else []


def _continued(number: Decimal, after: list[str]) -> set[Decimal]:
    """Return the values of a number with the decimals, half or percent sign after it."""
    found: set[Decimal] = set()
    if (
        len(after) > 1
        and after[0] in _POINTS
        and (part := "".join(_digits_of(after[1]))).isdecimal()
    ):
        found.add(Decimal(f"{number}.{part}"))
    if {"half", "meio", "meia", "半"}.intersection(after):
        found.add(number + Decimal("0.5"))
    if _PERCENT.intersection(after[:2]):
        found.add(number / 100)
    return found
