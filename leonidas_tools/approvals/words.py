"""Split speech into words that can be compared: numbers as digits, without soft punctuation."""

from __future__ import annotations

import functools
import re
import unicodedata
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_SPEECH_CHARACTERS = 20_000
"""Maximum length of the speech that is judged."""
_CURRENCIES = {
    "€": "euro",
    "$": "dollar",
    "£": "pound",
    "¥": "yuan",
    "₹": "rupee",
    "₽": "rouble",
    "euros": "euro",
    "dollars": "dollar",
    "pounds": "pound",
    "rupees": "rupee",
}
_APOSTROPHES = dict.fromkeys(map(ord, "\u2019\u02bc`\u00b4"), "'")
_AMOUNT = re.compile(r"([€$£¥₹₽])\s?(\d+(?:[.,]\d+)*)")
_SOFT = frozenset(".,!?:'\"()…“”‘’«»–—、。，！？；：（）《》「」·¿¡")  # noqa: RUF001 - of several scripts
_PAUSE = re.compile(r"[.,;:!?\n](?=\s|$)|[。！？，、；：]|\s[-\u2013\u2014]+\s|[\u2013\u2014]")  # noqa: RUF001 - Chinese punctuation
# Dots at the start of a path segment change the path: `docs/..`, `.env`.
_TOKEN = re.compile(
    r"(?P<number>\d+(?:[.,]\d+)*)|(?P<dots>(?<![^\s/\\~])\.+)|(?P<wide>[\u3040-\u30ff\u3400-\u9fff])"
    r"|(?P<elided>(?<!\w)(?:[cdjlmnst]|qu|un|all|dall|dell|nell|sull)'(?=[^\W\d]|\Z))"
    r"|(?P<word>[^\W\d_\u3040-\u30ff\u3400-\u9fff]+(?:'[^\W\d_]+)*)|(?P<sign>\S)"
)


def words_of(text: str) -> list[str]:
    """Return the words, numbers and signs of a text, with each number as `#` and its digits.

    Example:
        >>> words_of("Pay €20, or twenty euros?"), words_of("没 问题")
        (['pay', '#20', 'euro', 'or', '#20', 'euro'], ['没', '问', '题'])
    """
    if text.isascii() and text.replace(" ", "").isalpha():
        plain_words = text.lower().split()  # most texts are so plain
        return _with_numbers([_CURRENCIES.get(word, word) for word in plain_words])
    plain = unicodedata.normalize("NFKC", text.translate(_APOSTROPHES)).casefold()
    plain = _AMOUNT.sub(r"\2 \1", plain)
    found: list[str] = []
    for match in _TOKEN.finditer(plain):
        token = match[0]
        if match.lastgroup == "number":
            found += _digits(token)
        elif token in _CURRENCIES:
            found.append(_CURRENCIES[token])
        elif match.lastgroup == "sign":
            if token not in _SOFT and not _joins_words(plain, match.start()):
                found.append(token)
        else:
            found.append(token)
    return _with_numbers(found)


def clauses_of(text: str) -> list[list[str]]:
    """Return the words of each part of a text between pauses."""
    return [words_of(part) for part in _PAUSE.split(text)]


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


_NUMERALS = """
0 zero|1 one um uma|2 two dois duas|3 three três tres|4 four quatro|5 five cinco|6 six seis
7 seven sete|8 eight oito|9 nine nove|10 ten dez|11 eleven onze|12 twelve doze|13 thirteen treze
14 fourteen catorze quatorze|15 fifteen quinze|16 sixteen dezesseis dezasseis
17 seventeen dezessete dezassete|18 eighteen dezoito|19 nineteen dezenove dezanove|20 twenty vinte
30 thirty trinta|40 forty quarenta|50 fifty cinquenta|60 sixty sessenta|70 seventy setenta
80 eighty oitenta|90 ninety noventa|100 cem cento|200 duzentos duzentas|300 trezentos
400 quatrocentos|500 quinhentos quinhentas|600 seiscentos|700 setecentos|800 oitocentos
900 novecentos
"""
_SCALES = {"hundred": 100, "thousand": 1000, "mil": 1000, "million": 10**6, "milhão": 10**6,
           "milhões": 10**6, "billion": 10**9}  # fmt: skip
_AND = frozenset({"and", "e"})
_ZH = {**{c: i for i, c in enumerate("零一二三四五六七八九")}, "两": 2, "兩": 2, "〇": 0}  # noqa: RUF001 - the Chinese zero
_ZH_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "萬": 10**4, "亿": 10**8}


@functools.cache
def _number_words() -> dict[str, int]:
    rows = (row.split() for line in _NUMERALS.split("\n") for row in line.split("|"))
    return {word: int(row[0]) for row in rows for word in row[1:]}


def _with_numbers(tokens: list[str]) -> list[str]:
    """Replace numbers in words by digits; join ambiguous ones to a token without a match."""
    numerals, found, end = _number_words(), [], 0
    while (start := end) < len(tokens):
        word, end = tokens[start], start + 1
        if word in numerals or word == "mil":
            while end < len(tokens) and (
                tokens[end] in numerals
                or tokens[end] in _SCALES
                or (tokens[end] in _AND and numerals.keys() & tokens[end + 1 : end + 2])
            ):
                end += 1
            found.append(_parse_spelled(tokens[start:end], numerals))
        elif word in _ZH or word in _ZH_SCALES:
            while end < len(tokens) and (tokens[end] in _ZH or tokens[end] in _ZH_SCALES):
                end += 1
            found.append(_parse_spelled_zh(tokens[start:end]))
        elif word in _SCALES and found and found[-1].startswith("#"):  # "20 thousand"
            found[-1] = _number(Decimal(found[-1][1:]) * _SCALES[word])
        else:
            found.append(word)
    return found


def _parse_spelled(tokens: Sequence[str], words: Mapping[str, int]) -> str:
    """Parse a number in English or Portuguese words; return others as one unmatched token."""
    total = current = 0
    room = 10**12
    for token in tokens:
        if token in _AND:
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


def _parse_spelled_zh(tokens: Sequence[str]) -> str:
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
ORDINALS = (
    ("first", "primeiro", "primeira"), ("second", "segundo", "segunda"),
    ("third", "terceiro", "terceira"), ("fourth", "quarto", "quarta"),
    ("fifth", "quinto", "quinta"), ("sixth", "sexto", "sexta"),
    ("seventh", "sétimo", "sétima"), ("eighth", "oitavo", "oitava"),
    ("ninth", "nono", "nona"), ("tenth", "décimo", "décima"),
)  # fmt: skip
"""English and Portuguese ordinals from the first on; the last of each is feminine."""
_POINTS = frozenset({"point", "comma", "ponto", "vírgula", "点"})
_PERCENT = frozenset({"%", "percent", "cento"})


def numbers_in(text: str) -> set[Decimal]:
    """Return the numbers that an utterance may denote, without their signs.

    Digits count in every language, and numerals in English, Portuguese and Chinese: also ordinals,
    words such as "a dozen", fractions, percentages, and a number dictated digit by digit.

    Example:
        >>> sorted(map(str, numbers_in("Two and a half, or twenty-five.")))
        ['0.5', '1', '2', '2.5', '25']
    """
    tokens = words_of(text)
    ordinals = {word: str(n) for n, words in enumerate(ORDINALS, 1) for word in words}
    found: set[Decimal] = set()
    run: list[str] = []
    for place, token in enumerate([*tokens, ""]):
        digits = _digits_of(token)
        if digits:
            run += digits
            found.update(map(Decimal, digits))
            found |= _read_suffix(Decimal(digits[-1]), tokens[place + 1 : place + 4])
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
    if token.startswith("#"):
        return [token[1:]]
    if token.startswith("?"):
        words = _number_words()
        return [str(words[each]) for each in token[1:].split() if each in words]
    return [token] if token.isdecimal() else []


def _read_suffix(number: Decimal, after: list[str]) -> set[Decimal]:
    """Return the values of a number with the decimals, half or percent sign after it."""
    found: set[Decimal] = set()
    decimals = "".join(_digits_of(after[1])) if len(after) > 1 else ""
    if decimals.isdecimal() and after[0] in _POINTS:
        found.add(Decimal(f"{number}.{decimals}"))
    if {"half", "meio", "meia", "半"}.intersection(after):
        found.add(number + Decimal("0.5"))
    if _PERCENT.intersection(after[:2]):
        found.add(number / 100)
    return found


def is_number(word: str) -> bool:
    """Return whether a word is a number, or numerals that do not form one number."""
    return word[:1] in {"#", "?"} and len(word) > 1


def is_wide(word: str) -> bool:
    """Return whether a word is a Chinese or Japanese character."""
    match = _TOKEN.fullmatch(word)
    return match is not None and match.lastgroup == "wide"


def repeats(speech: str, question: str) -> bool:
    """Return whether speech is very long, or has the words of a question in sequence."""
    if len(speech) > MAX_SPEECH_CHARACTERS:
        return True
    spoken, asked = words_of(speech), words_of(question)
    return any(spoken[at : at + len(asked)] == asked for at in range(len(spoken) + 1))
